"""One token's fixed point z* = Φ(z*; s) in float64, to the rounding level of Φ itself.

The iteration is the model's own, z ← (1 − τ) z + τ Φ(z); Newton steps only polish what it has found.
Convergence is measured, not chosen: the residual, and that of every entry by itself, must lie within one
decade of the change that one unit in the last place of z and s makes to Φ.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from automata.checks import check_integer, check_type
from automata.errors import InputError
from theory.blocks import (
    check_image,
    flatten,
    last_place_displacements,
    random_signs,
    real_entries,
    replace,
    validate,
)
from theory.forward_mode import jacobian
from theory.pure_maps import called, without_derivative
from theory.status import Status
from theory.transition import State, Transition

EPSILON = torch.finfo(torch.float64).eps
ERROR_MARGIN = 10.0
"""How far a quantity must exceed its error to count as established: a decade, as the error is an estimate."""


@dataclass(frozen=True)
class FixedPoint:
    """The outcome of one solve; ``latent`` is a fixed point only where ``status`` is ``CONVERGED``.

    Attributes:
        latent: the last iterate, shape ``[latent_size]``.
        residual: ‖Φ(z) − z‖₂ at ``latent``.
        rounding_level: the change of Φ under one unit in the last place (see :func:`rounding_level`); NaN if
            the iteration never came near a fixed point.
        iterations: damped Picard iterations, without the Newton steps.
        polish_distance: how far the accepted Newton steps moved the latent, in the 2-norm.
        status: converged, max-iterations or non-finite.

    Example:
        >>> fixed_point = FixedPoint(torch.zeros(1), 2e-16, 1e-16, 9, 0.0, Status.CONVERGED)
        >>> fixed_point.converged, fixed_point.threshold
        (True, 1e-15)
    """

    latent: Tensor
    residual: float
    rounding_level: float
    iterations: int
    polish_distance: float
    status: Status

    @property
    def converged(self) -> bool:
        """Return whether ``latent`` is a fixed point to rounding level."""
        return self.status is Status.CONVERGED

    @property
    def threshold(self) -> float:
        """The residual up to which the solve counts as converged: one decade above the rounding level."""
        return ERROR_MARGIN * self.rounding_level


_DISPLACED_SHARE = 2.0**-40
"""4,096 units in the last place: enough to change the roundings of a map that contracts a hundredfold."""


@torch.no_grad()
def rounding_level(transition: Transition, state: State, latent: Tensor, scale: float = 0.0) -> float:
    """Return the smallest residual that float64 can distinguish from zero at this latent.

    It is the larger of two estimates, plus the spacing of the numbers themselves, ε max(‖z‖₂, scale):

    - the largest ‖Φ(z'; s') − Φ(z; s)‖₂ over random z', s' one unit in the last place away in every entry;
    - the largest ½ ‖Φ(z + δ; s + σ) − 2 Φ(z; s) + Φ(z − δ; s − σ)‖₂ over random δ, σ with a share of 2⁻⁴⁰ of
      every entry. A smooth Φ leaves only rounding there (its curvature counts with 2⁻⁸⁰), that inside Φ
      included, which a strong contraction keeps from changing with a last place.

    ``scale`` is the norm of numbers that met on the way to z, when larger than z itself.
    """
    return _level(_changes(transition, state, latent), latent, scale)


def _level(changes: Tensor, latent: Tensor, scale: float) -> float:
    return changes.norm(dim=1).max().item() + EPSILON * max(latent.norm().item(), scale)


def _changes(transition: Transition, state: State, latent: Tensor) -> Tensor:
    """The change of Φ by rounding, by the two estimates of `rounding_level`, ``[8, latent_size]``."""
    probes = 4
    image = transition.self_map(latent, state)
    names = real_entries(state)
    vector = flatten(state, names)
    latents = last_place_displacements(latent, probes)
    vectors = last_place_displacements(vector, probes, seed=1)
    changes = []
    for nearby_latent, nearby_vector in zip(latents, vectors, strict=True):
        nearby_state = replace(state, names, nearby_vector)
        changes.append(transition.self_map(nearby_latent, nearby_state) - image)
    for latent_signs, signs in zip(
        random_signs(probes, latent.numel(), latent, seed=2),
        random_signs(probes, vector.numel(), vector, seed=3),
        strict=True,
    ):
        displaced = [
            transition.self_map(
                latent + step * latent_signs * latent, replace(state, names, vector + step * signs * vector)
            )
            for step in (_DISPLACED_SHARE, -_DISPLACED_SHARE)
        ]
        changes.append((displaced[0] - 2 * image + displaced[1]) / 2)
    return torch.stack(changes)


def largest_residual(level: float, scale: float) -> float:
    """Return up to which residual a latent counts as a fixed point.

    That is one decade above the rounding level, and never more than √ε of the norms that met: a Φ that jumps
    beside the latent, or is random, changes by more with the last place, and has no fixed point for that.
    Nothing counts where the level is NaN, as it is not known.
    """
    return min(ERROR_MARGIN * level, math.sqrt(EPSILON) * scale)


NEWTON_STEPS = 10
"""How many Newton steps polish a fixed point at most."""


@torch.no_grad()
def refine(self_map: Callable[[Tensor], Tensor], latents: Tensor, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Take Newton steps with a fixed slope A ≈ ∂zΦ, ``[d, d]``, for as long as they lower the residual.

    ``self_map`` maps latents, ``[n, d]``, each by itself. Return those with the smallest residual, and these
    residuals, ``[n]``. An A that is wrong or singular costs accuracy (the residual shows it) but never
    correctness.
    """
    identity = torch.eye(latents.shape[1], dtype=latents.dtype, device=latents.device)
    factors, pivots, singular = torch.linalg.lu_factor_ex(identity - slope)
    defects = self_map(latents) - latents
    lower = ~singular.bool().expand(len(latents))
    for _ in range(NEWTON_STEPS):
        if not lower.any():
            break
        candidates = latents + torch.linalg.lu_solve(factors, pivots, defects.mT).mT
        after = self_map(candidates) - candidates
        lower = lower & (after.norm(dim=1) < defects.norm(dim=1))  # false on NaN
        latents = torch.where(lower[:, None], candidates, latents)
        defects = torch.where(lower[:, None], after, defects)
    return latents, defects.norm(dim=1)


