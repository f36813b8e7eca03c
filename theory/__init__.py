"""Statements, conditions and certificates about any recurrent transition given as a pair (Φ, G)."""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata")

from theory.blocks import BlockMap
from theory.fixed_point import FixedPoint, solve_fixed_point
from theory.jacobian.batched import BatchedJacobian, batched_layer_jacobians
from theory.jacobian.factored import (
    FactoredJacobian,
    FullStateJacobian,
    full_state_jacobian,
    latent_jacobian,
    layer_jacobians,
)
from theory.rigorous.prove import StateProof, Theorem1Proof, prove_theorem1
from theory.status import Status
from theory.theorem1.check import check_theorem1
from theory.theorem1.conclusions import LayerConclusion
from theory.theorem1.conditions import Condition, Verdict
from theory.theorem1.kinds import LayerKind, TransitionKind
from theory.theorem1.report import StateCheck, Theorem1Report
from theory.transition import State, Transition
from theory.transition_batch import TokenInputs, TransitionBatch

__all__ = [
    "BatchedJacobian",
    "BlockMap",
    "Condition",
    "FactoredJacobian",
    "FixedPoint",
    "FullStateJacobian",
    "LayerConclusion",
    "LayerKind",
    "State",
    "StateCheck",
    "StateProof",
    "Status",
    "Theorem1Proof",
    "Theorem1Report",
    "TokenInputs",
    "Transition",
    "TransitionBatch",
    "TransitionKind",
    "Verdict",
    "batched_layer_jacobians",
    "check_theorem1",
    "full_state_jacobian",
    "latent_jacobian",
    "layer_jacobians",
    "prove_theorem1",
    "solve_fixed_point",
]
