"""The decays within a chunk of the gated delta rule, from the logarithms of those of its steps."""

from torch import Tensor

from implicit.ops.hand_written_passes import Arguments, op_with_passes


class Decays:
    """How much of the memory is left between any two places of a chunk.

    The logarithms are summed in float64: after a decay that all but erases the memory, a sum in float32 has
    lost the digits of the decays that follow, which only their differences need.

    Args:
        log_decay: ``[rows, steps, 1]``, see `implicit.ops.delta_rule.chunked.rows`.

    Attributes:
        since_start: from the beginning of the chunk to each step, ``[rows, steps, 1]``.
        to_end: from each step to the end, likewise.
        over_chunk: from the beginning to the end, ``[rows, 1, 1]``.
        between: from step j to step i ≥ j, ``[rows, i, j]``; 0 for i < j.

    Example:
        >>> import torch
        >>> Decays(torch.tensor([0.5, 0.25]).log().view(1, 2, 1)).between
        tensor([[[1.0000, 0.0000],
                 [0.2500, 1.0000]]])
    """

    def __init__(self, log_decay: Tensor) -> None:
        total = log_decay.double().cumsum(1)
        self.since_start = total.exp().to(log_decay.dtype)
        self.to_end = (total[:, -1:] - total).exp().to(log_decay.dtype)
        self.over_chunk = self.since_start[:, -1:]
        (self.between,) = _between(log_decay)


def _definition(log_decay: Tensor) -> tuple[Tensor]:
    # Above the diagonal the exponent is positive and could overflow.
    return (_differences(log_decay).clamp(max=0).exp().tril(),)


def _forward(log_decay: Tensor) -> tuple[Tensor]:
    return (_differences(log_decay).clamp_(max=0).exp_().tril_(),)


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    """With a the sums of the log decays and B_ij = exp(a_i − a_j): ∂L/∂a_i = Σ_j (Ḃ ⊙ B)_ij − (Ḃ ⊙ B)_ji."""
    (log_decay,) = inputs
    (along,) = _forward(log_decay)
    along.mul_(gradients[0])
    of_total = along.sum(2, keepdim=True) - along.sum(1)[..., None]
    return (of_total.flip(1).cumsum(1).flip(1),)


def _differences(log_decay: Tensor) -> Tensor:
    total = log_decay.double().cumsum(1)
    return (total - total.mT).to(log_decay.dtype)


_between = op_with_passes(_definition, _forward, _backward)
