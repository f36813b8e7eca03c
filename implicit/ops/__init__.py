"""Operations with several backends: the readable reference, and the fast forms checked against it."""

from implicit.ops.sequential_solve import explain_sequential_solve as explain_sequential_solve
from implicit.ops.ssd import explain as explain
