"""Gradient rules: how a fixed point is differentiated."""

from implicit.gradients.factored import FactoredImplicit
from implicit.gradients.rules import GradientRule, Implicit, Phantom, Unrolled

__all__ = ["FactoredImplicit", "GradientRule", "Implicit", "Phantom", "Unrolled"]
