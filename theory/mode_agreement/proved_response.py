"""The linear response of the sweeps, bounded in rigorous arithmetic over the sets of a cover.

Let every state of set i have its fixed point of token x in a box, and let the step lead into set j, as
`theory.rigorous.covers` proves it. Over set and box, ∂zΦ, ∂sΦ, ∂zG and ∂sG are enclosed; with
M = (1 − τ) I + τ ∂zΦ and in the metrics of the cover,

    W_j J(ω) V_i = Σ_{k≥0} ω^k C_k ,   C_0 = W_j ∂sG V_i ,   C_k = τ W_j ∂zG M^(k−1) ∂sΦ V_i ,

the rest of the series after C_N being at most |ω|^(N+1) ‖W_j ∂zG‖ ‖M^N‖ ‖τ ∂sΦ V_i‖ / (1 − |ω| ‖M‖). If

    sup_{|ω| ≤ r} ‖W_j J(ω) V_i‖₂ ≤ q < 1    with r > 1

at every step of a cover, then along every word of every length, D𝒯 the derivative of a sweep at its fixed
points, ‖D𝒯^k‖ ≤ C r^(−k) with one C for all lengths (Corollary 6 of ``docs/when_modes_agree.md``). By the
maximum principle the circle is enough, and on the circle some points: between two of them at an angle δ from
either, the norm is larger by at most δ Σ k r^k ‖C_k‖. As V_i is W_i⁻¹ up to rounding only, ‖I − W_i V_i‖ ≤ ε,
what is returned is the bound over 1 − ε: then norms of products are at most the products of what is returned.
"""

import operator
from functools import reduce

import numpy as np

from automata.checks import check_number
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from theory.rigorous.balls.ball import Array, Ball, concatenate, round_up, spectral_norm
from theory.rigorous.balls.dual import Dual
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop

TERMS = 14
"""C_0 … C_N that are kept."""
POINTS = 32
"""Points on the half circle; the other half is conjugate and has the same norms."""
COEFFICIENT_ERROR = 1e-12
"""Relative; that of r^k cos kφ and r^k sin kφ in float64 is below 2 k units in the last place, 1e-14."""


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def bound_responses(
    loop: EnclosedLoop,
    damping: float,
    cover: Cover,
    latent_radii: Array,
    sources: IntArray,
    tokens: IntArray,
    radius: float,
) -> Array:
    """Bound ‖W_j J(ω) V_i‖₂ over |ω| ≤ r, all states of set i and all latents in the box, step by step.

    Steps have sources i, tokens x and bounds of their own, ``[T]``; ``latent_radii`` ``[T]`` are those of the
    boxes around the cover's latents. Nothing is proved where a bound is NaN or infinite. InputError for a
    radius that is not positive.

    Example:
        s' = s/2, which the latent does not enter: J(ω) = 1/2.

        >>> class Halving:
        ...     def advance(self, latent, state, tokens):
        ...         return latent.scaled(Ball.exact(0.0)), state.scaled(Ball.exact(0.5))
        ...     def logits(self, latent):
        ...         return latent
        >>> one, none = np.ones((1, 1, 1)), np.zeros((1, 1), int)
        >>> cover = Cover(np.zeros((1, 1)), one, one, np.ones(1), none, none, np.zeros((1, 1, 1)))
        >>> step = np.zeros(1, int)
        >>> bound_responses(Halving(), 1.0, cover, np.ones(1), step, step, radius=1.1).round(6).tolist()
        [0.5]
    """
    if not 0 < check_number("radius", radius) < np.inf:
        raise InputError(f"radius is {radius}; give a positive number, above 1 for a statement about sweeps")
    terms, rest, stretch = _series(loop, damping, cover, latent_radii, sources, tokens, radius)
    powers = radius ** np.arange(TERMS + 1) * (1 + COEFFICIENT_ERROR)
    norms = np.stack([spectral_norm(term) for term in terms])
    bound = round_up(powers @ norms + rest, TERMS)
    # where adding up norms is too coarse, the matrices are added up at points on the circle
    open_steps = np.flatnonzero(~(bound < 1))
    slope = round_up((np.arange(TERMS + 1) * powers) @ norms[:, open_steps], TERMS)
    gap = np.pi / (2 * POINTS) * (1 + COEFFICIENT_ERROR)
    largest = np.zeros(len(open_steps))
    for point in range(POINTS):
        angle = np.pi * (point + 0.5) / POINTS
        real, imaginary = (
            _combined([term[open_steps] for term in terms], radius, part(np.arange(TERMS + 1) * angle))
            for part in (np.cos, np.sin)
        )
        rows = concatenate([real, -imaginary], 2), concatenate([imaginary, real], 2)
        largest = np.fmax(largest, _or_infinite(spectral_norm(concatenate(rows, 1))))
    on_circle = round_up(largest + gap * slope + rest[open_steps], 4)
    bound[open_steps] = np.fmin(_or_infinite(bound[open_steps]), _or_infinite(on_circle))
    return round_up(bound * stretch, 1)


