# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""Kernels of the gated norm: each pass reads its inputs once and writes its results once.

With s = y + D x, q = s silu(gate), r = (mean(q²) + ε)^(−1/2) over a group of features, n = r q and the output
o = weight n, gradients, marked by a dot, are

    ṅ = weight ȯ      q̇ = r (ṅ − n mean(n ṅ))      ẏ = ṡ = silu(gate) q̇      ẋ = D ṡ      Ḋ = Σ x ṡ

A program holds whole groups of features. Sums over tokens are made without atomics, so that they come out the
same every time: a program of the backward pass walks over a run of tokens and leaves one sum.
"""

import functools
from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from implicit.ops.gated_norm.dispatch import definition
from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes
from implicit.ops.triton_shared.device import load_rows, silu, silu_derivative, store_rows
from implicit.ops.triton_shared.launch import Launch, Tiles, matrix, strided_rows

ENTRIES_A_WARP = 32 * 8
"""Entries of a tile that a warp holds."""
RUNS = 1024
"""Most runs of tokens that the backward pass sums by themselves: a few programs for each multiprocessor."""


@triton.jit
def _gated(y, y_token, x, x_token, gate, gate_token, D, token, count, column, FEATURES: tl.constexpr):
    """Load a tile; return s, x, the gate, silu(gate) and q, which are zero outside of it."""
    value = load_rows(x, x_token, token, count, column, FEATURES).to(tl.float32)
    skipped = load_rows(y, y_token, token, count, column, FEATURES).to(tl.float32) + D[None, :] * value
    logit = load_rows(gate, gate_token, token, count, column, FEATURES).to(tl.float32)
    opened = silu(logit)
    return skipped, value, logit, opened, skipped * opened


@triton.jit
def _norm_factor(gated, token, count, epsilon, FEATURES: tl.constexpr):
    """Return r of every token, ``[tokens, 1]``; zero outside, also where ε is 0."""
    squares = tl.sum(gated * gated, 1)
    factor = tl.where(squares < float("inf"), tl.rsqrt(squares / FEATURES + epsilon), float("nan"))
    return tl.where(token < count, factor, 0.0)[:, None]


@triton.jit
def gated_norm_kernel(
    y, y_token, x, x_token, gate, gate_token, D, weight, output, tokens, epsilon,
    GROUPS: tl.constexpr, FEATURES: tl.constexpr, HEAD_SIZE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr, BLOCK_FEATURES: tl.constexpr,
):  # fmt: skip
    """Outputs of a tile of tokens, for one group."""
    # Which group, and which tokens.
    group = tl.program_id(0) % GROUPS
    first = (tl.program_id(0) // GROUPS).to(tl.int64) * BLOCK_TOKENS
    token = tl.arange(0, BLOCK_TOKENS)
    count = tl.minimum(tokens - first, BLOCK_TOKENS).to(tl.int32)
    column = tl.arange(0, BLOCK_FEATURES)
    feature = group * FEATURES + column
    inside = column < FEATURES

    # q = (y + D x) silu(gate).
    skip = tl.load(D + feature // HEAD_SIZE, mask=inside, other=0.0).to(tl.float32)
    _, _, _, _, gated = _gated(
        y + first * y_token + group * FEATURES, y_token, x + first * x_token + group * FEATURES, x_token,
        gate + first * gate_token + group * FEATURES, gate_token, skip, token, count, column, FEATURES,
    )  # fmt: skip
    # o = weight r q.
    factor = _norm_factor(gated, token, count, epsilon, FEATURES)
    scale = tl.load(weight + feature, mask=inside, other=0.0).to(tl.float32)
    width: tl.constexpr = GROUPS * FEATURES
    own = output + first * width + group * FEATURES
    store_rows(own, width, token, count, column, FEATURES, gated * factor * scale[None, :])


@triton.jit
def gated_norm_gradient_kernel(
    output_gradient, output_gradient_token, y, y_token, x, x_token, gate, gate_token, D, weight,
    y_gradient, x_gradient, gate_gradient, D_sums, weight_sums, tokens, tiles_a_run, epsilon,
    GROUPS: tl.constexpr, FEATURES: tl.constexpr, HEAD_SIZE: tl.constexpr,
    BLOCK_TOKENS: tl.constexpr, BLOCK_FEATURES: tl.constexpr,
):  # fmt: skip
    """Gradients of a run of tokens, for one group; those of D, feature by feature, and weight as sums."""
    # Which group, and which run of tokens; Ḋ and the gradient of weight are summed over the run.
    group = tl.program_id(0) % GROUPS
    run = (tl.program_id(0) // GROUPS).to(tl.int64)
    token = tl.arange(0, BLOCK_TOKENS)
    column = tl.arange(0, BLOCK_FEATURES)
    feature = group * FEATURES + column
    inside = column < FEATURES
    width: tl.constexpr = GROUPS * FEATURES

    skip = tl.load(D + feature // HEAD_SIZE, mask=inside, other=0.0).to(tl.float32)
    scale = tl.load(weight + feature, mask=inside, other=0.0).to(tl.float32)
    skip_sums = tl.zeros((BLOCK_TOKENS, BLOCK_FEATURES), tl.float32)
    scale_sums = tl.zeros((BLOCK_TOKENS, BLOCK_FEATURES), tl.float32)
    for tile in range(tiles_a_run):
        first = (run * tiles_a_run + tile) * BLOCK_TOKENS
        count = tl.minimum(tokens - first, BLOCK_TOKENS).to(tl.int32)  # not above 0 past the last tile
        # s, x, gate, silu(gate) and q once more; n = r q.
        skipped, value, logit, opened, gated = _gated(
            y + first * y_token + group * FEATURES, y_token, x + first * x_token + group * FEATURES, x_token,
            gate + first * gate_token + group * FEATURES, gate_token, skip, token, count, column, FEATURES,
        )  # fmt: skip
        factor = _norm_factor(gated, token, count, epsilon, FEATURES)
        normalised = gated * factor
        # The gradient of weight is Σ ȯ n; ṅ = weight ȯ and q̇ = r (ṅ − n mean(n ṅ)).
        o_dot = load_rows(
            output_gradient + first * output_gradient_token + group * FEATURES, output_gradient_token, token,
            count, column, FEATURES,
        ).to(tl.float32)  # fmt: skip
        scale_sums += o_dot * normalised
        n_dot = o_dot * scale[None, :]
        mean = (tl.sum(n_dot * normalised, 1) / FEATURES)[:, None]
        q_dot = factor * (n_dot - normalised * mean)
        # ẏ = ṡ = silu(gate) q̇, ẋ = D ṡ, Ḋ = Σ x ṡ.
        s_dot = opened * q_dot
        skip_sums += value * s_dot
        own = first * width + group * FEATURES
        store_rows(y_gradient + own, width, token, count, column, FEATURES, s_dot)
        store_rows(x_gradient + own, width, token, count, column, FEATURES, skip[None, :] * s_dot)
        # The gradient of the gate is silu'(gate) s q̇.
        gate_dot = silu_derivative(logit) * skipped * q_dot
        store_rows(gate_gradient + own, width, token, count, column, FEATURES, gate_dot)
    tl.store(D_sums + run * width + feature, tl.sum(skip_sums, 0), mask=inside)
    tl.store(weight_sums + run * width + feature, tl.sum(scale_sums, 0), mask=inside)


def tiles(features: int) -> Tiles:
    """Return the tile sizes for groups of so many features: whole groups, several tokens of small ones."""
    block = triton.next_power_of_2(features)
    tokens = max(1, ENTRIES_A_WARP // block)
    return Tiles(tokens, block, min(16, max(1, tokens * block // ENTRIES_A_WARP)))


def forward(
    y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor, groups: int, epsilon: float
) -> tuple[Launch, Tensor]:
    """Plan the forward pass of `gated_norm`; return the launch and the output that it fills."""
    inputs = (y, x, D, gate, weight)
    dtype = functools.reduce(torch.promote_types, (part.dtype for part in inputs))
    output = y.new_empty(gate.shape, dtype=dtype)
    features = weight.numel() // groups
    tile = tiles(features)
    tokens = y.numel() // weight.numel()
    launch = Launch(
        gated_norm_kernel,
        triton.cdiv(tokens, tile.rows) * groups,
        {**_arguments(inputs), "output": output, "tokens": tokens, "epsilon": epsilon},
        _constants(y, groups, features, tile),
        tile,
    )
    return launch, output


def backward(
    inputs: Sequence[Tensor], output_gradient: Tensor, groups: int, epsilon: float
) -> tuple[Launch, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Plan the backward pass, for the inputs y, x, D, gate and weight of `forward`.

    Return the launch, the gradients of y, x and gate, and for D and weight the sums of runs of tokens,
    ``[runs, heads · head_size]``, float32.
    """
    y, x, _, gate, weight = inputs
    features = weight.numel() // groups
    tile = tiles(features)
    tokens = y.numel() // weight.numel()
    token_tiles = triton.cdiv(tokens, tile.rows)
    tiles_a_run = triton.cdiv(token_tiles, RUNS)
    runs = triton.cdiv(token_tiles, tiles_a_run)
    y_gradient, x_gradient, gate_gradient = (tensor.new_empty(tensor.shape) for tensor in (y, x, gate))
    D_sums, weight_sums = y.new_empty(2, runs, weight.numel(), dtype=torch.float32)
    launch = Launch(
        gated_norm_gradient_kernel,
        runs * groups,
        {
            **strided_rows(output_gradient=matrix(output_gradient, weight.numel())),
            **_arguments(inputs),
            "y_gradient": y_gradient,
            "x_gradient": x_gradient,
            "gate_gradient": gate_gradient,
            "D_sums": D_sums,
            "weight_sums": weight_sums,
            "tokens": tokens,
            "tiles_a_run": tiles_a_run,
            "epsilon": epsilon,
        },
        _constants(y, groups, features, tile),
        tile,
    )
    return launch, y_gradient, x_gradient, gate_gradient, D_sums, weight_sums


