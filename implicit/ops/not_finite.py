"""Which sequences have to be computed token by token, because a number in them is not finite.

Products over several tokens multiply what comes later by 0, and 0 · NaN is NaN: without more, a token that is
not finite reaches earlier ones.
"""

import math

import torch
from torch import Tensor

from implicit.ops.hand_written_passes import is_transformed


def not_finite_sequences(outputs: Tensor) -> Tensor | None:
    """Return which sequences of ``[batch, tokens, …]`` end in what is not finite, or None.

    No state forgets what is not finite. Transformed and compiled code cannot look at numbers, and gets None.
    """
    if torch.compiler.is_compiling() or is_transformed(()):
        return None
    last = outputs[:, -1].detach()
    if math.isfinite(last.sum()):  # the sum of finite numbers may overflow, which only costs time
        return None
    rows = (~last[..., None].isfinite()).flatten(1).any(1).nonzero()[:, 0]
    return rows if len(rows) and outputs.shape[1] > 1 else None
