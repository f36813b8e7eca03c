"""Gradient rules: how a fixed point is differentiated."""

from implicit.gradients.rules import (
    FactoredImplicit as FactoredImplicit,
    GradientRule as GradientRule,
    Implicit as Implicit,
    Phantom as Phantom,
    Unrolled as Unrolled,
    solve_with_gradient as solve_with_gradient,
)
from implicit.gradients.trees import TreeSolution as TreeSolution, fixed_point as fixed_point
