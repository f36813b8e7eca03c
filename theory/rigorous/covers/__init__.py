"""Sets of states that a closed loop provably cannot leave."""

from theory.rigorous.covers.contracting_metrics import contracting_metrics
from theory.rigorous.covers.invariant_cover import (
    Cover,
    EnclosedLoop,
    StepBounds,
    enclose_steps,
    with_radii,
)
from theory.rigorous.covers.radii import ClosedCover, close_cover

__all__ = [
    "ClosedCover",
    "Cover",
    "EnclosedLoop",
    "StepBounds",
    "close_cover",
    "contracting_metrics",
    "enclose_steps",
    "with_radii",
]
