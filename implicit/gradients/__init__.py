"""Gradient rules: how a fixed point is differentiated."""

from implicit.gradients.iterated import FactoredImplicit, Implicit
from implicit.gradients.rules import GradientRule, Phantom, Unrolled, solve_with_gradient
from implicit.gradients.trees import TreeSolution, fixed_point

__all__ = [
    "FactoredImplicit",
    "GradientRule",
    "Implicit",
    "Phantom",
    "TreeSolution",
    "Unrolled",
    "fixed_point",
    "solve_with_gradient",
]
