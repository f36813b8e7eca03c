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

FAILURES = 20
"""After so many steps of which it cannot be proved the others are left too."""


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

    def numbers(self) -> dict[str, Any]:
        """Return what is told beside the sentence, for JSON."""
        return {
            "proved": self.holds,
            "steps": int(self.proved.sum()),
            "cells": int(self.cells.sum()),
            "most_cells": int(self.cells.max()),
            "largest_sampled_ratio": self.ratio,
        }

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
    membership = iteration.attraction.membership.reshape(cover.targets.shape)
    reach = extents(cover, np.arange(cover.set_count))
    proved, cells = np.zeros(membership.shape, dtype=bool), np.zeros(membership.shape, dtype=np.int64)
    found: dict[int, tuple[Array, float]] = {}
    failures = 0
    for (index, token), bundle in np.ndenumerate(membership):
        b = int(bundle)
        if b not in found:
            found[b] = falling_norm(model, token, bundles.centres[b], bundles.latents[b])
        box, centre = Ball.around(cover.centres[index], reach[index]), cover.latents[index, token]
        region = Region(bundles.latents[b], bundles.metrics[b], float(bundles.radii[b]))
        examined = prove_into_region(model, token, box, centre, found[b][0], region, limit)
        proved[index, token], cells[index, token] = examined.proved, examined.cells
        failures += not examined.proved
        if failures == FAILURES:
            break
    plain = np.eye(bundles.latents.shape[1])  # of a bundle that was not come to, or has no members
    norms = np.array([found[b][0] if b in found else plain for b in range(bundles.count)])
    return ProvedAttraction(proved, cells, norms, max(ratio for _, ratio in found.values()))
