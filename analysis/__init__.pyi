"""The public names and where they are defined, for type checkers and for importing them late."""

from . import agreement as agreement
from . import all_lengths as all_lengths
from . import all_words as all_words
from . import belief as belief
from . import certify as certify
from . import check_certificate as check_certificate
from . import convergence as convergence
from . import demo as demo
from . import error_control as error_control
from . import executed as executed
from . import extraction as extraction
from . import framework as framework
from . import front_speed as front_speed
from . import jacobian as jacobian
from . import length_generalization as length_generalization
from . import mechanism as mechanism
from . import modes as modes
from . import report as report
from .framework.figures import save_figure as save_figure, styled as styled
from .questions import QUESTIONS as QUESTIONS, ask as ask

__version__: str
