"""The iteration that is run, over sets of states: from zero it stops near the one fixed point.

Let T(z; s) = (1 − τ) z + τ Φ(z; s, x), z₀ = 0 and z_{k+1} = T(z_k; s). The sequential mode returns the first
z_k with ‖Φ(z_k) − z_k‖₂ ≤ θ ‖z_k‖₂, and z_{N−1} if there is none among the first N. A *bundle* holds the
orbits for all s in a box C ± w and one token x. With a matrix L let |v| = ‖L v‖₂ and ℓ = ‖L⁻¹‖₂.

**The tube.** Suppose |z_k − y_k| ≤ e_k on the whole box, and let J and B enclose ∂zT and ∂sT over
{z : |z − y_k| ≤ e_k} and the box. Both are convex, so by the mean value theorem, from e₀ = 0 and y₀ = 0 on,

    |z_{k+1} − y_{k+1}| ≤ ‖L J L⁻¹‖₂ e_k + ‖ |L B| w ‖₂ + |T(y_k; C) − y_{k+1}| =: e_{k+1} .

**The region.** Let D = {z : |z − z̃| ≤ R} and q = ‖L J L⁻¹‖₂ over it. If q < 1 and

    q R + ‖ |L B| w ‖₂ + |T(z̃; C) − z̃| ≤ R ,

T(·; s) maps D into itself and contracts there for every s of the box: by Banach's theorem Φ(·; s) has exactly
one fixed point z*(s) in D. If |y_K − z̃| + e_K ≤ R, then z_k ∈ D and |z_k − z*| ≤ 2 R q^{k−K} for all k ≥ K:
the iteration from zero converges to z*(s).

**The stopping rule.** Let X be a tolerance with ‖y_{k+1} − y_k‖₂ − ℓ (e_k + e_{k+1}) > τ X (‖y_k‖₂ + ℓ e_k)
for all k < K. As T(z) − z = τ (Φ(z) − z), no tolerance θ ≤ X is met before D is entered. In D

    |z − z*| ≤ |T(z) − z| / (1 − q) ,    |T(z) − z| ≤ (1 + q) |z − z*| ,

so where it is met, ‖z − z*‖₂ ≤ ℓ ‖L‖₂ τ X max_D ‖z‖ / (1 − q). If that is at most δ, and if after N − 1
steps ℓ · 2 R q^{N−1−K} is at most δ and at most τ X min_D ‖z‖ / (1 + q), then the latent that is returned
lies within δ of z*(s) for **every** tolerance θ ≤ X and **every** limit of at least N evaluations; with θ = X
the tolerance is met within N.

**Inexact steps.** Everything holds of an iteration of which every step T is off by up to η, and every
residual by up to η / τ (Euclidean norm), once ‖L‖₂ η is added to e_{k+1} and to the left side of the region's
condition, ‖L‖₂ η / (1 − q) to 2 R q^{k−K}, and η to every residual for the worse. A program that rounds is
such an iteration if its rounding is at most η wherever it comes: in the tubes and in the region, for all s of
the box (`theory.rigorous.covers.programs`).

Source: the tube is Lohner's method in its simplest form (Lohner 1987; Moore, Kearfott & Cloud 2009,
Introduction to Interval Analysis, chapter 10).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls.ball import Array, Ball, round_up, spectral_norm
from theory.rigorous.balls.dual import Dual
from theory.rigorous.covers.invariant_cover import EnclosedLoop, row_lengths
from theory.rigorous.covers.programs import Program

IntArray = NDArray[np.int64]
ENTERED_WITHIN = 100
"""An orbit that is not in its region after so many steps is given up."""


@dataclass(frozen=True)
class Iteration:
    """The damped iteration from zero, and what is asked of it."""

    damping: float  # τ
    tolerance: float  # X, the largest relative tolerance
    latent_error: float  # δ, how far from the fixed point it may stop
    step_error: float = 0.0  # η, by how much its steps may be off; 0 is real arithmetic
    # whose rounding has to be proved to be at most η; None if that of none has
    program: Program | None = None


@dataclass(frozen=True, eq=False)
class Bundles:
    """Orbits from zero, a bundle for every box of states and token, and where they end."""

    tokens: IntArray  # x, [bundles]
    centres: Array  # C, [bundles, n]
    widths: Array  # w, [bundles, n]
    latents: Array  # z̃, [bundles, d]
    metrics: Array  # L, [bundles, d, d]
    axes: Array  # V ≈ L⁻¹, [bundles, d, d]
    radii: Array  # R, [bundles]

    @property
    def count(self) -> int:
        """The number of bundles."""
        return len(self.tokens)

    def select(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> "Bundles":
        """Return some of the bundles."""
        parts = (self.centres, self.widths, self.latents, self.metrics, self.axes, self.radii)
        return Bundles(self.tokens[rows], *(part[rows] for part in parts))


@dataclass(frozen=True, eq=False)
class Regions:
    """What is proved of the regions in which orbits end."""

    # whether T maps D into itself, contracts there, and stops near enough to the fixed point
    contracts: NDArray[np.bool_]
    rate: Array  # q
    spread: Array  # by how much each entry of the state moves T, [bundles, n]: what to divide a box by


@np.errstate(all="ignore")  # what overflows is infinite or NaN, and proves nothing
def enclose_regions(loop: EnclosedLoop, bundles: Bundles, iteration: Iteration) -> Regions:
    """Prove that the iteration contracts to one fixed point in the regions of bundles."""
    damped = _Damped(loop, bundles, iteration.damping)
    image, rate, moved, spread = damped.over(bundles.latents, bundles.radii)
    away = damped.length(image - Ball.exact(bundles.latents))
    error = iteration.step_error * damped.stretch
    into = round_up(rate * bundles.radii + moved + away + error) <= bundles.radii
    slack = (Ball.exact(1.0) - Ball.exact(rate)).mignitude
    largest = round_up(row_lengths(Ball.exact(bundles.latents)) + damped.shrink * bundles.radii)
    residual = round_up(iteration.damping * iteration.tolerance * largest + iteration.step_error)
    stopped = round_up(damped.shrink * damped.stretch * residual / slack)
    into &= damped.rounding(iteration.program, bundles.latents, bundles.radii) <= iteration.step_error
    return Regions((rate < 1) & into & (stopped <= iteration.latent_error), rate, spread)


@np.errstate(all="ignore")
def enclose_orbits(
    loop: EnclosedLoop, bundles: Bundles, iteration: Iteration, regions: Regions | None = None
) -> IntArray:
    """Return N, the evaluations of Φ within which a bundle's orbits provably stop near fixed points, or 0."""
    regions = regions or enclose_regions(loop, bundles, iteration)
    damped = _Damped(loop, bundles, iteration.damping)
    tau, tolerance, off = iteration.damping, iteration.tolerance, iteration.step_error
    centre, width = np.zeros_like(bundles.latents), np.zeros(bundles.count)
    entered = np.full(bundles.count, -1)
    going = regions.contracts.copy()
    for k in range(ENTERED_WITHIN):
        apart = damped.length(Ball.exact(centre) - Ball.exact(bundles.latents))
        inside = going & (round_up(apart + width) <= bundles.radii)
        entered[inside] = k
        going &= ~inside
        if not going.any():
            break
        image, rate, moved, _ = damped.over(centre, width)
        following = image.midpoint
        rounded = damped.length(image - Ball.exact(following))
        grown = np.where(width > 0, rate * width, 0.0)
        after = round_up(grown + moved + rounded + off * damped.stretch)
        step = row_lengths(Ball.exact(following) - Ball.exact(centre)) * (1 - 1e-12)  # an upper bound
        least = step - round_up(damped.shrink * (width + after) + 2 * off)
        met = round_up(tau * tolerance * (row_lengths(Ball.exact(centre)) + damped.shrink * width))
        going &= (least > met) & np.isfinite(after)
        going &= damped.rounding(iteration.program, centre, width) <= off
        centre, width = following, after
    left = _evaluations_inside(bundles, iteration, regions.rate, damped)
    return np.where((entered < 0) | (left == 0), 0, entered + left)


