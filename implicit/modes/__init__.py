"""The modes of evaluation: in which order the fixed points of the tokens are sought."""

from implicit.modes.plain import (
    solve_sequentially as solve_sequentially,
    solve_simultaneously as solve_simultaneously,
)
from implicit.modes.recurrence import Inputs as Inputs, ModeResult as ModeResult, Recurrence as Recurrence
from implicit.modes.solve import (
    MODES as MODES,
    Mode as Mode,
    SequenceSolution as SequenceSolution,
    Solve as Solve,
    checked_solve as checked_solve,
    chosen_mode as chosen_mode,
    solve_by as solve_by,
)
from implicit.modes.windowed import Windowed as Windowed, solve_windowed as solve_windowed
