"""What launches are made of: tile sizes, and tensors as kernels read them, tokens in packed rows."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Tiles:
    """How a kernel cuts a matrix of tokens by features.

    Attributes:
        tokens: rows a tile.
        features: columns a tile.
        warps: warps per program.
        stages: stages of the software pipeline; passes over memory have no use for any.

    Example:
        >>> Tiles(tokens=4, features=128, warps=1).constants()
        {'BLOCK_TOKENS': 4, 'BLOCK_FEATURES': 128}
    """

    tokens: int
    features: int
    warps: int
    stages: int = 1

    def constants(self) -> dict[str, int]:
        """Return the tile sizes under the names that kernels give them."""
        return {"BLOCK_TOKENS": self.tokens, "BLOCK_FEATURES": self.features}


def matrix(tensor: Tensor, features: int) -> Tensor:
    """Return a tensor as ``[tokens, features]`` with packed rows; a copy only where its strides ask for one.

    Args:
        tensor: its last axes have ``features`` entries together.
        features: how many entries a token has.

    Example:
        A slice of a wider projection is read in place.

        >>> import torch
        >>> wide = torch.zeros(2, 5, 12)
        >>> x = matrix(wide[..., :8].unflatten(-1, (4, 2)), 8)
        >>> x.shape, x.stride(), x.data_ptr() == wide.data_ptr()
        (torch.Size([10, 8]), (12, 1), True)
        >>> matrix(torch.ones(()).expand(2, 5, 8), 8).stride()
        (8, 1)
    """
    rows = tensor.reshape(-1, features)
    return rows if features == 1 or rows.stride(1) == 1 else rows.contiguous()


def strided_rows(**matrices: Tensor) -> dict[str, Tensor | int]:
    """Return kernel arguments: each matrix, with the distance of its rows.

    Example:
        >>> import torch
        >>> strided_rows(x=torch.zeros(5, 3))
        {'x': tensor(...), 'x_token': 3}
    """
    arguments: dict[str, Tensor | int] = {}
    for name, tensor in matrices.items():
        arguments |= {name: tensor, f"{name}_token": tensor.stride(0)}
    return arguments


def rows(tensor: Tensor) -> Tensor:
    """Return a tensor ``[batch, length, ...]`` whose tokens are packed rows; a copy only where they are not.

    The batch and the length may have any stride: a slice of a wider projection is taken as it is.

    Example:
        >>> import torch
        >>> wide = torch.zeros(2, 5, 12)
        >>> x = wide[..., :8].unflatten(-1, (4, 2))
        >>> rows(x) is x, rows(x.mT) is x.mT
        (True, False)
    """
    packed = tensor[0, 0].is_contiguous()
    return tensor if packed else tensor.contiguous()


def strided(**tensors: Tensor) -> dict[str, Tensor | int]:
    """Return kernel arguments: each tensor, with its strides over batch and tokens.

    Example:
        >>> import torch
        >>> strided(x=torch.zeros(2, 5, 3))
        {'x': tensor(...), 'x_batch': 15, 'x_token': 3}
    """
    arguments: dict[str, Tensor | int] = {}
    for name, tensor in tensors.items():
        arguments |= {name: tensor, f"{name}_batch": tensor.stride(0), f"{name}_token": tensor.stride(1)}
    return arguments
