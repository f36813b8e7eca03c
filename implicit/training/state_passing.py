"""Sequences that go on from where those of the last training step ended: long histories at no extra cost.

If the state drifts slowly, sequences longer than those of training lead it elsewhere, and the model fails
there (figures in docs/log_archive.md). No gradient goes through the state that is passed.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError
from automata.tasks.interface import Task
from implicit.cells import keep_where
from implicit.config.curriculum import Curriculum
from implicit.fixed_point import Solution
from implicit.models.interface import SequenceModel
from theory.transition import State


@dataclass(frozen=True, eq=False)
class PassedState:
    """The ends of the sequences of a training step.

    Those that reached the fixed point at every token may go on; all of an explicit model do. With
    ``carried_right`` of the curriculum, only those do that answered rightly. Source: Buitrago & Gu 2025,
    arXiv 2507.02782, who call it state passing.
    """

    state: State  # after the last token, with a leading batch axis, without gradient
    end: Tensor  # where the task's exact object stands there, int64 ``[batch]``
    reached: Tensor  # which sequences may go on, bool ``[batch]``

    @classmethod
    def of(
        cls, state: State, end: Tensor, solution: Solution | None, right: Tensor | None = None
    ) -> "PassedState":
        """Return where a step ended; all sequences may go on where ``solution`` and ``right`` are None.

        Where answers follow from a state, that of a sequence that answered wrongly is that of another word.
        """
        detached = {name: part.detach() for name, part in state.items()}
        reached = (
            torch.ones_like(end, dtype=torch.bool) if solution is None else solution.converged.all(dim=1)
        )
        return cls(detached, end, reached if right is None else reached & right)

    def go_on(
        self, state: State, start: Tensor, share: float, noise: torch.Generator
    ) -> tuple[State, Tensor]:
        """Return the starts of the next step: a share of the reached ones from here, the others as given."""
        drawn = torch.rand(len(self.end), generator=noise, dtype=torch.float32) < share
        chosen = drawn.to(self.reached.device) & self.reached
        return keep_where(chosen, self.state, state), torch.where(chosen, self.end, start)

    def tensors(self) -> dict[str, Tensor]:
        """Return all of it as named tensors, for a checkpoint."""
        states = {f"state.{name}": part for name, part in self.state.items()}
        return {**states, "end": self.end, "reached": self.reached}

    @classmethod
    def from_tensors(cls, tensors: dict[str, Tensor]) -> "PassedState":
        """Undo `tensors`."""
        states = {
            name.removeprefix("state."): part for name, part in tensors.items() if name.startswith("state.")
        }
        return cls(states, tensors["end"], tensors["reached"])


def check_state_passing(curriculum: Curriculum, task: Task, model: SequenceModel) -> None:
    """Refuse a curriculum whose sequences go on, for a task or a model that cannot."""
    if curriculum.carried_share == 0:
        return
    if model.state_grows:
        raise InputError(
            f"carried_share is {curriculum.carried_share}, but the state of {model.name} grows with every "
            "token; give 0 for this model"
        )
    if not task.continues:
        raise InputError(
            f"carried_share is {curriculum.carried_share}, but sequences of {task.name} begin anew in every "
            "batch; give 0 for this task"
        )
