"""Sets of states that a closed loop provably cannot leave, and where its iteration provably ends."""

from theory.rigorous.covers.bundling import Attraction, Members, attraction_of
from theory.rigorous.covers.contracting_metrics import contracting_metrics
from theory.rigorous.covers.invariant_cover import (
    Cover,
    EnclosedLoop,
    StepBounds,
    StepErrors,
    enclose_steps,
    with_radii,
)
from theory.rigorous.covers.orbits import Bundles, Iteration, enclose_orbits
from theory.rigorous.covers.radii import ClosedCover, close_cover

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
    "with_radii",
]
