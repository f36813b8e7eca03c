"""State-to-state Jacobians: of one state, of many at once, and their large entries."""

from theory.jacobian.batched import BatchedJacobian, batched_layer_jacobians
from theory.jacobian.factored import (
    FactoredJacobian,
    FullStateJacobian,
    full_state_jacobian,
    latent_jacobian,
    layer_jacobians,
)

__all__ = [
    "BatchedJacobian",
    "FactoredJacobian",
    "FullStateJacobian",
    "batched_layer_jacobians",
    "full_state_jacobian",
    "latent_jacobian",
    "layer_jacobians",
]