def _evaluations_inside(bundles: Bundles, iteration: Iteration, rate: Array, damped: "_Damped") -> IntArray:
    """How many evaluations are enough from where D is entered on; 0 if none are."""
    tau, off = iteration.damping, iteration.step_error
    least = row_lengths(Ball.exact(bundles.latents)) * (1 - 1e-12) - round_up(damped.shrink * bundles.radii)
    allowed = np.minimum(iteration.latent_error, (tau * iteration.tolerance * least - off) / (1 + rate))
    target = (allowed / damped.shrink - off * damped.stretch / (1 - rate)) * (1 - 1e-9)
    # one more than the logarithms ask for: no rounding of them is as large
    steps = np.ceil(np.log(target / (2 * bundles.radii)) / np.log(rate)) + 1
    return np.where(np.isfinite(steps), 1 + np.maximum(steps, 0), 0).astype(np.int64)


class _Damped:
    """T and its derivatives over tubes of bundles, in their metrics; `stretch` is ‖L‖₂, `shrink` is ℓ."""

    def __init__(self, loop: EnclosedLoop, bundles: Bundles, damping: float) -> None:
        self.loop, self.bundles, self.damping = loop, bundles, Ball.exact(damping)
        self.metrics, self.axes = Ball.exact(bundles.metrics), Ball.exact(bundles.axes)
        size = bundles.latents.shape[1]
        skew = spectral_norm(Ball.exact(np.eye(size)) - self.metrics @ self.axes)
        # |v| ≤ e is v = V u with ‖u‖₂ ≤ e · ratio
        self.ratio = np.where(skew < 1, round_up(1 / (Ball.exact(1.0) - Ball.exact(skew)).mignitude), np.inf)
        self.stretch = spectral_norm(self.metrics)
        self.shrink = round_up(spectral_norm(self.axes) * self.ratio)

    def length(self, vectors: Ball) -> Array:
        """Upper bounds of |v|."""
        return row_lengths((self.metrics @ vectors[..., None])[..., 0])

    def over(self, latents: Array, radii: Array) -> tuple[Ball, Array, Array, Array]:
        """T at the latents and C; the norm of J, ‖|L B| w‖ and its parts, over |z − latent| ≤ radius."""
        bundles, size = self.bundles, latents.shape[1]
        states = bundles.centres.shape[1]
        still = Dual.constant(Ball.exact(latents), 0), Dual.constant(Ball.exact(bundles.centres), 0)
        image = self.loop.advance(*still, bundles.tokens)[0].value
        value = Ball.exact(latents) + self.damping * (image - Ball.exact(latents))
        box = self._box(radii)
        slopes = self.loop.advance(
            Dual.variable(Ball.around(latents, box), size + states),
            Dual.variable(Ball.around(bundles.centres, bundles.widths), size + states, first=size),
            bundles.tokens,
        )[0].tangent
        kept = Ball.exact(np.eye(size)) * (Ball.exact(1.0) - self.damping)
        inner = self.metrics @ ((kept + slopes[..., :size] * self.damping) @ self.axes)
        rate = round_up(spectral_norm(inner) * self.ratio)
        parts = (self.metrics @ (slopes[..., size:] * self.damping)).magnitude * bundles.widths[:, None]
        along = round_up(parts.sum(-1), states)
        moved = round_up(np.sqrt(round_up(np.square(along).sum(-1), size)))
        return value, rate, moved, np.sqrt(np.square(parts).sum(1))

    def rounding(self, program: Program | None, latents: Array, radii: Array) -> Array:
        """By how much steps of a program are off where |z − latent| ≤ radius; 0 for real arithmetic."""
        if program is None:
            return np.zeros(self.bundles.count)
        states = Ball.around(self.bundles.centres, self.bundles.widths)
        near = Ball.around(latents, self._box(radii))
        return program.rounding(near, states, self.bundles.tokens).step

    def _box(self, radii: Array) -> Array:
        """How far |z − latent| ≤ radius reaches along each entry."""
        return round_up(row_lengths(self.axes) * (radii * self.ratio)[:, None])
