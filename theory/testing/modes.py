"""The assertion that two ways to seek the fixed points of a model agree."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from automata.checks import check_number, check_type
from automata.errors import InputError


class NotApplicableError(InputError):
    """The assertion says nothing of this model, so that it can neither pass nor fail.

    Example:
        >>> import torch
        >>> from theory import Transition
        >>> from theory.testing import assert_contractive
        >>> explicit = Transition(lambda z, s: z, lambda z, s: {"h": s["h"].tanh()}, 0, (("h",),))
        >>> assert_contractive(explicit, [{"h": torch.ones(2).double()}])
        Traceback (most recent call last):
        ...
        theory.testing.modes.NotApplicableError: not applicable: the transition has no latent ...
    """


class Solution(Protocol):
    """The fixed points of a batch of sequences."""

    @property
    def latents(self) -> Tensor:
        """The latents of all tokens, shape ``[B, L, d]``."""

    @property
    def status(self) -> Tensor:
        """How each token's solve ended, shape ``[B, L]``; zero is converged, as in :class:`theory.Status`."""


class Output(Protocol):
    """What a model makes of a batch of sequences."""

    @property
    def logits(self) -> Tensor:
        """The outputs, shape ``[B, L, V]``."""

    @property
    def solution(self) -> Solution | None:
        """The fixed points; None for a model that seeks none."""


class RunnableModel(Protocol):
    """A model that reads sequences, in the mode that an option of its own names.

    Example:
        >>> class Model:
        ...     def run(self, tokens: Tensor, state: None = None, solve: object = None) -> Output: ...
        >>> model: RunnableModel = Model()  # accepted by the type checker
    """

    # *args and **kwargs accept any further options that the model may take.
    def run(self, *args: Any, **kwargs: Any) -> Output:
        """Return the output for ``tokens`` ``[B, L]`` and ``solve``, the options of one mode."""


@dataclass(frozen=True)
class ModesAgreement:
    """How far the two modes of evaluation agree.

    Attributes:
        fixed_points: the share of tokens at which both converged and to the same latent.
        tokens: the share of tokens at which both decode to the same output.
    """

    fixed_points: float
    tokens: float


def assert_modes_agree(
    model: RunnableModel, tokens: Tensor, one: Any, other: Any, *, tolerance: float = 1e-4, share: float = 1.0
) -> ModesAgreement:
    """Assert that two modes of evaluation reach the same fixed points and the same outputs.

    Args:
        model: offers ``run(tokens, solve=...)``, whose output has logits and a solution.
        tokens: int64, shape ``[B, L]``.
        one: ``solve`` of one mode, of this package's models ``implicit.modes.Solve("simultaneous")``.
        other: that of the other, such as ``Solve("sequential")``.
        tolerance: two latents are the same if ‖z − z̃‖₂ ≤ tolerance · max(1, ‖z‖₂). It must exceed the
            tolerance of the solver divided by 1 − spectral radius, the distance to the fixed point itself.
        share: the smallest share of tokens that must agree, in latents and in outputs.

    Raises:
        AssertionError: naming the share, its threshold, and the worst sequence and token.
        NotApplicableError: if the model has no fixed points, so that it has one mode of evaluation only.
        InputError: for what are no tokens, or a share or tolerance out of its range.

    Example:
        >>> from types import SimpleNamespace
        >>> class Echo:
        ...     def run(self, tokens, state=None, solve=None):
        ...         latents = tokens[..., None].double()
        ...         solution = SimpleNamespace(latents=latents, status=torch.zeros_like(tokens))
        ...         return SimpleNamespace(logits=latents, solution=solution)
        >>> assert_modes_agree(Echo(), torch.tensor([[0, 1, 1]]), "simultaneous", "sequential")
        ModesAgreement(fixed_points=1.0, tokens=1.0)
    """
    check_type("tokens", tokens, Tensor, "give an int64 tensor, [batch, length]")
    if not 0 < check_number("share", share) <= 1:
        raise InputError(f"share is {share}; give a number above 0 and at most 1")
    if not check_number("tolerance", tolerance) >= 0:
        raise InputError(f"tolerance is {tolerance}; give a number of at least 0")
    if not hasattr(model, "run"):
        raise NotApplicableError(
            f"not applicable: {type(model).__name__} offers no run(tokens, solve=...), so that it has one "
            "mode of evaluation only; give a model that solves for fixed points"
        )
    outputs = [model.run(tokens, solve=solve) for solve in (one, other)]
    solutions = [output.solution for output in outputs]
    first, second = solutions
    if first is None or second is None:
        raise NotApplicableError(
            f"not applicable: {type(model).__name__} seeks no fixed points, so that it has one mode of "
            "evaluation only; give a model that solves for fixed points"
        )
    distance = (first.latents - second.latents).norm(dim=-1) / first.latents.norm(dim=-1).clamp(min=1)
    converged = (first.status == 0) & (second.status == 0)
    same = converged & (distance <= tolerance)
    decoded = outputs[0].logits.argmax(dim=-1) == outputs[1].logits.argmax(dim=-1)
    agreement = ModesAgreement(same.double().mean().item(), decoded.double().mean().item())
    if agreement.fixed_points < share or agreement.tokens < share:
        # NaN is the worst distance; among equal ones, an unconverged token is worse than a converged one.
        ranked = distance.nan_to_num(nan=torch.inf) + (~converged) * tolerance
        sequence, token = divmod(int(ranked.argmax()), tokens.shape[1])
        raise AssertionError(
            f"the modes agree on {agreement.fixed_points:.2%} of fixed points and {agreement.tokens:.2%} of "
            f"outputs, threshold {share:.2%}; {int((~converged).sum())} of {converged.numel()} tokens did "
            f"not converge in both; the worst is sequence {sequence}, token {token}: relative distance "
            f"{distance[sequence, token].item():.3g}, threshold {tolerance:.3g}"
        )
    return agreement
