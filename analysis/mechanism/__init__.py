"""By which mechanism do models track an automaton? ``python -m analysis.mechanism RUN [RUN ...]``."""

from analysis.mechanism.codes import Codes, alignment, chance_alignment, codes_of
from analysis.mechanism.command import ANALYSIS, main
from analysis.mechanism.drawing import draw
from analysis.mechanism.dynamics import Dynamics, measure_dynamics, share_written
from analysis.mechanism.measurement import (
    Likeness,
    MechanismAnalysis,
    MechanismSettings,
    RunMechanism,
    compare,
)
from analysis.mechanism.reporting import tables
from analysis.mechanism.swapping import Swap, swap_parts
from analysis.mechanism.symmetry import Symmetry, symmetry_of
from analysis.mechanism.visits import Visits, visit_classes

__all__ = [
    "ANALYSIS",
    "Codes",
    "Dynamics",
    "Likeness",
    "MechanismAnalysis",
    "MechanismSettings",
    "RunMechanism",
    "Swap",
    "Symmetry",
    "Visits",
    "alignment",
    "chance_alignment",
    "codes_of",
    "compare",
    "draw",
    "main",
    "measure_dynamics",
    "share_written",
    "swap_parts",
    "symmetry_of",
    "tables",
    "visit_classes",
]
