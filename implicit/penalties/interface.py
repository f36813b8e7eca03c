"""A penalty, as the curriculum, the objective and the metrics see it."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.gradients import GradientRule
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.modes import SequenceSolution
from theory.transition import State


@dataclass(frozen=True, eq=False)
class Solved:
    """A batch of training, ``[batch, length]``, at its fixed points from the state before the first token.

    Training finds and differentiates them by ``stopping`` and ``gradient``; ``noise`` draws what a penalty
    draws.
    """

    model: FixedPointModel
    tokens: Tensor
    state: State
    solution: SequenceSolution
    gradient: GradientRule
    stopping: Stopping
    lengths: Tensor | None = None
    noise: torch.Generator | None = None

    @property
    def latents(self) -> Tensor:
        """The fixed points without gradient, ``[batch, length, features]``."""
        return self.solution.latents.detach()


class Penalty(CheckedConfig):
    """A term of the loss in the free phase, with its options, which a curriculum has as NAME_weight.

    Attributes:
        weight: factor in the loss; none is measured where it is 0.
        after_learning: it waits, as sequences that go on do, until the task is learnt.
        evaluations: of the self-map with gradient, per token; None where it solves for fixed points itself.
    """

    after_learning: ClassVar[bool] = False
    evaluations: ClassVar[int | None] = 0

    weight: NonNegativeFloat = 0.0

    @abstractmethod
    def measure(self, solved: Solved) -> Tensor:
        """Return the penalty of a batch, a scalar with gradient, without its weight."""

    def check(self, model: SequenceModel) -> None:
        """Refuse a model that the penalty is not for, before training.

        The InputError names the model and the remedy.
        """
