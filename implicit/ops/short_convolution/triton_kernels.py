# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Kernels of the short convolution: each pass reads its inputs from memory once, whatever its width.

With q_t = bias + Σ_k weight_k padded_{t+k} and the output silu(q), gradients, marked by a dot, are

    q̇ = silu'(q) ẏ      padded_s: Σ_k weight_k q̇_{s−k}      weight_k: Σ_t q̇_t padded_{t+k}      bias: Σ_t q̇_t

The backward pass computes q̇ once for every tap instead of storing it: a tile is read at as many shifts as two
windows have, and all reads after the first come from the cache. A program walks over a run of tokens and
leaves one sum of each tap: without atomics, so that sums come out the same every time.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from implicit.ops.hand_written_passes import Arguments, op_with_passes
from implicit.ops.short_convolution.dispatch import definition
from implicit.ops.triton_shared.device import load_rows, silu, silu_derivative, store_rows
from implicit.ops.triton_shared.launch import Launch, Tiles, rows, strided

# Those that spill no registers for four taps (benchmarks/results/triton_compilation.json). Not yet chosen by
# time on a GPU.
FORWARD_TILES = Tiles(rows=16, columns=128, warps=4)
BACKWARD_TILES = Tiles(rows=8, columns=64, warps=2)
TILES_A_RUN = 16
"""Most tiles of tokens that a program of the backward pass sums over."""


@triton.jit
def _load_from(start, stride, first, local, count, column, WIDTH: tl.constexpr):
    """Load tokens ``first + local`` in float32, zero for those below 0 and from ``count`` on."""
    exists = (local >= -first) & (local < count - first)
    own = start + first.to(tl.int64) * stride  # so that tiles at several shifts share their other offsets
    inside = exists[:, None] & (column < WIDTH)[None, :]
    return tl.load(own + (local[:, None] * stride + column[None, :]), mask=inside, other=0.0).to(tl.float32)


