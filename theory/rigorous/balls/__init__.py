"""Ball arithmetic on float64 arrays: every number carries a proved bound of its error."""

from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.dual import Dual
from theory.rigorous.balls.functions import exp, rsqrt, sigmoid, silu, silu_slope, softplus

__all__ = ["Ball", "Dual", "exp", "rsqrt", "sigmoid", "silu", "silu_slope", "softplus"]
