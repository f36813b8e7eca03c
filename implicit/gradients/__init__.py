"""Gradient rules: how a fixed point is differentiated."""

from implicit.gradients.factored import FactoredImplicit
from implicit.gradients.iterated import Implicit
from implicit.gradients.rules import GradientRule, Phantom, Unrolled
from implicit.gradients.solve import solve_with_gradient

__all__ = ["FactoredImplicit", "GradientRule", "Implicit", "Phantom", "Unrolled", "solve_with_gradient"]
