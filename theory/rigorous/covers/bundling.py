"""Bundles of orbits for many states: one proof for all states near each other.

An orbit is followed for a box of states and a token (`theory.rigorous.covers.orbits`). The boxes are found by
division: one around all states is tried first, and where nothing can be proved of a box it is cut in two
across the entry of the state that moves the iteration most.
"""

import contextlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop, extents
from theory.rigorous.covers.orbits import Bundles, Iteration, Regions, enclose_orbits, enclose_regions

IntArray = NDArray[np.int64]
REGIONS = (8e-3, 5.6e-3, 4e-3, 2.8e-3, 2e-3, 1.4e-3, 1e-3, 5e-4, 2.5e-4, 1e-4, 5e-5, 2e-5, 1e-5)
"""Radii of regions that are tried, largest first, as shares of the length of the latent."""
WIDER = (1.2, 1.4, 1.7, 2.0, 2.3)
"""By how much the region of a set that is alone is widened if its orbits are not proved to end there: in one
that is much smaller than the largest that contracts they arrive with steps below the width of their tube, and
these may be steps that meet a tolerance."""
BUNDLES_AT_ONCE = 128
FAILURES = 100
"""After so many sets of which nothing can be proved the others are left too."""
PLAIN_NORM = 0.8
"""An iteration with a smaller Euclidean norm needs no metric."""
POWERS = 200
"""Of the derivative that a metric sums up."""
SLACK = 1 + 1e-6
"""By how much boxes and regions are larger than needed, for a check in other arithmetic."""
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
        return cls(read, cover.centres[sources], extents(cover, sources), latents, latent_radii)


@dataclass(frozen=True, eq=False)
class Attraction:
    """Of which members it is proved that the iteration stops near the fixed points."""

    bundles: Bundles  # with a proof
    evaluations: IntArray  # N of each bundle, [bundles]
    membership: IntArray  # the bundle of each member, −1 where nothing is proved, [members]

    @property
    def holds(self) -> bool:
        """Whether it is proved of all members."""
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
    names = ("tokens", "centres", "widths", "latents", "metrics", "axes", "radii")
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
    widths = np.maximum(high - centres, centres - low) * SLACK + ROUNDINGS * (1 + np.abs(centres))
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
        radii[rows] = np.maximum(share * lengths[rows], least[rows] * SLACK)
        found = enclose_regions(loop, _resized(bundles.select(rows), radii[rows]), iteration)
        contracts[rows], rate[rows], spread[rows] = found.contracts, found.rate, found.spread
    return _resized(bundles, radii), Regions(contracts, rate, spread)


def _widened(
    loop: EnclosedLoop, bundles: Bundles, needed: IntArray, alone: IntArray, iteration: Iteration
) -> tuple[Bundles, IntArray]:
    """The bundles and their evaluations, of those alone that fail with wider regions if these suffice."""
    radii, needed = bundles.radii.copy(), needed.copy()
    for factor in WIDER:
        rows = alone[needed[alone] == 0]
        if not len(rows):
            break
        found = enclose_orbits(loop, _resized(bundles.select(rows), factor * bundles.radii[rows]), iteration)
        proved = rows[found > 0]
        radii[proved], needed[proved] = factor * bundles.radii[proved], found[found > 0]
    return _resized(bundles, radii), needed


def _resized(bundles: Bundles, radii: Array) -> Bundles:
    parts = (bundles.tokens, bundles.centres, bundles.widths, bundles.latents, bundles.metrics, bundles.axes)
    return Bundles(*parts, radii)


def _halves(centres: Array, group: IntArray, spread: Array, widths: Array) -> list[IntArray]:
    """A group cut in two, across the entry that moves the iteration most."""
    weights = spread if np.isfinite(spread).all() and spread.any() else widths
    for entry in np.argsort(-weights):
        above = centres[:, entry] > (centres[:, entry].min() + centres[:, entry].max()) / 2
        if above.any() and not above.all():
            return [group[~above], group[above]]
    middle = len(group) // 2  # the same centre many times
    return [group[:middle], group[middle:]]
