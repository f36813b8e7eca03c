"""Statements, conditions and certificates about any recurrent transition given as a pair (Φ, G).

- The pair: `Transition`, `State`; at many tokens `TransitionBatch`, `TokenInputs`; a block of it `BlockMap`.
- Fixed points of one token: `solve_fixed_point`, `FixedPoint`, `Status`.
- Jacobians from state to state: `layer_jacobians`, `full_state_jacobian`, `latent_jacobian`,
  `FactoredJacobian`, `FullStateJacobian`; at many states `batched_layer_jacobians`, `BatchedJacobian`.
- Theorem 1 of a model in one call: `check`. At states of yours: `check_theorem1`. Their results:
  `Theorem1Report`, `StateCheck`, `Condition`, `LayerConclusion`, `Verdict`, `LayerKind`, `TransitionKind`.
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

# isort: split
import lazy_loader

require("automata")

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
