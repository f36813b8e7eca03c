"""The derivatives of Φ and G that make up ds'/ds, as pure functions that ``torch.func.vmap`` can map.

:mod:`theory.jacobian.factored` puts them together at one state, :mod:`theory.jacobian.batched` at many at
once. Both speak of one block v of the state, everything else in it held fixed.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import vmap

from theory.derivatives import directional, jacobian_by_rows
from theory.fixed_point import EPSILON
from theory.forward_mode import jvp

Advance = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""(z, v) ↦ (Φ(z; v), G(z; v)): latent and block as vectors of d and n entries."""


@torch.no_grad()
def latent_derivatives(advance: Advance, latent: Tensor, vector: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return ∂zΦ, ∂zG and ∂vΦ, shapes ``[d, d]``, ``[n, d]`` and ``[d, n]``.

    The first two by forward mode together, one derivative for each entry of z; the third by reverse mode.
    """
    size, entries = latent.numel(), vector.numel()
    if size == 0:  # an explicit model: s' does not go through a fixed point
        return latent.new_zeros(0, 0), vector.new_zeros(entries, 0), vector.new_zeros(0, entries)

    def along(direction: Tensor) -> tuple[Tensor, Tensor]:
        return jvp(lambda z: advance(z, vector), (latent,), (direction,))[1]

    identity = torch.eye(size, dtype=latent.dtype, device=latent.device)
    # Not out_dims=1: vmap fails there on an output that does not depend on z.
    slopes, lefts = vmap(along)(identity)
    return slopes.mT, lefts.mT, jacobian_by_rows(lambda v: advance(latent, v)[0], vector)


def probe_direct_term(update: Callable[[Tensor], Tensor], vector: Tensor, signs: Tensor) -> Tensor:
    """Return ∂vG applied to the vector of ones and to random signs, shape ``[1 + k, n]``.

    If ∂vG is diagonal, the first row is that diagonal and determines the others: see :func:`diagonality`.
    """
    return directional(update, vector, torch.cat([torch.ones_like(vector)[None], signs]))


def diagonality(products: Tensor, signs: Tensor) -> tuple[Tensor, Tensor]:
    """Say whether products ``[…, 1 + k, n]`` of :func:`probe_direct_term` are those of a diagonal matrix D.

    They are up to rounding; with it comes the estimate of ‖∂vG − D‖_F. Each has the shape ``[…]``.
    """
    deviation = products[..., 1:, :] - signs * products[..., :1, :]
    # The products of a diagonal term differ in the last places only; what is tolerated here is also returned.
    tolerance = 100 * EPSILON * products.abs().amax(dim=(-2, -1))
    error = torch.linalg.matrix_norm(deviation) / math.sqrt(len(signs))
    return deviation.abs().amax(dim=(-2, -1)) <= tolerance, error
