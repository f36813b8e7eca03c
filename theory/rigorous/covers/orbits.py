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
the box (`Program`).

**Bundles** for many states are found by division: one around all states is tried first, and where nothing can
be proved of a box it is cut in two across the entry of the state that moves the iteration most.

Source: the tube is Lohner's method in its simplest form (Lohner 1987; Moore, Kearfott & Cloud 2009,
Introduction to Interval Analysis, chapter 10).
"""

import contextlib
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from automata.monoids.cayley import IntArray
from theory.rigorous.balls.ball import Array, Ball, round_up, spectral_norm
from theory.rigorous.balls.dual import Dual
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop, Program, reach_and_box, row_lengths

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

    def select(self, rows: IntArray | NDArray[np.bool_]) -> "Bundles":
        """Return some of the bundles."""
        return Bundles(*(getattr(self, field.name)[rows] for field in fields(self)))


@dataclass(frozen=True, eq=False)
class Regions:
    """Proved bounds of the regions in which orbits end."""

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
    """Return a number of evaluations that is enough from where D is entered on; 0 if none is."""
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
        """Bound the error of a program's steps where |z − latent| ≤ radius; 0 for real arithmetic."""
        if program is None:
            return np.zeros(self.bundles.count)
        states = Ball.around(self.bundles.centres, self.bundles.widths)
        near = Ball.around(latents, self._box(radii))
        return program.rounding(near, states, self.bundles.tokens).step

    def _box(self, radii: Array) -> Array:
        """Bound the extent of |z − latent| ≤ radius along each entry."""
        return round_up(row_lengths(self.axes) * (radii * self.ratio)[:, None])


REGIONS = (8e-3, 5.6e-3, 4e-3, 2.8e-3, 2e-3, 1.4e-3, 1e-3, 5e-4, 2.5e-4, 1e-4, 5e-5, 2e-5, 1e-5)
"""Radii of regions that are tried, largest first, as shares of the length of the latent."""
WIDER = (1.2, 1.4, 1.7, 2.0, 2.3)
"""Factors by which the region of a set that is alone is widened if its orbits are not proved to end there. In
a region much smaller than the largest that contracts, orbits arrive with steps below the width of their tube;
such steps may meet a tolerance."""
BUNDLES_AT_ONCE = 128
FAILURES = 100
"""After so many sets of which nothing can be proved the others are left too."""
PLAIN_NORM = 0.8
"""An iteration with a smaller Euclidean norm needs no metric."""
POWERS = 200
"""Powers of the derivative that a metric sums up."""
LARGER = 1 + 1e-6
"""Stated over needed size of boxes and regions, for a check in other arithmetic."""
ROUNDINGS = 1e-14
"""More than the few roundings by which a box is found, relative to its entries."""


@dataclass(frozen=True, eq=False)
class Members:
    """Sets of states, each with a token and the box that holds their fixed points."""

    tokens: IntArray  # [members]
    centres: Array  # [members, n]
    extents: Array  # how far the set reaches from its centre along each entry, [members, n]
    latents: Array  # [members, d]
    latent_radii: Array  # maximum norm, [members]

    @classmethod
    def of_cover(cls, cover: Cover, latent_radii: Array) -> "Members":
        """Return the steps of a cover, the tokens of a set side by side, with the radii of their boxes."""
        sets, tokens = cover.targets.shape
        sources = np.repeat(np.arange(sets), tokens)
        latents = cover.latents.reshape(len(sources), -1)
        read = np.tile(np.arange(tokens), sets)
        return cls(read, cover.centres[sources], reach_and_box(cover, sources)[1], latents, latent_radii)


