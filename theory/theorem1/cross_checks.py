"""The same derivatives computed in other ways, to measure the error of :mod:`theory.jacobian.factored`.

Finite differences of the actual map s ↦ G(z*(s), s), the fixed point solved anew at each displaced state,
share no derivative formula with the implicit function theorem.

An error matrix E is estimated by the root mean square of ‖E r‖ over k directions r. Up to :data:`PROBES`
entries these are all columns, √n times the unit vectors: the estimate is ‖E‖_F itself. Beyond, they are
Gaussian, with E ‖E r‖² = ‖E‖_F², and

    P(estimate ≤ t ‖E‖_F) ≤ (t² e^{1 − t²})^{k/2}    for every E and every 0 < t < 1 ,

which ``theory/README.md`` proves. With ±1 entries there is no such bound: E = e_1 (e_2 − e_3)ᵀ is missed by
each with probability ½. It asks that E does not depend on the directions, so the seed comes from the
operating system, unless it is given.
"""

import dataclasses
import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.func import vmap

from theory.blocks import BlockMap, flatten, last_place_displacements, real_entries, replace
from theory.fixed_point import EPSILON, ERROR_MARGIN, refine, rounding_level, solve_fixed_point
from theory.forward_mode import MAX_CHUNK_ENTRIES
from theory.jacobian.factored import FactoredJacobian, latent_jacobian, layer_jacobians
from theory.transition import State, Transition

PROBES = 8
"""Directions per error estimate; all of them for up to this many entries."""


def miss_probability(ratio: float = 1 / ERROR_MARGIN, probes: int = PROBES) -> float:
    """Return the bound on the probability that an estimate is at most ``ratio`` times the error."""
    return (ratio**2 * math.exp(1 - ratio**2)) ** (probes / 2)


@dataclass(frozen=True)
class Probes:
    """A seed, and the directions drawn from it: the same for the same purpose."""

    seed: int = field(default_factory=lambda: secrets.randbits(63))  # unpredictable if not given

    def directions(self, size: int, like: Tensor, purpose: int = 0) -> Tensor:
        """Return directions r whose ‖E r‖² have the mean ‖E‖_F², shape ``[k, size]``, like another tensor."""
        if size <= PROBES:
            return math.sqrt(size) * torch.eye(size, dtype=like.dtype, device=like.device)
        return self.gaussian(PROBES, size, like, purpose)

    def gaussian(self, count: int, size: int, like: Tensor, purpose: int = 0) -> Tensor:
        """Return vectors of independent standard normal numbers, shape ``[count, size]``."""
        state = np.random.SeedSequence([self.seed, purpose]).generate_state(2)
        generator = torch.Generator().manual_seed(int(state[0]) << 31 ^ int(state[1]))
        return torch.randn(count, size, generator=generator, dtype=torch.float64).to(like)


def root_mean_square(deviations: Tensor) -> float:
    """Return the estimate of ‖E‖_F from the rows E r."""
    return deviations.norm().item() / math.sqrt(len(deviations))


Function = Callable[[Tensor], Tensor]


def difference_step(point: Tensor, image: Tensor) -> float:
    """Return the length of a displacement for central differences: ε^⅓ times the norm of the point.

    Where the point is zero its image gives the scale, and 1 where that is zero too.
    """
    return EPSILON ** (1 / 3) * (point.norm().item() or image.norm().item() or 1.0)


