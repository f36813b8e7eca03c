"""The figures of the paper, drawn from stored results or made from scratch: ``python -m paper_figures``."""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata", "theory", "implicit", "analysis")