@dataclass(frozen=True, eq=False)
class Attraction:
    """The members of which it is proved that the iteration stops near the fixed points."""

    bundles: Bundles  # with a proof
    evaluations: IntArray  # N of each bundle, [bundles]
    membership: IntArray  # the bundle of each member, −1 where nothing is proved, [members]

    @property
    def holds(self) -> bool:
        """Return whether it is proved of all members."""
        return bool((self.membership >= 0).all())

    @property
    def iterations(self) -> int:
        """A number of evaluations of Φ that is enough for every bundle."""
        return int(self.evaluations.max(initial=0))

    def within(self, limit: int) -> "Attraction":
        """Return what is proved of an iteration that is stopped after so many evaluations."""
        membership = self.membership.copy()
        proved = membership >= 0  # perhaps none, without any bundle
        membership[proved] = np.where(self.evaluations[membership[proved]] > limit, -1, membership[proved])
        return Attraction(self.bundles, self.evaluations, membership)


@np.errstate(all="ignore")
def attraction_of(loop: EnclosedLoop, members: Members, iteration: Iteration) -> Attraction:
    """Find bundles for sets of states, and prove of each that its orbits stop near the fixed points."""
    pending = [np.nonzero(members.tokens == token)[0] for token in np.unique(members.tokens)]
    membership = np.full(len(members.tokens), -1)
    sizes = members.centres.shape[1], members.latents.shape[1]
    parts, evaluations, count = [_no_bundles(*sizes)], [np.zeros(0, dtype=np.int64)], 0
    failures = 0
    while pending and failures < FAILURES:
        pending, batch = pending[:-BUNDLES_AT_ONCE], pending[-BUNDLES_AT_ONCE:]
        bundles, regions = _with_regions(loop, *_around(loop, members, batch, iteration.damping), iteration)
        needed = enclose_orbits(loop, bundles, iteration, regions)
        alone = np.nonzero(np.array([len(group) == 1 for group in batch]) & regions.contracts)[0]
        bundles, needed = _widened(loop, bundles, needed, alone, iteration)
        proved = needed > 0
        for row, group in enumerate(batch):
            if proved[row]:
                membership[group] = count + int(proved[:row].sum())
            elif len(group) > 1:
                pending += _halves(members.centres[group], group, regions.spread[row], bundles.widths[row])
            else:
                failures += 1
        parts.append(bundles.select(proved))
        evaluations.append(needed[proved])
        count += int(proved.sum())
    names = [field.name for field in fields(Bundles)]
    joined = Bundles(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
    return Attraction(joined, np.concatenate(evaluations), membership)


def _no_bundles(state: int, latent: int) -> Bundles:
    shapes = (0, state), (0, state), (0, latent), (0, latent, latent), (0, latent, latent), (0,)
    return Bundles(np.zeros(0, dtype=np.int64), *(np.zeros(shape) for shape in shapes))


def _around(
    loop: EnclosedLoop, members: Members, groups: list[IntArray], damping: float
) -> tuple[Bundles, Array]:
    """Bundles that hold groups of members, but for their radii; and how large these have to be."""
    lowest = [(members.centres[group] - members.extents[group]).min(0) for group in groups]
    highest = [(members.centres[group] + members.extents[group]).max(0) for group in groups]
    low, high = np.array(lowest), np.array(highest)
    centres = (low + high) / 2
    widths = np.maximum(high - centres, centres - low) * LARGER + ROUNDINGS * (1 + np.abs(centres))
    tokens = np.array([members.tokens[group[0]] for group in groups])
    ends = [(members.latents[group].min(0), members.latents[group].max(0)) for group in groups]
    latents = np.array([(least + largest) / 2 for least, largest in ends])
    metrics = _metrics(_derivatives(loop, tokens, centres, latents, damping))
    least = []
    for metric, latent, group in zip(metrics, latents, groups, strict=True):
        apart = np.linalg.norm((members.latents[group] - latent) @ metric.T, axis=1)
        corner = np.linalg.norm(np.abs(metric).sum(1))
        farthest = (apart + corner * members.latent_radii[group]).max()
        least.append(farthest + ROUNDINGS * corner * (1 + np.abs(latent).max()))
    axes = np.asarray(np.linalg.inv(metrics), dtype=np.float64)
    return Bundles(tokens, centres, widths, latents, metrics, axes, np.zeros(len(groups))), np.array(least)


def _derivatives(
    loop: EnclosedLoop, tokens: IntArray, centres: Array, latents: Array, damping: float
) -> Array:
    """∂zT at points, in floating point."""
    size = latents.shape[1]
    z, s = Dual.variable(Ball.exact(latents), size), Dual.constant(Ball.exact(centres), size)
    slopes = loop.advance(z, s, tokens)[0].tangent.midpoint
    result: Array = (1 - damping) * np.eye(size) + damping * slopes
    return result


def _metrics(derivatives: Array) -> Array:
    """L with ‖L J L⁻¹‖₂ below 1 if the spectral radius of J is: LᵀL = Σ (Jᵏ)ᵀ Jᵏ / γ²ᵏ."""
    size = derivatives.shape[-1]
    metrics = np.broadcast_to(np.eye(size), derivatives.shape).copy()
    for row, derivative in enumerate(derivatives):
        if not np.isfinite(derivative).all() or np.linalg.norm(derivative, 2) <= PLAIN_NORM:
            continue
        radius = np.abs(np.linalg.eigvals(derivative)).max()
        if radius >= 1:
            continue
        power, total = np.eye(size), np.zeros((size, size))
        for _ in range(POWERS):
            total += power.T @ power
            power = power @ derivative / ((1 + radius) / 2)
        with contextlib.suppress(np.linalg.LinAlgError):  # what overflows has no factor
            metrics[row] = np.linalg.cholesky(total).T
    finite = np.isfinite(metrics).all(axis=(1, 2), keepdims=True)
    return np.where(finite, metrics, np.eye(size))


def _with_regions(
    loop: EnclosedLoop, bundles: Bundles, least: Array, iteration: Iteration
) -> tuple[Bundles, Regions]:
    """The bundles with the largest of the radii with which a region is proved, and what is proved."""
    lengths = np.linalg.norm((bundles.metrics @ bundles.latents[..., None])[..., 0], axis=1)
    radii = np.maximum(REGIONS[0] * lengths, least)
    contracts, rate = np.zeros(bundles.count, dtype=bool), np.full(bundles.count, np.inf)
    spread = np.full_like(bundles.widths, np.nan)
    for share in REGIONS:
        rows = np.nonzero(~contracts)[0]
        if not len(rows):
            break
        radii[rows] = np.maximum(share * lengths[rows], least[rows] * LARGER)
        found = enclose_regions(loop, replace(bundles.select(rows), radii=radii[rows]), iteration)
        contracts[rows], rate[rows], spread[rows] = found.contracts, found.rate, found.spread
    return replace(bundles, radii=radii), Regions(contracts, rate, spread)


def _widened(
    loop: EnclosedLoop, bundles: Bundles, needed: IntArray, alone: IntArray, iteration: Iteration
) -> tuple[Bundles, IntArray]:
    """The bundles and their evaluations, of those alone that fail with wider regions if these suffice."""
    radii, needed = bundles.radii.copy(), needed.copy()
    for factor in WIDER:
        rows = alone[needed[alone] == 0]
        if not len(rows):
            break
        found = enclose_orbits(
            loop, replace(bundles.select(rows), radii=factor * bundles.radii[rows]), iteration
        )
        proved = rows[found > 0]
        radii[proved], needed[proved] = factor * bundles.radii[proved], found[found > 0]
    return replace(bundles, radii=radii), needed


def _halves(centres: Array, group: IntArray, spread: Array, widths: Array) -> list[IntArray]:
    """A group cut in two, across the entry that moves the iteration most."""
    weights = spread if np.isfinite(spread).all() and spread.any() else widths
    for entry in np.argsort(-weights):
        above = centres[:, entry] > (centres[:, entry].min() + centres[:, entry].max()) / 2
        if above.any() and not above.all():
            return [group[~above], group[above]]
    middle = len(group) // 2  # the same centre many times
    return [group[:middle], group[middle:]]
