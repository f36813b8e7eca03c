"""The figures of the paper, drawn from stored results or made from scratch: ``python -m paper_figures``."""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

# isort: split
import lazy_loader

require("automata", "theory", "implicit", "analysis")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
