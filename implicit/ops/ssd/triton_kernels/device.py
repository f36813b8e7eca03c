# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Functions that the kernels of the scan share: products, step sizes, and decays within a chunk.

These functions run inside kernels. A chunk has ``CHUNK`` tokens; those past the end of the sequence load as
zeros, and a step size of zero neither decays the state nor adds to it.
"""

import triton
import triton.language as tl
from triton.language.target_info import is_cuda

from implicit.ops.triton_shared.launch import INTERPRETED

# The interpreter holds bfloat16 as bit patterns and would multiply those as integers. Products of bfloat16
# are exact in float32, so widening the operands there gives what a tensor core gives.
WIDEN = tl.constexpr(INTERPRETED)


@triton.jit
def dot(left, right, accumulator):
    """Add the product of two tiles to a float32 accumulator; float32 operands keep 21 bits."""
    if WIDEN:
        return tl.dot(left.to(tl.float32), right.to(tl.float32), accumulator, input_precision="ieee")
    if is_cuda():
        return tl.dot(left, right, accumulator, input_precision="tf32x3")
    return tl.dot(left, right, accumulator, input_precision="ieee")


@triton.jit
def load_steps(start, stride, token, count):
    """Load the step sizes Δ of a chunk in float32; zero past the end of the sequence."""
    return tl.load(start + token * stride, mask=token < count, other=0.0).to(tl.float32)


@triton.jit
def log_decay_sums(dt, A):
    """Sum the log decays Δ A from the start of the chunk, as a coarse and a fine part.

    Tokens that reset the state drive the sums so low that float32 would leave nothing of the decays that
    follow. So every log decay, held above −1024, is split into a multiple of 2⁻⁸, whose sums of 64 are exact,
    and a rest, whose sum stays below 1/4.
    """
    log_decay = dt * A
    log_decay = tl.where(log_decay < -1024.0, -1024.0, log_decay)  # unlike a maximum, this keeps a NaN
    coarse = tl.floor(log_decay * 256.0) * 0.00390625
    return tl.cumsum(coarse, 0), tl.cumsum(log_decay - coarse, 0)


@triton.jit
def decay_over_chunk(coarse, fine, token, CHUNK: tl.constexpr):
    """Return the decay from the start to each token, from each token to the end, and of the whole chunk."""
    coarse_end = tl.sum(tl.where(token == CHUNK - 1, coarse, 0.0), 0)
    fine_end = tl.sum(tl.where(token == CHUNK - 1, fine, 0.0), 0)
    from_start = tl.exp(coarse + fine)
    to_end = tl.exp((coarse_end - coarse) + (fine_end - fine))
    return from_start, to_end, tl.exp(coarse_end + fine_end)


@triton.jit
def decay_between(coarse, fine, token):
    """Return L, [token i, token j]: the decay from token j to token i ≥ j, zero where j comes after i."""
    exponent = (coarse[:, None] - coarse[None, :]) + (fine[:, None] - fine[None, :])
    # Masked before exp: above the diagonal the exponent is positive and could overflow.
    return tl.exp(tl.where(token[:, None] >= token[None, :], exponent, float("-inf")))


@triton.jit
def decay_between_transposed(coarse, fine, token):
    """Return Lᵀ, [token j, token i]."""
    exponent = (coarse[None, :] - coarse[:, None]) + (fine[None, :] - fine[:, None])
    return tl.exp(tl.where(token[None, :] >= token[:, None], exponent, float("-inf")))
