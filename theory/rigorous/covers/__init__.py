"""Sets of states that a closed loop provably cannot leave, and where its iteration provably ends."""

from theory.rigorous.covers.contracting_metrics import contracting_metrics as contracting_metrics
from theory.rigorous.covers.invariant_cover import (
    ClosedCover as ClosedCover,
    Cover as Cover,
    EnclosedLoop as EnclosedLoop,
    StepBounds as StepBounds,
    StepErrors as StepErrors,
    close_cover as close_cover,
    enclose_steps as enclose_steps,
)
from theory.rigorous.covers.orbits import (
    Attraction as Attraction,
    Bundles as Bundles,
    Iteration as Iteration,
    Members as Members,
    attraction_of as attraction_of,
    enclose_orbits as enclose_orbits,
)