def _arguments(inputs: Sequence[Tensor]) -> dict[str, Tensor | int]:
    y, x, D, gate, weight = inputs
    width = weight.numel()
    rows = strided_rows(y=matrix(y, width), x=matrix(x, width), gate=matrix(gate, width))
    return {**rows, "D": D.contiguous(), "weight": weight.contiguous()}


def _constants(y: Tensor, groups: int, features: int, tile: Tiles) -> dict[str, int]:
    sizes = {"GROUPS": groups, "FEATURES": features, "HEAD_SIZE": y.shape[-1]}
    return {**sizes, **tile.constants("TOKENS", "FEATURES")}


@functools.cache
def triton_op(groups: int, epsilon: float) -> Op:
    """Return the gated norm with kernels for passes; arguments as of `definition`."""

    def run_forward(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor) -> tuple[Tensor]:
        launch, output = forward(y, x, D, gate, weight, groups, epsilon)
        launch.run()
        return (output,)

    def run_backward(inputs: Arguments, gradients: Arguments) -> Arguments:
        D, weight = inputs[2], inputs[4]
        launch, y_dot, x_dot, gate_dot, D_sums, weight_sums = backward(inputs, gradients[0], groups, epsilon)
        launch.run()
        D_dot = D_sums.unflatten(-1, (len(D), -1)).sum((0, 2)).to(D.dtype)
        return y_dot, x_dot, D_dot, gate_dot, weight_sums.sum(0).to(weight.dtype)

    return op_with_passes(definition(groups, epsilon), run_forward, run_backward)