@torch.no_grad()
def solve_fixed_point(
    transition: Transition, state: State, start: Tensor | None = None, *, max_iterations: int = 4000
) -> FixedPoint:
    """Find z* = Φ(z*; s) by damped Picard iteration in float64, polished by Newton steps.

    The iteration stops when the residual is within one decade of the rounding level. Newton steps follow,
    also after the last allowed iteration if the residual is then below √ε times the largest norm met on the
    way; they are accepted only if they stay within ε^¼ times that norm, so that they cannot leave for another
    fixed point. Both compare norms, in which a large entry hides a small one: while the residual of an entry
    is more than a decade above what rounding does to that entry, the iteration goes on and has not converged.
    The state has no batch axis; ``start`` is the first latent, ``[latent_size]``, zeros if None. InputError
    if the state or the start cannot be used, or Φ raises, changes what it is given or cannot be
    differentiated.

    Example:
        >>> transition = Transition(lambda z, s: (z + s["h"]).cos(), lambda z, s: s, 1, (("h",),))
        >>> fixed_point = solve_fixed_point(transition, {"h": torch.zeros(1, dtype=torch.float64)})
        >>> round(fixed_point.latent.item(), 12), fixed_point.status.name
        (0.739085133215, 'CONVERGED')
    """
    validate(transition, state)
    check_integer("max_iterations", max_iterations, 1)
    if start is None:
        device = next(iter(state.values())).device
        start = torch.zeros(transition.latent_size, dtype=torch.float64, device=device)
    check_latent("start", start, transition)
    latent = start
    if transition.latent_size == 0:
        return FixedPoint(latent, 0.0, 0.0, 0, 0.0, Status.CONVERGED)
    scale, level, residual = latent.norm().item(), math.nan, math.inf
    sizes = latent.abs()
    allowed: Tensor | None = None  # up to which residual each entry is at rest, once that is known
    for iteration in range(1, max_iterations + 1):
        # what Φ would write into z, it would take from the difference
        own = transition.self_map
        image = own(latent, state) if iteration > 1 else called("self_map", own, latent, state)
        check_image(image, latent)
        defect = image - latent
        residual = defect.norm().item()
        if not math.isfinite(residual):
            return FixedPoint(latent, residual, level, iteration, 0.0, Status.NON_FINITE)
        scale, sizes = max(scale, image.norm().item()), torch.maximum(sizes, image.abs())
        if math.isnan(level) and residual <= math.sqrt(EPSILON) * scale:
            level = rounding_level(transition, state, latent, scale)
        if residual <= largest_residual(level, scale) and (
            allowed is None or bool((defect.abs() <= allowed).all())
        ):
            first = allowed is None
            found, allowed = _polished(transition, state, latent, level, scale, sizes)
            if found.converged or found.residual > found.threshold or not first:
                return dataclasses.replace(found, iterations=iteration)
        latent = latent + transition.damping * defect
    found, _ = _polished(transition, state, latent, level, scale, sizes)
    return dataclasses.replace(found, iterations=iteration)


