"""The modes of evaluation: in which order the fixed points of the tokens are sought."""

from implicit.modes.plain import solve_sequentially, solve_simultaneously
from implicit.modes.recurrence import Inputs, ModeResult, Recurrence
from implicit.modes.solve import MODES, Mode, SequenceSolution, Solve, checked_solve, chosen_mode, solve_by
from implicit.modes.windowed import Windowed, solve_windowed

__all__ = [
    "MODES",
    "Inputs",
    "Mode",
    "ModeResult",
    "Recurrence",
    "SequenceSolution",
    "Solve",
    "Windowed",
    "checked_solve",
    "chosen_mode",
    "solve_by",
    "solve_sequentially",
    "solve_simultaneously",
    "solve_windowed",
]
