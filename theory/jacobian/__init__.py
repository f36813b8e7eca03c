"""State-to-state Jacobians: of one state, of many at once, and their large entries."""

from theory.jacobian.batched import BatchedJacobian, batched_layer_jacobians
from theory.jacobian.coupling_entries import coupling_entries
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
    "coupling_entries",
    "full_state_jacobian",
    "latent_jacobian",
    "layer_jacobians",
]
