"""The public names and where they are defined, for type checkers and for importing them late."""

from . import belief as belief
from . import constructions as constructions
from . import jacobian as jacobian
from . import mode_agreement as mode_agreement
from . import rigorous as rigorous
from . import testing as testing
from . import theorem1 as theorem1
from .blocks import BlockMap as BlockMap
from .fixed_point import FixedPoint as FixedPoint, solve_fixed_point as solve_fixed_point
from .jacobian.batched import (
    BatchedJacobian as BatchedJacobian,
    batched_layer_jacobians as batched_layer_jacobians,
)
from .jacobian.factored import (
    FactoredJacobian as FactoredJacobian,
    FullStateJacobian as FullStateJacobian,
    full_state_jacobian as full_state_jacobian,
    latent_jacobian as latent_jacobian,
    layer_jacobians as layer_jacobians,
)
from .rigorous.prove import (
    StateProof as StateProof,
    Theorem1Proof as Theorem1Proof,
    prove_theorem1 as prove_theorem1,
)
from .status import Status as Status
from .theorem1.check import check_theorem1 as check_theorem1
from .theorem1.conditions import LayerConclusion as LayerConclusion
from .theorem1.conditions import Condition as Condition, Verdict as Verdict
from .theorem1.check import check as check
from .theorem1.kinds import LayerKind as LayerKind, TransitionKind as TransitionKind
from .theorem1.report import StateCheck as StateCheck, Theorem1Report as Theorem1Report
from .transition import State as State, Transition as Transition
from .transition import TokenInputs as TokenInputs, TransitionBatch as TransitionBatch

__version__: str