def _polished(
    transition: Transition, state: State, latent: Tensor, level: float, scale: float, sizes: Tensor
) -> tuple[FixedPoint, Tensor]:
    """Take Newton steps if the residual is small; return also up to which residual each entry is at rest.

    ``scale`` is the largest norm met on the way, ``sizes`` the largest number that each entry was.
    """
    defect, distance, allowed = transition.self_map(latent, state) - latent, 0.0, torch.zeros_like(latent)
    at_rest = False
    if defect.norm().item() <= math.sqrt(EPSILON) * scale:
        try:
            slope = jacobian(lambda z: transition.self_map(z, state), latent)
        except RuntimeError as error:
            raise without_derivative("self_map", error) from error
        image = lambda latents: transition.self_map(latents[0], state)[None]  # noqa: E731
        polished = refine(image, latent[None], slope)[0][0]
        steps = [(polished, (polished - latent).norm().item()), (latent, 0.0)]
        # With the slopes, as a few displacements may cancel in an entry.
        known = EPSILON * (slope.abs().nan_to_num(0, 0, 0) @ sizes + sizes)
        for latent, distance in steps if steps[0][1] <= EPSILON**0.25 * scale else steps[1:]:  # noqa: B007
            defect = transition.self_map(latent, state) - latent
            changes = _changes(transition, state, latent)
            level = _level(changes, latent, scale)
            allowed = ERROR_MARGIN * (changes.abs().amax(0) + known)
            at_rest = bool((defect.abs() <= allowed).all())
            if at_rest:  # else a step has spread a large entry's rounding to a small one
                break
    residual = defect.norm().item()
    converged = at_rest and residual <= largest_residual(level, scale)
    status = Status.CONVERGED if converged else Status.MAX_ITERATIONS
    return FixedPoint(latent, residual, level, 0, distance, status), allowed


def check_latent(field: str, latent: object, transition: Transition) -> None:
    """Refuse what is no latent of a transition: a float64 tensor of its size."""
    remedy = f"give a float64 tensor of shape ({transition.latent_size},)"
    check_type(field, latent, Tensor, remedy)
    assert isinstance(latent, Tensor)
    if latent.shape != (transition.latent_size,) or latent.dtype != torch.float64:
        raise InputError(f"{field} has shape {tuple(latent.shape)} and type {latent.dtype}; {remedy}")
