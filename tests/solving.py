"""One object with all that tests ask of a solve: the fixed points with the logits and the state."""

from typing import Any

from torch import Tensor

from implicit.models.interface import ModelOutput, SequenceModel
from implicit.modes import Mode, Solve, Windowed
from theory.transition import State


class Solved:
    """The output of `run`, its solution's attributes beside its own."""

    def __init__(self, output: ModelOutput) -> None:
        assert output.solution is not None
        self.logits, self.state, self.solution = output.logits, output.state, output.solution

    def __getattr__(self, name: str) -> Any:
        return getattr(self.solution, name)


def solved(
    model: SequenceModel,
    tokens: Tensor,
    mode: Mode | Windowed = "simultaneous",
    *,
    state: State | None = None,
    **options: Any,
) -> Any:
    """Run an implicit model; the simultaneous mode unless another is named."""
    return Solved(model.run(tokens, state, Solve(mode, **options)))
