"""Radii for the sets of a cover, so that every step provably leads from a set into its target.

The radii are grown until they suffice: from what the offsets and gains of vanishing sets ask for, then where
the proof of `theory.rigorous.covers.invariant_cover` asks for more. Only the last bounds count, and they are
proved.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.covers.invariant_cover import (
    EXACT,
    Cover,
    EnclosedLoop,
    StepBounds,
    StepErrors,
    enclose_steps,
    with_radii,
)

LEAST_RADIUS = 1e-9
MARGIN = 1.05
"""The first radii allow gains that are larger by this factor; a radius that is too small grows by it."""
SLACK = 0.01
"""What images leave of the radii of their targets, for a check in other arithmetic."""
STEPS_AT_ONCE = 512


@dataclass(frozen=True, eq=False)
class ClosedCover:
    """A cover with what is proved of its steps."""

    cover: Cover  # with radii
    bounds: StepBounds  # of every set and token, [sets · tokens], the tokens of a set side by side
    closed: NDArray[np.bool_]  # which of these steps lead into their targets, with the right answer


def bound_all(
    loop: EnclosedLoop, cover: Cover, rows: NDArray[np.int64] | None = None, errors: StepErrors = EXACT
) -> StepBounds:
    """Return the bounds of the steps of a cover, those of a set side by side."""
    tokens = cover.targets.shape[1]
    rows = np.arange(cover.targets.size) if rows is None else rows
    parts = [
        enclose_steps(loop, cover, *np.divmod(rows[first : first + STEPS_AT_ONCE], tokens), errors)
        for first in range(0, len(rows), STEPS_AT_ONCE)
    ]
    names = [field.name for field in fields(StepBounds)]
    return StepBounds(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def close_cover(
    loop: EnclosedLoop, cover: Cover, attempts: int = 40, errors: StepErrors = EXACT
) -> ClosedCover:
    """Find radii with which a cover is closed, and prove that it is."""
    sets, tokens = cover.targets.shape
    sources, targets = np.repeat(np.arange(sets), tokens), cover.targets.ravel()
    radii = np.full(sets, LEAST_RADIUS)
    first = bound_all(loop, with_radii(cover, radii), errors=errors)
    fixed = np.where(first.exists, first.image - first.gain * radii[sources], first.offset)
    # a step of which nothing is known asks for nothing: NaN would spread to all sets behind it
    known = np.isfinite(fixed) & np.isfinite(first.gain)
    fixed, gain = (np.where(known, values, 0.0) for values in (fixed, first.gain))
    for _ in range(1000):
        needed = radii.copy()
        np.maximum.at(needed, targets, fixed + MARGIN * gain * radii[sources])
        if not (needed > radii * (1 + 1e-6)).any():
            break
        radii = needed
    radii = MARGIN * radii
    bounds = bound_all(loop, with_radii(cover, radii), errors=errors)
    for attempt in range(attempts + 1):
        closed = bounds.maps_into(radii[targets])
        needed = np.zeros(sets)
        np.maximum.at(needed, targets, np.where(np.isfinite(bounds.image), bounds.image, 0.0))
        grown = needed > (1 - SLACK) * radii
        if attempt == attempts or not grown.any():
            break
        radii = np.where(grown, MARGIN * needed, radii)
        rows = np.nonzero(np.repeat(grown, tokens))[0]
        again = bound_all(loop, with_radii(cover, radii), rows, errors)
        for field in fields(StepBounds):
            getattr(bounds, field.name)[rows] = getattr(again, field.name)
    return ClosedCover(with_radii(cover, radii), bounds, closed)
