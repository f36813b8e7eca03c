"""The modes of evaluation: in which order the fixed points of the tokens are sought."""

from implicit.modes.plain import solve_sequentially, solve_simultaneously
from implicit.modes.recurrence import ModeResult, Recurrence
from implicit.modes.windowed import Windowed, solve_windowed

__all__ = [
    "ModeResult",
    "Recurrence",
    "Windowed",
    "solve_sequentially",
    "solve_simultaneously",
    "solve_windowed",
]
