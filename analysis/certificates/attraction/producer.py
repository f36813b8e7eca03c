"""Proving that the iteration tends to the fixed points of a cover from all latents of K."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.certificates.orbits.document import upper_triangle
from analysis.certificates.orbits.producer import ProvedIteration
from implicit.enclosed.attraction import Region, falling_norm, prove_into_region
from implicit.models.interface import FixedPointModel
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import Cover, extents


@dataclass(frozen=True, eq=False)
class ProvedAttraction:
    """At which steps of a cover all latents are proved to be attracted.

    Attributes:
        proved: ``[sets, tokens]``.
        cells: how many cells of latents were examined at each, ``[sets, tokens]``.
        norms: L of every bundle, ``[bundles, d, d]``.
        ratio: the largest |Φ(y) − c| / |y − c| among samples, over all bundles. Not proved.

    Example:
        >>> one = np.ones((1, 2), dtype=int)
        >>> found = ProvedAttraction(one > 0, 9 * one, np.ones((1, 1, 1)), 0.2)
        >>> found.holds, found.sentence
        (True, 'all latents are attracted at all 2 steps (18 cells)')
    """

    proved: NDArray[np.bool_]
    cells: NDArray[np.int64]
    norms: Array
    ratio: float

    @property
    def holds(self) -> bool:
        """Whether it is proved at all of them."""
        return bool(self.proved.all())

    @property
    def sentence(self) -> str:
        """The finding."""
        of = (
            f"all {self.proved.size} steps"
            if self.holds
            else f"{self.proved.sum()} of {self.proved.size} steps"
        )
        return f"all latents are attracted at {of} ({self.cells.sum():,} cells)"

    def fields(self) -> dict[str, Any]:
        """Return the fields of a certificate."""
        return {"norms": upper_triangle(self.norms)}


def prove_attraction(
    model: FixedPointModel, cover: Cover, iteration: ProvedIteration, limit: int
) -> ProvedAttraction:
    """Try to prove, at every step of a cover, that all latents of K are attracted.

    Args:
        model: a one-layer implicit Mamba-2 with one head, d_state 1 and a residual stream, in float64.
        cover: closed, with the iteration proved of all of its steps.
        iteration: what is proved of it: the regions of its bundles attract what they hold.
        limit: cells to examine at most, at each step.

    Raises:
        InputError: for another model.

    Example:
        `analysis.all_lengths.analyse` calls it.
    """
    bundles = iteration.attraction.bundles
    found = [
        falling_norm(model, int(bundles.tokens[b]), bundles.centres[b], bundles.latents[b])
        for b in range(bundles.count)
    ]
    regions = [
        Region(bundles.latents[b], bundles.metrics[b], float(bundles.radii[b])) for b in range(bundles.count)
    ]
    membership = iteration.attraction.membership.reshape(cover.targets.shape)
    reach = extents(cover, np.arange(cover.set_count))
    proved, cells = np.zeros(membership.shape, dtype=bool), np.zeros(membership.shape, dtype=np.int64)
    for (index, token), bundle in np.ndenumerate(membership):
        box, centre = Ball.around(cover.centres[index], reach[index]), cover.latents[index, token]
        norm = found[bundle][0]
        examined = prove_into_region(model, token, box, centre, norm, regions[bundle], limit)
        proved[index, token], cells[index, token] = examined.proved, examined.cells
    return ProvedAttraction(
        proved, cells, np.array([norm for norm, _ in found]), max(ratio for _, ratio in found)
    )
