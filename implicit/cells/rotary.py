"""Rotary position embedding: pairs of features turned by angles that grow with the position."""

import torch
from torch import Tensor


def rotary_angles(positions: Tensor, head_size: int, base: float, dtype: torch.dtype) -> Tensor:
    """Return the angle of every pair of features, position · base^(−2 i / head_size).

    It is ``[..., head_size / 2]``, of the dtype given, float32 at least. The slowest pair turns once in about
    2π · base positions.

    Source:
        Su et al. 2021, arXiv 2104.09864.

    Example:
        >>> rotary_angles(torch.tensor([0, 3]), 4, 100.0, torch.float32)
        tensor([[0.0000, 0.0000],
                [3.0000, 0.3000]])
    """
    dtype = torch.promote_types(dtype, torch.float32)
    exponents = torch.arange(0, head_size, 2, dtype=dtype, device=positions.device) / head_size
    return positions[..., None].to(dtype) * base**-exponents


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turn feature i and feature i + head_size / 2 as one pair, the order of Llama; angles as above.

    Example:
        >>> quarter = torch.full((1, 1, 1), torch.pi / 2)
        >>> rotate(torch.tensor([[[[1.0, 0.0]]]]), quarter).round().flatten()
        tensor([-0., 1.])
    """
    cos, sin = (part.to(x.dtype)[..., None, :] for part in (angles.cos(), angles.sin()))
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
