"""Norms of latents and residuals whose squares a float may not hold."""

import functools
import math

import torch
from torch import Tensor
from torch.linalg import vector_norm


def token_norm(vectors: Tensor) -> Tensor:
    """Return ‖v‖ over the last axis, also where squares overflow or vanish."""
    plain = vector_norm(vectors, dim=-1)
    held = (plain > least_norm(vectors.dtype)) & (plain < math.inf)
    largest = vectors.abs().amax(dim=-1)
    scale = torch.where(held | (largest == 0), 1, largest)
    return torch.where(held, plain, vector_norm(vectors / scale[..., None], dim=-1) * scale)


@functools.cache
def least_norm(dtype: torch.dtype) -> float:
    """Return the least norm whose square is a normal number; half precision is summed up in float32."""
    return math.sqrt(torch.finfo(torch.promote_types(dtype, torch.float32)).tiny)
