"""Ball arithmetic on float64 arrays: every number carries a proved bound of its error."""

from theory.balls.ball import Ball
from theory.balls.dual import Dual
from theory.balls.functions import exp, rsqrt, sigmoid, silu, silu_slope, softplus

__all__ = ["Ball", "Dual", "exp", "rsqrt", "sigmoid", "silu", "silu_slope", "softplus"]
