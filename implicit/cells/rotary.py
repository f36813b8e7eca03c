"""Rotary position embedding: pairs of features turned by angles that grow with the position."""

import torch
from torch import Tensor


def rotary_angles(positions: Tensor, head_size: int, base: float, dtype: torch.dtype) -> Tensor:
    """Return the angles position · base^(−2 i / head_size), ``[..., head_size / 2]``: arXiv 2104.09864."""
    dtype = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, head_size, 2, dtype=dtype, device=positions.device) / head_size
    return positions[..., None].to(dtype) * base**-exponents


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn feature i and feature i + head_size / 2 as one pair, the order of Llama; angles as above."""
    cos, sin = (part.to(x.dtype)[..., None, :] for part in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