def _series(
    loop: EnclosedLoop,
    damping: float,
    cover: Cover,
    latent_radii: Array,
    i: IntArray,
    x: IntArray,
    radius: float,
) -> tuple[list[Ball], Array, Array]:
    """C_0 … C_N over sets and boxes, the norm of what follows them on |ω| ≤ r, and 1 / (1 − ε)."""
    j, latents, centres = cover.targets[i, x], cover.latents[i, x], cover.centres[i]
    size, states = latents.shape[1], centres.shape[1]
    axes, metric = Ball.exact(cover.axes[i]), Ball.exact(cover.metrics[j])
    skew = spectral_norm(Ball.exact(np.eye(states)) - Ball.exact(cover.metrics[i]) @ axes)
    stretch = np.where(skew < 1, round_up(1 / (Ball.exact(1.0) - Ball.exact(skew)).mignitude), np.inf)
    reach = round_up(cover.radii[i] * stretch, 1)
    lengths = np.sqrt(round_up(np.square(axes.magnitude).sum(-1), states + 1))
    box = round_up(lengths * reach[:, None], 2)
    z = Dual.variable(Ball.around(latents, latent_radii[:, None]), size + states)
    image, following = loop.advance(z, Dual.variable(Ball.around(centres, box), size + states, first=size), x)
    inner, outer = image.tangent, following.tangent
    tau = Ball.exact(damping)
    slope = inner[..., :size] * tau + (Ball.exact(1.0) - tau) * Ball.exact(np.eye(size))
    driven, left = (inner[..., size:] * tau) @ axes, metric @ outer[..., :size]
    terms = [metric @ (outer[..., size:] @ axes)]
    power = Ball.exact(np.broadcast_to(np.eye(size), (len(i), size, size)).copy())
    for _ in range(TERMS):
        terms.append(left @ (power @ driven))
        power = power @ slope
    left_norm, driven_norm = _norm(left), _norm(driven)
    kept = (Ball.exact(1.0) - Ball.exact(radius) * Ball.exact(spectral_norm(slope))).lower
    rest = (
        radius ** (TERMS + 1) * left_norm * spectral_norm(power) * driven_norm / np.where(kept > 0, kept, 0.0)
    )
    return terms, round_up(rest, 8), stretch


def _norm(matrices: Ball) -> Array:
    """An upper bound of ‖·‖₂ of matrices that need not be square: the Frobenius norm."""
    squares = np.square(matrices.magnitude).sum((-1, -2))
    return round_up(np.sqrt(round_up(squares, matrices.shape[-1] * matrices.shape[-2] + 1)), 1)


def _combined(terms: list[Ball], radius: float, factors: Array) -> Ball:
    """Σ r^k f_k C_k, the rounding of the coefficients enclosed."""
    sizes = radius ** np.arange(len(terms))
    coefficients = Ball.around(sizes * factors, sizes * COEFFICIENT_ERROR)
    return reduce(operator.add, (term * coefficients[k] for k, term in enumerate(terms)))


def _or_infinite(bound: Array) -> Array:
    """Replace NaN by infinity: it proves nothing."""
    return np.where(np.isnan(bound), np.inf, bound)
