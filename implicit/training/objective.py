"""What is minimised: the cross-entropy of the label after every token, and penalties if the phase has any."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from implicit.config.curriculum import Phase
from implicit.models.implicit_mamba2 import ImplicitMamba2, SequenceSolution
from implicit.models.interface import SequenceModel
from implicit.training.penalties.contraction import contraction_penalty
from implicit.training.penalties.forgetting import forgetting_penalty
from theory.transition import State


@dataclass(frozen=True)
class Objective:
    """The loss of one batch, with what it was computed from.

    Attributes:
        loss: mean cross-entropy over all tokens, in nats, a scalar with gradient.
        penalty: weighted contraction penalty, a scalar with gradient; None where the phase asks for none.
        forgetting: weighted forgetting penalty, likewise.
        accuracy: share of all tokens whose most probable class is the label.
        solution: the fixed points of an implicit model; None for an explicit one.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.curriculum import Curriculum
        >>> from implicit.models.registry import build_model
        >>> model = build_model("lstm", {}, make_task("parity"))
        >>> tokens = torch.tensor([[0, 1, 1]])
        >>> result = objective(model, tokens, torch.tensor([[0, 1, 0]]), Curriculum().phase(1, length=3))
        >>> result.loss.shape, 0 < result.loss.item() < 2, result.solution
        (torch.Size([]), True, None)
    """

    loss: Tensor
    penalty: Tensor | None
    forgetting: Tensor | None
    accuracy: float
    solution: SequenceSolution | None

    @property
    def total(self) -> Tensor:
        """The loss with its penalties."""
        return self.loss + sum(part for part in (self.penalty, self.forgetting) if part is not None)


def objective(
    model: SequenceModel,
    tokens: Tensor,
    labels: Tensor,
    phase: Phase,
    noise: torch.Generator | None = None,
    state: State | None = None,
) -> Objective:
    """Compute the loss of a batch; an implicit model is solved and differentiated as the phase says.

    Args:
        model: any model.
        tokens: ``[batch, length]``, int64.
        labels: the class after every token, ``[batch, length]``, int64.
        phase: of the curriculum.
        noise: draws the directions of the penalties.
        state: an implicit model's state before the first token; the initial one if None.

    Example:
        >>> from implicit.config.curriculum import Curriculum
        >>> from implicit.runs.loading import load_run
        >>> phase = Curriculum(bounded_steps=0, contraction_weight=0.01).phase(1, length=3)
        >>> tokens, labels = torch.tensor([[0, 1, 1]]), torch.tensor([[0, 1, 0]])
        >>> found = objective(load_run("parity").model, tokens, labels, phase)
        >>> found.accuracy, bool(found.loss < 0.1), found.penalty is None
        (1.0, True, False)
    """
    solution, penalty, forgetting = None, None, None
    if isinstance(model, ImplicitMamba2):
        solution = model.solve(
            tokens, phase.mode, state=state, gradient=phase.gradient, stopping=phase.stopping
        )
        logits = solution.logits
        if phase.contraction_weight > 0:
            problem = model.problem(tokens, state)
            measured = contraction_penalty(problem, solution.latents.detach(), generator=noise)
            penalty = phase.contraction_weight * measured
        if phase.forgetting_weight > 0:
            before = model.init_state(len(tokens)) if state is None else state
            left = forgetting_penalty(
                model, tokens, before, solution, phase.gradient, phase.stopping, generator=noise
            )
            forgetting = phase.forgetting_weight * left
    else:
        logits = model(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
    with torch.no_grad():
        accuracy = float((logits.argmax(dim=-1) == labels).double().mean())
    return Objective(loss, penalty, forgetting, accuracy, solution)
