"""What a sequential solve returns."""

from typing import NamedTuple

from torch import Tensor


class Walk(NamedTuple):
    """What a sequential solve finds: one entry per token, and the state after the last.

    Attributes:
        value: z, ``[batch, length, d_model]``, of the dtype of the weights.
        iterations: evaluations of Φ, ``[batch, length]``, int64.
        residual: ‖Φ(z) − z‖₂ when last evaluated, ``[batch, length]``, float32 or wider.
        status: `Status` codes, ``[batch, length]``, int8.
        windows: ``[layers, batch, channels, d_conv − 1]``.
        states: ``[layers, batch, heads, head_size, d_state]``, float32 or wider.

    Example:
        >>> Walk._fields
        ('value', 'iterations', 'residual', 'status', 'windows', 'states')
    """

    value: Tensor
    iterations: Tensor
    residual: Tensor
    status: Tensor
    windows: Tensor
    states: Tensor
