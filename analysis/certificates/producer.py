"""From visited pairs to proved claims: where the balls are put, how large, and what is tried when one fails.

Choosing is floating point and heuristic; every claim is then proved by `theory.enclosure`, over a region that
is larger than the one claimed by `MARGIN`. That leaves a checker with another formulation, whose enclosures
over wide balls may be a little wider, room to confirm it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from analysis.certificates.document import Claim, Contraction
from implicit.enclosures import EnclosedMamba2
from implicit.sequence_model import SequenceModel
from theory.balls.ball import Array, Ball
from theory.enclosure import Enclosures, Entries, enclose, newton_step_bound

MARGIN = 1.5
POINT_RADII = (2.0**-28, 2.0**-36, 2.0**-44)
"""Radii tried at a point: wide enough to mean something, small enough for sharp enclosures of J."""
RANGE_EXPONENTS = (2, 48)
"""Boxes of states have radii 2⁻², 2⁻³, …, 2⁻⁴⁸, found by bisection."""
CHUNK = 2**22
"""The most float64 entries of one array of derivatives."""


@dataclass(frozen=True, eq=False)
class Sites:
    """Positions at which something is to be proved.

    Attributes:
        model: the model.
        tokens: ``[T]``.
        state: the states, each entry ``[T, …]``.
        latents: approximate fixed points, ``[T, d]``.
        places: per layer the entry of ∂h'/∂h.
    """

    model: SequenceModel
    tokens: NDArray[np.int64]
    state: Mapping[str, Array]
    latents: Array
    places: Sequence[Entries]

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, chosen: NDArray[np.int64] | slice) -> "Sites":
        return Sites(
            self.model,
            self.tokens[chosen],
            {name: entry[chosen] for name, entry in self.state.items()},
            self.latents[chosen],
            [(rows[chosen], columns[chosen]) for rows, columns in self.places],
        )

    def transitions(self) -> EnclosedMamba2:
        """Return (Φ, G) at these positions."""
        return EnclosedMamba2(self.model, torch.from_numpy(self.tokens))

    def boxes(self, radius: Array) -> dict[str, Ball]:
        """Return the states with h widened by a radius at each position."""
        return {
            name: Ball.around(entry, _column(radius if name.startswith("ssm") else 0 * radius, entry.ndim))
            for name, entry in self.state.items()
        }

    def chunks(self) -> list[slice]:
        """Return slices that keep derivatives within `CHUNK` entries."""
        widest = max(cell.d_inner + cell.channels + cell.heads for cell in self.transitions().cells)
        count = max(1, CHUNK // (widest * (self.latents.shape[1] + len(self.places))))
        return [slice(start, start + count) for start in range(0, len(self), count)]


def prove_points(sites: Sites) -> list[Claim | None]:
    """Prove what can be proved at single states: the largest of the radii at which existence is.

    Returns:
        One claim a position, None where there is none.
    """
    claims: list[Claim | None] = [None] * len(sites)
    for radius in POINT_RADII:
        missing = np.array([index for index, claim in enumerate(claims) if claim is None], dtype=np.int64)
        if len(missing):
            radii = np.full(len(missing), radius)
            found = prove(sites[missing], radii, 0 * radii)
            for index, claim in zip(missing, found, strict=True):
                claims[index] = claim
    return claims


def prove_ranges(sites: Sites) -> tuple[list[Claim | None], Array]:
    """Prove the same over boxes of states that are as large as bisection finds.

    A box counts if the fixed point exists, is unique and attracting, and no entry's interval holds zero. Within
    a box the ball of latents is as small as the box allows, so that derivatives are enclosed sharply.

    Returns:
        One claim a position, None where there is none, and the radii of the boxes.
    """
    smallest = np.full(len(sites), RANGE_EXPONENTS[0] - 1)  # too large a box, by assumption
    largest = np.full(len(sites), RANGE_EXPONENTS[1] + 1)
    claims: list[Claim | None] = [None] * len(sites)
    while (largest - smallest > 1).any():
        exponents = (smallest + largest) // 2
        open_ones = np.flatnonzero(largest - smallest > 1)
        radii = 2.0 ** -exponents[open_ones].astype(np.float64)
        here = sites[open_ones]
        for index, claim in zip(open_ones, prove(here, _latent_radii(here, radii), radii), strict=True):
            if claim is not None and claim.contraction is not None and all(a * b > 0 for a, b in claim.entries):
                claims[index], largest[index] = claim, exponents[index]
            else:
                smallest[index] = exponents[index]
    return claims, 2.0 ** -largest.astype(np.float64)


def prove(sites: Sites, radii: Array, state_radii: Array) -> list[Claim | None]:
    """Prove A1 to A4 for given balls of latents and boxes of states.

    Args:
        sites: T positions.
        radii: of the balls that are claimed, ``[T]``.
        state_radii: of the boxes that are claimed, ``[T]``.

    Returns:
        One claim a position, None where existence is not proved.
    """
    claims: list[Claim | None] = []
    for part in sites.chunks():
        here = sites[part]
        proved = enclose(
            here.transitions(),
            here.boxes(MARGIN * state_radii[part]),
            here.latents,
            MARGIN * radii[part],
            here.places,
        )
        claims += [
            _claim(proved, index, here.latents[index], radius) for index, radius in enumerate(radii[part])
        ]
    return claims


def _latent_radii(sites: Sites, state_radii: Array) -> Array:
    """Twice as far as a Newton step leads from the latent, for any state of the box."""
    bounds = [
        newton_step_bound(here.transitions(), here.boxes(MARGIN * state_radii[part]), here.latents)
        for part in sites.chunks()
        for here in [sites[part]]
    ]
    return 2 * np.nan_to_num(np.concatenate(bounds), nan=1.0, posinf=1.0)


def _claim(proved: Enclosures, index: int, latent: Array, radius: float) -> Claim | None:
    if not (proved.exists[index] and proved.error[index] <= radius):
        return None
    contraction = None
    if proved.contracts[index]:
        contraction = Contraction(power=int(proved.power[index]), norm=float(proved.power_norm[index]))
    intervals = [(float(ball.lower[index]), float(ball.upper[index])) for ball in proved.entries]
    if not np.isfinite(intervals).all():
        return None
    return Claim(
        latent=latent,
        radius=float(radius),
        error=float(proved.error[index]),
        singular_value=float(proved.singular_value[index]),
        contraction=contraction,
        entries=intervals,
    )


def _column(radius: Array, dimensions: int) -> Array:
    """A radius a position in the shape of an entry of the state."""
    return radius.reshape(-1, *(1,) * (dimensions - 1))
