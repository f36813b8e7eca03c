"""Assertions about fixed points, contraction, Theorem 1, the kind of a transition, and agreeing modes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from automata.checks import check_number, check_type
from automata.errors import InputError, unknown_name
from theory.blocks import BlockMap
from theory.fixed_point import (
    ERROR_MARGIN,
    FixedPoint,
    check_latent,
    largest_residual,
    rounding_level,
    solve_fixed_point,
)
from theory.jacobian.factored import latent_jacobian
from theory.pure_maps import validate_states
from theory.theorem1.check import check_theorem1
from theory.theorem1.conditions import (
    Condition,
    Verdict,
    convergence_condition,
    damped_slope,
    fixed_point_condition,
    unmeasured,
)
from theory.theorem1.cross_checks import latent_jacobian_error
from theory.theorem1.kinds import TransitionKind
from theory.theorem1.report import StateCheck, Theorem1Report
from theory.transition import State, Transition


def assert_fixed_point(
    transition: Transition,
    states: Sequence[State],
    latents: Sequence[Tensor] | None = None,
    *,
    tolerance: float | None = None,
    max_iterations: int = 4000,
) -> None:
    """Assert C1: at every state the latent is a fixed point of Φ.

    The transition is in float64, states have no batch axis. Latents are tested one per state; those that the
    damped iteration finds if None. ``tolerance`` is the largest residual ‖Φ(z) − z‖₂; one decade above the
    rounding level of Φ if None.

    Raises:
        AssertionError: naming C1, the residual, its threshold and the worst state.
        NotApplicableError: if the transition has no latent.
        InputError: if there is no state, or one cannot be used.

    Example:
        >>> transition = Transition(lambda z, s: (z + s["h"]).cos(), lambda z, s: s, 1, (("h",),))
        >>> states = [{"h": torch.zeros(1).double()}]
        >>> assert_fixed_point(transition, states)
        >>> assert_fixed_point(transition, states, [torch.zeros(1).double()], tolerance=1e-6)
        Traceback (most recent call last):
        ...
        AssertionError: C1 (z* is a fixed point of Φ, to rounding level) does not hold at 1 of 1 states;
        worst is state 0: value 1, threshold 1e-06: the residual is 1.0e+00
    """
    validate_states(transition, states)
    _require_latent(transition, "C1")
    if tolerance is not None and check_number("tolerance", tolerance, finite=True) < 0:
        raise InputError(f"tolerance is {tolerance}; give a number of at least 0")
    if latents is None:
        found = [solve_fixed_point(transition, state, max_iterations=max_iterations) for state in states]
        conditions = [fixed_point_condition(fixed_point) for fixed_point in found]
        if tolerance is not None:
            conditions = [_residual_condition(condition.value, tolerance) for condition in conditions]
    else:
        conditions = []
        if len(latents) != len(states):
            raise InputError(f"latents holds {len(latents)} for {len(states)} states; give one for each")
        for state, latent in zip(states, latents, strict=True):
            check_latent("latents: one entry", latent, transition)
            with torch.no_grad():
                image = transition.self_map(latent, state)
            residual, threshold = (image - latent).norm().item(), tolerance
            if threshold is None:
                scale = max(latent.norm().item(), image.norm().item())
                threshold = largest_residual(rounding_level(transition, state, latent), scale)
            conditions.append(_residual_condition(residual, threshold))
    _assert_all(conditions)


def assert_contractive(
    transition: Transition, states: Sequence[State], *, norm: bool = False, max_iterations: int = 4000
) -> None:
    """Assert C3: at every fixed point the spectral radius of (1 − τ) I + τ ∂zΦ is below 1.

    With ``norm`` more: that the 2-norm of that matrix is below 1, so that every step comes nearer.

    Raises:
        AssertionError: naming the condition, its value, its threshold and the worst state.
        NotApplicableError: if the transition has no latent.
        InputError: if there is no state, or one cannot be used.

    Example:
        This map has spectral radius 0 and 2-norm 2.

        >>> slope = torch.tensor([[0.0, 2.0], [0.0, 0.0]]).double()
        >>> transition = Transition(lambda z, s: slope @ z, lambda z, s: s, 2, (("h",),))
        >>> states = [{"h": torch.zeros(1).double()}]
        >>> assert_contractive(transition, states)
        >>> assert_contractive(transition, states, norm=True)
        Traceback (most recent call last):
        ...
        AssertionError: C3 (...) does not hold at 1 of 1 states; worst is state 0: value 2, threshold 1: the
        2-norm of the damped iteration's derivative is 2
    """
    validate_states(transition, states)
    _require_latent(transition, "C3")
    conditions = []
    for state in states:
        fixed_point = solve_fixed_point(transition, state, max_iterations=max_iterations)
        conditions.append(_contraction(transition, state, fixed_point, norm))
    _assert_all(conditions)


def assert_theorem1(
    transition: Transition, states: Sequence[State], expected: Verdict | str = Verdict.HOLDS, **options: Any
) -> Theorem1Report:
    """Assert that the verdict on Theorem 1 is the expected one at every state, and return the report.

    A recurrent network without a fixed point may be non-diagonal and non-linear. That is no case of the
    theorem: only "fails" can be expected of it, as a negative control. :func:`assert_kind` speaks of every
    model.

    Expected is ``holds``, or ``fails`` for a negative control; options are those of
    :func:`theory.check_theorem1`.

    Raises:
        AssertionError: naming the worst state, its verdict and reason, and each measured value with its
            threshold; also where the conclusions hold but not by a fixed point (C4 does not hold).
        NotApplicableError: for a transition without a latent, of which the theorem does not speak, unless
            "fails" is expected of it and its conclusions fail at every state.
        InputError: if there is no state, or one cannot be used.

    Example:
        >>> linear = Transition(lambda z, s: z, lambda z, s: {"h": s["h"] / 2}, 0, (("h",),))
        >>> states = [{"h": torch.ones(2).double()}, {"h": torch.zeros(2).double()}]
        >>> assert_theorem1(linear, states, expected="fails").kind.value
        'diagonal and linear'
    """
    known = [Verdict.HOLDS.value, Verdict.FAILS.value]
    if expected not in known:
        raise unknown_name("expected", str(expected), known)
    expected = Verdict(expected)
    report = check_theorem1(transition, states, **options)
    wrong = [check for check in report.checks if check.conclusions is not expected]
    if wrong or expected is not Verdict.FAILS:
        _require_latent(transition, "Theorem 1")
    if not wrong and expected is Verdict.HOLDS:
        wrong = [check for check in report.checks if check.conditions[3].verdict is not Verdict.HOLDS]
    if wrong:
        # A verdict opposite to the expected one weighs more than an inconclusive one.
        worst = min(
            wrong, key=lambda check: (check.conclusions is Verdict.INCONCLUSIVE, check.off_diagonal_mass)
        )
        raise AssertionError(
            f"Theorem 1: the verdict is not {expected.value!r} at {len(wrong)} of {len(report.checks)} "
            f"states; the worst is {worst.label}: {worst.conclusions}: {worst.reason}; {_describe(worst)}"
        )
    return report


def assert_kind(
    transition: Transition, states: Sequence[State], expected: TransitionKind | str, **options: Any
) -> Theorem1Report:
    """Assert that the transition is of a kind, such as "non-diagonal and linear", and return the report.

    Expected is a :class:`theory.TransitionKind` or its words, and two states at least are needed for "linear"
    or not; options are those of :func:`theory.check_theorem1`. The transition may have no latent.

    Raises:
        AssertionError: naming the kind that was found, with its reason.
        InputError: if there is no such kind, no state, or one cannot be used.

    Example:
        >>> mix = torch.tensor([[0.5, -0.5], [-0.5, 0.5]], dtype=torch.float64)
        >>> delta = Transition(lambda z, s: z, lambda z, s: {"h": mix @ s["h"]}, 0, (("h",),))
        >>> states = [{"h": torch.ones(2).double()}, {"h": torch.zeros(2).double()}]
        >>> assert_kind(delta, states, "non-diagonal and linear").kind.value
        'non-diagonal and linear'
    """
    kinds = [kind.value for kind in TransitionKind]
    if expected not in kinds:
        raise unknown_name("expected", str(expected), kinds)
    report = check_theorem1(transition, states, **options)
    if report.kind != expected:
        raise AssertionError(f"expected {str(expected)!r}: {report.kind_sentence}")
    return report


def _require_latent(transition: Transition, statement: str) -> None:
    if transition.latent_size == 0:
        raise NotApplicableError(
            "not applicable: the transition has no latent (latent_size is 0), so there is no fixed point "
            f"that {statement} could speak of; use assert_kind"
        )


def _residual_condition(residual: float, threshold: float) -> Condition:
    verdict = Verdict.HOLDS if residual <= threshold else Verdict.FAILS
    reason = f"the residual is {residual:.1e}"
    return Condition("C1", residual, threshold, threshold - residual, verdict, reason)


def _contraction(transition: Transition, state: State, fixed_point: FixedPoint, norm: bool) -> Condition:
    if not fixed_point.converged:
        return unmeasured("C3", f"no fixed point was reached: {fixed_point.status.sentence}")
    slope = latent_jacobian(transition, state, fixed_point.latent)
    block = BlockMap(transition, state, transition.layer_states[0])
    error = latent_jacobian_error(slope, block, fixed_point.latent)
    if not norm:
        return convergence_condition(slope, transition.damping, error)
    value = torch.linalg.matrix_norm(damped_slope(slope, transition.damping), ord=2).item()
    threshold = 1 - ERROR_MARGIN * transition.damping * error
    verdict = Verdict.HOLDS if value < threshold else Verdict.FAILS
    reason = f"the 2-norm of the damped iteration's derivative is {value:.6g}"
    return Condition("C3", value, threshold, threshold - value, verdict, reason)


def _assert_all(conditions: Sequence[Condition]) -> None:
    wrong = [index for index, condition in enumerate(conditions) if condition.verdict is not Verdict.HOLDS]
    if not wrong:
        return
    margins = torch.tensor([conditions[index].margin for index in wrong], dtype=torch.float64)
    worst = wrong[int(margins.nan_to_num(nan=-torch.inf).argmin())]
    condition = conditions[worst]
    raise AssertionError(
        f"{condition.name} ({condition.statement}) does not hold at {len(wrong)} of {len(conditions)} "
        f"states; worst is state {worst}: value {condition.value:.6g}, threshold {condition.threshold:.6g}: "
        f"{condition.reason}"
    )


def _describe(check: StateCheck) -> str:
    """Return every measured value of a state with its threshold."""
    parts = [f"{c.name} value {c.value:.3g}, threshold {c.threshold:.3g}" for c in check.conditions]
    for layer in check.layers:
        name = "+".join(layer.names)
        parts += [
            f"off-diagonal mass of {name} value {layer.off_diagonal_mass:.3g}, "
            f"threshold {ERROR_MARGIN * layer.off_diagonal_error:.3g}",
            f"nonlinearity of {name} value {layer.nonlinearity:.3g}, "
            f"threshold {ERROR_MARGIN * layer.nonlinearity_error:.3g}",
        ]
    return "; ".join(parts)


class NotApplicableError(InputError):
    """The assertion says nothing of this model, so that it can neither pass nor fail."""


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
    model: Any, tokens: Tensor, one: Any, other: Any, *, tolerance: float = 1e-4, share: float = 1.0
) -> ModesAgreement:
    """Assert that two modes of evaluation reach the same fixed points and the same outputs.

    Args:
        model: offers ``run(tokens, solve=...)``, whose output has ``logits``, ``[B, L, V]``, and
            ``solution``, None or with ``latents``, ``[B, L, d]``, and ``status``, ``[B, L]``, 0 if converged.
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
    if check_number("tolerance", tolerance, finite=True) < 0:
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
            f"the modes agree on {int(same.sum())} of {same.numel()} fixed points and {int(decoded.sum())} "
            f"outputs, a share of {share:g} is asked; {int((~converged).sum())} tokens did "
            f"not converge in both; the worst is sequence {sequence}, token {token}: relative distance "
            f"{distance[sequence, token].item():.3g}, threshold {tolerance:.3g}"
        )
    return agreement
