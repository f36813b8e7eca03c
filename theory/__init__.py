"""Statements, conditions and certificates about any recurrent transition given as a pair (Φ, G).

- The pair: `Transition`, `State`; at many tokens `TransitionBatch`, `TokenInputs`; a block of it `BlockMap`.
- Fixed points of one token: `solve_fixed_point`, `FixedPoint`, `Status`.
- Jacobians from state to state: `layer_jacobians`, `full_state_jacobian`, `latent_jacobian`,
  `FactoredJacobian`, `FullStateJacobian`; at many states `batched_layer_jacobians`, `BatchedJacobian`.
- Theorem 1: `check_theorem1`, `Theorem1Report`, `StateCheck`, `Condition`, `LayerConclusion`, `Verdict`,
  `LayerKind`, `TransitionKind`.
- Theorem 1, proved in ball arithmetic: `prove_theorem1`, `Theorem1Proof`, `StateProof`.
- Sub-packages: `testing` (assertions for your own test suite), `constructions` (models with exact weights),
  `belief` (Bayes filters), `rigorous` (the same proved in ball arithmetic), `jacobian`, `theorem1`,
  `mode_agreement` (sweeps of the simultaneous mode).

Example:
    >>> import torch
    >>> import theory
    >>> halved = theory.Transition(  # Φ(z; h) = z/2 + h, whose fixed point is 2 h, and G = z
    ...     self_map=lambda z, s: z / 2 + s["h"],
    ...     state_update=lambda z, s: {"h": z},
    ...     latent_size=1,
    ...     layer_states=(("h",),),
    ... )
    >>> theory.solve_fixed_point(halved, {"h": torch.ones(1).double()}).latent
    tensor([2.], dtype=torch.float64)
"""

from implicit_ssm import __version__ as __version__
from implicit_ssm import require

require("automata")

from typing import TYPE_CHECKING

from automata.lazy_names import lazy_names
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

if TYPE_CHECKING:
    from theory import belief as belief
    from theory import constructions as constructions
    from theory import rigorous as rigorous
    from theory import testing as testing

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

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(__all__, ""),
    ("belief", "constructions", "jacobian", "mode_agreement", "rigorous", "testing", "theorem1"),
)
