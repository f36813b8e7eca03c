"""The objective of training: the weighted cross-entropy of the targets, and penalties of the phase."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from automata.checks import shown
from automata.errors import InputError
from implicit.config.curriculum import TRAINING_WINDOWS, Phase
from implicit.models.interface import SequenceModel
from implicit.modes import SequenceSolution, Solve
from implicit.penalties import Solved
from implicit.training.streams import TokenBatch
from theory.transition import State

Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(logits ``[batch, length, answers]``, targets and weights ``[batch, length]``) ↦ a scalar with gradient."""


@dataclass(frozen=True)
class Objective:
    """The loss of one batch, in nats and without the weighted penalties, with what it was computed from.

    ``late_accuracy`` is that of the last third of each sequence, or of all where nothing is asked there;
    ``right``, ``[batch]``, says which sequences have no wrong answer there. The state, after the last token,
    is empty for an implicit model where the phase hands none on.
    """

    loss: Tensor
    penalties: dict[str, Tensor]
    accuracy: float
    late_accuracy: float
    right: Tensor
    state: State
    solution: SequenceSolution | None

    @property
    def total(self) -> Tensor:
        """The loss with its penalties."""
        return self.loss + sum(self.penalties.values())


def objective(
    model: SequenceModel,
    batch: TokenBatch,
    phase: Phase,
    noise: torch.Generator | None = None,
    state: State | None = None,
    own_loss: Loss | None = None,
) -> Objective:
    """Compute the loss of a batch; an implicit model is solved and differentiated as the phase says.

    The batch is on the device of the model. Noise draws random starts and the directions of the penalties.
    The state before the first token is the initial one if None; an own loss takes the place of the weighted
    cross-entropy. InputError for a loss that is no scalar tensor.
    """
    penalties = {}
    implicit = model.implicit
    solve = Solve(
        phase.mode,
        stopping=phase.stopping,
        gradient=phase.gradient,
        windows=TRAINING_WINDOWS,
        state_after=phase.carried_share > 0,
    )
    if implicit is not None and phase.random_starts > 0:
        with torch.no_grad():
            found = model.run(batch.tokens, state, solve, lengths=batch.lengths).solution
        assert found is not None
        solve = replace(solve, start=starts_from_everywhere(found.latents, phase.random_starts, noise))
    output = model.run(batch.tokens, state, solve, lengths=batch.lengths)
    solution = output.solution
    if implicit is not None and solution is not None:
        before = model.init_state(len(batch.tokens)) if state is None else state
        solved = Solved(
            implicit, batch.tokens, before, solution, phase.gradient, phase.stopping, batch.lengths, noise
        )
        for name, penalty in phase.penalties.items():
            penalties[name] = penalty.weight * penalty.measure(solved)
    with torch.no_grad():
        right = output.answers == batch.targets
        weights = (
            batch.weights * until_error(right | ~batch.counted) if phase.loss_until_error else batch.weights
        )
        late = batch.counted & _last_third(batch)
        accuracy = float(right[batch.counted].double().mean())
        late_accuracy = float(right[late].double().mean()) if bool(late.any()) else accuracy
    loss = (own_loss or weighted_cross_entropy)(output.logits, batch.targets, weights)
    if own_loss is not None and not (
        isinstance(loss, Tensor) and loss.ndim == 0 and loss.is_floating_point() and loss.requires_grad
    ):
        raise InputError(f"loss returns {shown(loss)}; return a real tensor without axes, with its gradient")
    everywhere = (right | ~late).all(dim=1)
    return Objective(loss, penalties, accuracy, late_accuracy, everywhere, output.state, solution)


def until_error(right: Tensor) -> Tensor:
    """Return which tokens come before the first wrong answer of their sequence, or give it themselves.

    Behind it the state is that of another word: in a group every target contradicts it. Bool ``[batch,
    length]``, as ``right``: which answers are right, or not asked for.

    Example:
        >>> until_error(torch.tensor([[True, False, True], [True, True, True]])).tolist()
        [[True, True, False], [True, True, True]]
    """
    wrong = (~right).long()
    return wrong.cumsum(dim=1) - wrong == 0


def _last_third(batch: TokenBatch) -> Tensor:
    """Return whether a token is in the last third of its sequence, ``[batch, length]``, bool."""
    size, length = batch.tokens.shape
    position = torch.arange(1, length + 1, device=batch.tokens.device)
    lengths = position.new_full((size,), length) if batch.lengths is None else batch.lengths
    return (3 * position > 2 * lengths[:, None]) & (position <= lengths[:, None])


def weighted_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return Σ w · (−log p(target)) / Σ w over all tokens of a batch, in nats; a weight of 0 asks nothing."""
    if bool((weights == 1).all()):
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    total = weights.sum()
    if not bool(total > 0):
        raise InputError("weights are all 0: nothing is asked in this batch; give a greater length")
    losses = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * weights.flatten()).sum() / total


def random_latents(shape: tuple[int, int, int], generator: torch.Generator | None = None) -> Tensor:
    """Draw latents from the ball of radius √d: all that the last RMS norm gives with weights of 1.

    Direction and length are uniform, so that latents near zero are not rare. Float32, on the CPU.

    Example:
        >>> drawn = random_latents((64, 8, 32), torch.Generator().manual_seed(0))
        >>> lengths = drawn.norm(dim=-1) / 32**0.5
        >>> bool(lengths.max() < 1.0001), round(lengths.mean().item(), 1)
        (True, 0.5)
    """
    direction = torch.randn(shape, generator=generator, dtype=torch.float32)
    length = torch.rand((*shape[:2], 1), generator=generator, dtype=torch.float32) * shape[2] ** 0.5
    return direction / direction.norm(dim=-1, keepdim=True) * length


def starts_from_everywhere(latents: Tensor, share: float, generator: torch.Generator | None = None) -> Tensor:
    """Draw latents to start from: at random for half of the tokens, those of other tokens for half.

    With probability 1 − share, the tokens of a sequence start from zero. Shaped like ``latents``, the fixed
    points that were found from zero.
    """
    batch, tokens, size = latents.shape
    drawn = random_latents((batch, tokens, size), generator).to(latents)
    order = torch.randperm(batch * tokens, generator=generator).to(latents.device)
    others = latents.flatten(0, 1)[order].view_as(latents)
    at_random = torch.rand((batch, tokens, 1), generator=generator, dtype=torch.float32).to(latents) < 0.5
    chosen = torch.rand((batch, 1, 1), generator=generator, dtype=torch.float32).to(latents) < share
    return torch.where(at_random, drawn, others) * chosen