def at_once(function: Function, points: Tensor) -> Tensor:
    """Return a function of one vector at many of them, in one batch if it can be mapped."""
    try:
        images: Tensor = vmap(function, chunk_size=max(1, MAX_CHUNK_ENTRIES // points.shape[1]))(points)
    except RuntimeError:  # such as a branch of Python on the input
        return torch.stack([function(point) for point in points])
    return images


def central_differences(
    function: Function, point: Tensor, directions: Tensor, widening: float = 1.0, *, batched: bool = False
) -> Tensor:
    """Return central differences, ``[k, m]``, of a function of ``[n]`` along directions ``[k, n]``.

    The step is ε^⅓ times the norm of the point (of the image, or 1, where that is zero) and a factor: the
    truncation error, of order step², and rounding, of order ε/step, are then of relative order ε^⅔ ≈ 4e-11.
    """

    def images_of(points: Tensor) -> Tensor:
        return at_once(function, points) if batched else torch.stack([function(each) for each in points])

    return _differences(images_of, point, directions, widening)


def _differences(images_of: Function, point: Tensor, directions: Tensor, widening: float) -> Tensor:
    """Return central differences of a function of many vectors, ``[m, n]``."""
    length = widening * difference_step(point, point if point.norm() > 0 else images_of(point[None])[0])
    steps = length * directions / directions.norm(dim=1, keepdim=True)
    ahead, behind = point + steps, point - steps
    images = images_of(torch.cat([ahead, behind]))
    # Divide by the displacement that was made, not by the one that was meant.
    made = (ahead - behind).norm(dim=1) / directions.norm(dim=1)
    return (images[: len(steps)] - images[len(steps) :]) / made[:, None]


@torch.no_grad()
def resolved_differences(
    block: BlockMap, latent: Tensor, directions: Tensor, widening: float = 1.0, slope: Tensor | None = None
) -> Tensor:
    """Return derivatives of v ↦ G(z*(v), v) by central differences with the fixed point solved anew.

    Directions ``[k, n]`` give ``[k, n]``, NaN where no fixed point was found nearby. The slope is ∂zΦ at the
    latent, where it is known.
    """
    transition = block.transition
    if not latent.numel():
        update = partial(block.state_update, latent)
        return central_differences(update, block.vector, directions, widening, batched=True)
    if slope is None:
        slope = latent_jacobian(transition, block.state, latent)
    known, threshold = slope, ERROR_MARGIN * rounding_level(transition, block.state, latent)

    def images_of(vectors: Tensor) -> Tensor:
        # Any way to the fixed point will do, as the residual shows whether it is reached: Newton is fastest.
        image = lambda latents: _pairs_at_once(block.self_map, latents, vectors)  # noqa: E731
        latents, residuals = refine(image, latent.repeat(len(vectors), 1), known)
        for index, residual in enumerate(residuals.tolist()):
            if not residual <= threshold:
                solution = solve_fixed_point(transition, block.at(vectors[index]), latents[index])
                latents[index] = solution.latent if solution.converged else math.nan
        return _pairs_at_once(block.state_update, latents, vectors)

    return _differences(images_of, block.vector, directions, widening)


def _pairs_at_once(function: Callable[[Tensor, Tensor], Tensor], latents: Tensor, vectors: Tensor) -> Tensor:
    """Return a function of z and v at many pairs."""
    sizes = [latents.shape[1], vectors.shape[1]]
    return at_once(lambda pair: function(*pair.split(sizes)), torch.cat([latents, vectors], dim=1))


def jacobian_errors(
    jacobian: FactoredJacobian,
    block: BlockMap,
    latent: Tensor,
    probes: Probes | None = None,
    widening: float = 1.0,
    slope: Tensor | None = None,
) -> tuple[float, Tensor]:
    """Return an estimate of ‖J − J'‖_F, J' by finite differences with the fixed point solved anew.

    The root mean square of ‖(J − J') r‖ over the directions r of
    :class:`~theory.theorem1.cross_checks.Probes`: all columns of a small block, where it is the norm itself;
    else random directions, among which an error of more than ten times the estimate hides with a probability
    of at most 5.3e-7. The discrepancy of a diagonal first term is added. NaN, where a fixed point was not
    found again, means that nothing is known. With it comes the same estimate of every row, ``[n]``.
    """
    directions = (probes or Probes()).directions(jacobian.size, block.vector, purpose=1)
    measured = resolved_differences(block, latent, directions, widening, slope)
    deviations = measured - torch.stack([jacobian.matvec(direction) for direction in directions])
    error = math.hypot(root_mean_square(deviations), jacobian.diagonality_error)
    return error, deviations.square().mean(dim=0).sqrt()


def is_contradicted(
    jacobian: FactoredJacobian,
    error: float,
    block: BlockMap,
    latent: Tensor,
    probes: Probes,
    slope: Tensor | None = None,
) -> bool:
    """Say whether finite differences contradict J by more than they leave open themselves.

    The error of a difference quotient by rounding falls with a wider step, that by curvature with a
    shorter one. The part by which J is wrong stays: it is there, if neither a step ten times as wide nor one
    ten times as short lowers the discrepancy by half a decade.
    """
    # Smaller than ten times what rounding of float64 leaves at that step: nothing to explain.
    if error <= ERROR_MARGIN * EPSILON ** (2 / 3) * jacobian.frobenius_norm():
        return False
    least = error / math.sqrt(ERROR_MARGIN)
    widenings = (ERROR_MARGIN, 1 / ERROR_MARGIN)
    return not any(jacobian_errors(jacobian, block, latent, probes, w, slope)[0] <= least for w in widenings)


@torch.no_grad()
def latent_jacobian_error(
    slope: Tensor, block: BlockMap, latent: Tensor, probes: Probes | None = None
) -> float:
    """Return an estimate of ‖A − A'‖_F for A = ∂zΦ by autodiff and A' by finite differences of Φ.

    :func:`jacobian_errors` says what the estimate guarantees.
    """
    vector = block.vector
    directions = (probes or Probes()).directions(latent.numel(), latent, purpose=2)
    measured = central_differences(lambda z: block.self_map(z, vector), latent, directions, batched=True)
    return root_mean_square(measured - directions @ slope.mT)


def jacobian_rounding(
    transition: Transition, state: State, latent: Tensor, layer: int, jacobian: FactoredJacobian
) -> float:
    """Return how far J of one layer moves, in the Frobenius norm, when every number moves by its last place.

    The larger of two random displacements of state and latent by one unit in the last place, plus ε ‖J‖_F: an
    entry of J that is smaller cannot be told from rounding.
    """
    single = dataclasses.replace(transition, layer_states=(transition.layer_states[layer],))
    names = real_entries(state)
    vector = flatten(state, names)
    latents = last_place_displacements(latent, 2)
    vectors = last_place_displacements(vector, 2, seed=1)
    change = 0.0
    for nearby_latent, nearby_vector in zip(latents, vectors, strict=True):
        nearby = replace(state, names, nearby_vector)
        (moved,) = layer_jacobians(single, nearby, nearby_latent)
        change = max(change, (moved - jacobian).frobenius_norm())
    return change + EPSILON * jacobian.frobenius_norm()
