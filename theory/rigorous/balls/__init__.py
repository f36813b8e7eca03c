"""Ball arithmetic on float64 arrays: every number carries a proved bound of its error."""

from theory.rigorous.balls.ball import Ball as Ball
from theory.rigorous.balls.dual import Dual as Dual
from theory.rigorous.balls.functions import (
    exp as exp,
    rsqrt as rsqrt,
    sigmoid as sigmoid,
    silu as silu,
    silu_slope as silu_slope,
    softplus as softplus,
)
