"""The scan over transitions P D: P has a single 1 in every column, D is diagonal and complex.

| code         | meaning                                                | shape                            |
|--------------|--------------------------------------------------------|----------------------------------|
| ``target``   | π: the row of the 1 in every column of P               | ``[batch, length, heads, size]`` |
| ``factor``   | d, the diagonal of D                                   | likewise, complex                |
| ``written``  | b, what a token adds to the state                      | likewise, complex                |
| ``state``    | h                                                      | ``[batch, heads, size]``, complex |

A token moves entry j to entry π(j), times d_j, and adds b: h ← P D h + b. Entries that meet are summed. Two
such transitions make a third, with target π₂(π₁(j)), factor d₂[π₁(j)] d₁[j], and written P₂ D₂ b₁ + b₂. So
all states come from log₂(length) rounds, in each of which every token is joined with what stands 1, 2, 4, …
tokens before it.
"""

import torch
from torch import Tensor


def one_hot_step(target: Tensor, factor: Tensor, written: Tensor, state: Tensor) -> Tensor:
    """Return P D h + b of single tokens; ``target`` is int64, all else complex, each ``[..., size]``."""
    moved = factor * state
    return written + torch.zeros_like(moved).scatter_add(-1, target, moved)


def one_hot_scan(target: Tensor, factor: Tensor, written: Tensor, initial: Tensor) -> Tensor:
    """Return the state before every token and after the last, ``[batch, length + 1, heads, size]``."""
    span = 1
    while span < target.shape[1]:
        # Each token stands for the last `span` tokens up to it; joined with those before them.
        before, after = target[:, :-span], target[:, span:]
        joined = after.gather(-1, before)
        later = factor[:, span:]
        joined_written = one_hot_step(after, later, written[:, span:], written[:, :-span])
        joined_factor = later.gather(-1, before) * factor[:, :-span]
        target = torch.cat([target[:, :span], joined], dim=1)
        factor = torch.cat([factor[:, :span], joined_factor], dim=1)
        written = torch.cat([written[:, :span], joined_written], dim=1)
        span *= 2
    initial = initial[:, None]
    return torch.cat([initial, one_hot_step(target, factor, written, initial.expand_as(written))], dim=1)
