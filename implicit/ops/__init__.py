"""Operations with several backends: the readable reference, and the fast forms checked against it."""

from implicit.ops.around_scan import explain_around_scan
from implicit.ops.sequential_solve import explain_sequential_solve
from implicit.ops.ssd import explain

__all__ = ["explain", "explain_around_scan", "explain_sequential_solve"]
