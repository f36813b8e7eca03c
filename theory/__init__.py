"""Statements, conditions and certificates about any recurrent transition given as a pair (Φ, G)."""

from theory.blocks import BlockMap
from theory.conditions import Condition, Verdict
from theory.fixed_point import FixedPoint, Status, solve_fixed_point
from theory.jacobian import (
    FactoredJacobian,
    FullStateJacobian,
    full_state_jacobian,
    latent_jacobian,
    layer_jacobians,
)
from theory.report import LayerConclusion, StateCheck, Theorem1Report
from theory.theorem1 import check_theorem1
from theory.transition import State, Transition

__all__ = [
    "BlockMap",
    "Condition",
    "FactoredJacobian",
    "FixedPoint",
    "FullStateJacobian",
    "LayerConclusion",
    "State",
    "StateCheck",
    "Status",
    "Theorem1Report",
    "Transition",
    "Verdict",
    "check_theorem1",
    "full_state_jacobian",
    "latent_jacobian",
    "layer_jacobians",
    "solve_fixed_point",
]
