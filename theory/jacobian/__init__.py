"""State-to-state Jacobians: of one state, of many at once, and their large entries."""

from theory.jacobian.batched import (
    BatchedJacobian as BatchedJacobian,
    batched_layer_jacobians as batched_layer_jacobians,
)
from theory.jacobian.coupling_entries import coupling_entries as coupling_entries
from theory.jacobian.factored import (
    FactoredJacobian as FactoredJacobian,
    FullStateJacobian as FullStateJacobian,
    full_state_jacobian as full_state_jacobian,
    latent_jacobian as latent_jacobian,
    layer_jacobians as layer_jacobians,
)
