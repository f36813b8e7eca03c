"""Sets of states that a closed loop provably cannot leave, and where its iteration provably ends."""

from theory.rigorous.covers.contracting_metrics import contracting_metrics
from theory.rigorous.covers.invariant_cover import (
    ClosedCover,
    Cover,
    EnclosedLoop,
    StepBounds,
    StepErrors,
    close_cover,
    enclose_steps,
)
from theory.rigorous.covers.orbits import (
    Attraction,
    Bundles,
    Iteration,
    Members,
    attraction_of,
    enclose_orbits,
)

__all__ = [
    "Attraction",
    "Bundles",
    "ClosedCover",
    "Cover",
    "EnclosedLoop",
    "Iteration",
    "Members",
    "StepBounds",
    "StepErrors",
    "attraction_of",
    "close_cover",
    "contracting_metrics",
    "enclose_orbits",
    "enclose_steps",
]