@triton.jit
def short_convolution_kernel(
    padded, padded_batch, padded_token, weight, bias, output, length,
    CHANNELS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_TOKENS: tl.constexpr, BLOCK_FEATURES: tl.constexpr,
):  # fmt: skip
    """Outputs of a tile of tokens and channels of one sequence."""
    program = tl.program_id(0)
    channel_tiles: tl.constexpr = (CHANNELS + BLOCK_FEATURES - 1) // BLOCK_FEATURES
    channel = (program % channel_tiles) * BLOCK_FEATURES + tl.arange(0, BLOCK_FEATURES)
    program = program // channel_tiles
    token_tiles = tl.cdiv(length, BLOCK_TOKENS)
    first = (program % token_tiles).to(tl.int64) * BLOCK_TOKENS
    batch = (program // token_tiles).to(tl.int64)
    token = tl.arange(0, BLOCK_TOKENS)
    count = tl.minimum(length - first, BLOCK_TOKENS).to(tl.int32)

    # q_t = bias + Σ_k weight_k padded_{t+k}, and silu(q_t).
    own = padded + batch * padded_batch + first * padded_token
    start = tl.load(bias + channel, mask=channel < CHANNELS, other=0.0).to(tl.float32)
    convolved = tl.zeros((BLOCK_TOKENS, BLOCK_FEATURES), tl.float32) + start[None, :]
    for k in tl.static_range(WIDTH):
        tap = tl.load(weight + channel * WIDTH + k, mask=channel < CHANNELS, other=0.0).to(tl.float32)
        shifted = load_rows(own + k * padded_token, padded_token, token, count, channel, CHANNELS)
        convolved += tap[None, :] * shifted.to(tl.float32)
    own_output = output + (batch * length + first) * CHANNELS
    store_rows(own_output, CHANNELS, token, count, channel, CHANNELS, silu(convolved))


@triton.jit
def short_convolution_gradient_kernel(
    output_gradient, output_gradient_batch, output_gradient_token, padded, padded_batch, padded_token,
    weight, bias, padded_gradient, sums, length, runs, tiles_a_run,
    CHANNELS: tl.constexpr, WIDTH: tl.constexpr, PADDED_SUMS: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr, BLOCK_FEATURES: tl.constexpr,
):  # fmt: skip
    """Gradients of a run of padded tokens of one sequence, and the sums of that run for taps and bias."""
    # Which tile of channels, run of tokens and sequence.
    program = tl.program_id(0)
    channel_tiles: tl.constexpr = (CHANNELS + BLOCK_FEATURES - 1) // BLOCK_FEATURES
    channel = (program % channel_tiles) * BLOCK_FEATURES + tl.arange(0, BLOCK_FEATURES)
    program = program // channel_tiles
    run = program % runs
    batch = (program // runs).to(tl.int64)
    inside = channel < CHANNELS
    local = tl.arange(0, BLOCK_TOKENS)
    tokens = length + WIDTH - 1

    own = padded + batch * padded_batch
    own_output_gradient = output_gradient + batch * output_gradient_batch
    start = tl.load(bias + channel, mask=inside, other=0.0).to(tl.float32)
    # Sums over the run.
    row = tl.arange(0, PADDED_SUMS)[:, None]  # of the sums: the taps, then the bias
    found = tl.zeros((PADDED_SUMS, BLOCK_FEATURES), tl.float32)
    for tile in range(tiles_a_run):
        first = (run * tiles_a_run + tile) * BLOCK_TOKENS
        gradient = tl.zeros((BLOCK_TOKENS, BLOCK_FEATURES), tl.float32)
        for k in tl.static_range(WIDTH):
            # q of the token that has read this one with tap k.
            convolved = tl.zeros((BLOCK_TOKENS, BLOCK_FEATURES), tl.float32) + start[None, :]
            for j in tl.static_range(WIDTH):  # shifts that repeat are loaded once: the compiler sees it
                tap = tl.load(weight + channel * WIDTH + j, mask=inside, other=0.0).to(tl.float32)
                shifted = _load_from(own, padded_token, first + (j - k), local, tokens, channel, CHANNELS)
                convolved += tap[None, :] * shifted
            # q̇ = silu'(q) ẏ there; padded_s gets Σ_k weight_k q̇_{s−k}.
            token = first - k + local
            y_dot = _load_from(
                own_output_gradient, output_gradient_token, first - k, local, length, channel, CHANNELS
            )
            # Outside the sequence there is no gradient, not even of an infinite token.
            exists = ((token >= 0) & (token < length))[:, None]
            q_dot = tl.where(exists, silu_derivative(convolved) * y_dot, 0.0)
            tap = tl.load(weight + channel * WIDTH + k, mask=inside, other=0.0).to(tl.float32)
            gradient += tap[None, :] * q_dot
            # weight_j: Σ_t q̇_t padded_{t+j}, and bias: Σ_t q̇_t.
            if k == 0:  # every token once
                for j in tl.static_range(WIDTH):
                    shifted = _load_from(own, padded_token, first + (j - k), local, tokens, channel, CHANNELS)
                    found += tl.where(row == j, tl.sum(q_dot * shifted, 0)[None, :], 0.0)
                found += tl.where(row == WIDTH, tl.sum(q_dot, 0)[None, :], 0.0)
        own_gradient = padded_gradient + (batch * tokens + first) * CHANNELS
        store_rows(own_gradient, CHANNELS, local, tokens - first, channel, CHANNELS, gradient)
    own_sums = sums + (batch * runs + run) * (WIDTH + 1) * CHANNELS
    store_rows(own_sums, CHANNELS, tl.arange(0, PADDED_SUMS), WIDTH + 1, channel, CHANNELS, found)


def forward(padded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Launch, Tensor]:
    """Plan the forward pass of `short_convolution`; return the launch and the output, which it fills."""
    (channels, width), batch = weight.shape, len(padded)
    length = padded.shape[1] - width + 1
    dtype = torch.promote_types(torch.promote_types(padded.dtype, weight.dtype), bias.dtype)
    output = padded.new_empty(batch, length, channels, dtype=dtype)
    tile = FORWARD_TILES
    launch = Launch(
        short_convolution_kernel,
        batch * triton.cdiv(length, tile.rows) * triton.cdiv(channels, tile.columns),
        {
            **strided(padded=rows(padded)),
            "weight": weight.contiguous(),
            "bias": bias.contiguous(),
            "output": output,
            "length": length,
        },
        {"CHANNELS": channels, "WIDTH": width, **tile.constants("TOKENS", "FEATURES")},
        tile,
    )
    return launch, output


def backward(
    padded: Tensor, weight: Tensor, bias: Tensor, output_gradient: Tensor
) -> tuple[Launch, Tensor, Tensor]:
    """Plan the backward pass, from the arguments of `forward` and the gradient of its output.

    Return the launch, the gradient of ``padded``, and for runs of tokens the sums of the others, ``[batch,
    runs, width + 1, channels]``, float32, the last row for the bias.
    """
    (channels, width), (batch, length) = weight.shape, output_gradient.shape[:2]
    tile = BACKWARD_TILES
    token_tiles = triton.cdiv(padded.shape[1], tile.rows)
    tiles_a_run = min(TILES_A_RUN, token_tiles)
    runs = triton.cdiv(token_tiles, tiles_a_run)
    padded_gradient = padded.new_empty(padded.shape)
    sums = padded.new_empty(batch, runs, width + 1, channels, dtype=torch.float32)
    launch = Launch(
        short_convolution_gradient_kernel,
        batch * runs * triton.cdiv(channels, tile.columns),
        {
            **strided(output_gradient=rows(output_gradient), padded=rows(padded)),
            "weight": weight.contiguous(),
            "bias": bias.contiguous(),
            "padded_gradient": padded_gradient,
            "sums": sums,
            "length": length,
            "runs": runs,
            "tiles_a_run": tiles_a_run,
        },
        {
            "CHANNELS": channels,
            "WIDTH": width,
            "PADDED_SUMS": triton.next_power_of_2(width + 1),
            **tile.constants("TOKENS", "FEATURES"),
        },
        tile,
    )
    return launch, padded_gradient, sums


def _forward(padded: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor]:
    launch, output = forward(padded, weight, bias)
    launch.run()
    return (output,)


def _backward(inputs: Arguments, gradients: Arguments) -> Arguments:
    padded, weight, bias = inputs
    launch, padded_dot, sums = backward(padded, weight, bias, gradients[0])
    launch.run()
    taps_and_bias = sums.sum((0, 1))
    return padded_dot, taps_and_bias[:-1].T.to(weight.dtype), taps_and_bias[-1].to(bias.dtype)


triton_op = op_with_passes(definition, _forward, _backward)
"""The op with kernels for passes; the inputs are those of `definition`."""
