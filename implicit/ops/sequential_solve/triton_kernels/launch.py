# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators
"""The kernel of the fused sequential solve, a program per sequence, and its launch, planned but not run."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from implicit.fixed_point import DampedPicard, Status, Stopping
from implicit.ops.sequential_solve.self_map import SelfMap, Walk
from implicit.ops.sequential_solve.triton_kernels.device import (
    advance_state,
    norm_factor,
    project,
    project_back,
    read_state,
    vector_norm,
)
from implicit.ops.triton_shared.launch import Launch, Tiles, padded

CONVERGED = tl.constexpr(int(Status.CONVERGED))
MAX_ITERATIONS = tl.constexpr(int(Status.MAX_ITERATIONS))
NON_FINITE = tl.constexpr(int(Status.NON_FINITE))


# One compilation serves every batch, length and limit.
@triton.jit(do_not_specialize=["batch", "length", "max_iterations"])
def solve_kernel(
    mixer_norm, in_proj, conv_weight, conv_bias, dt_bias, A_log, D, gate_norm, out_proj, latent_norm,
    injections, start, windows, states, value, iterations, residuals, statuses,
    streams, projected, activated, gated, factors,
    batch, length, max_iterations, damping, rtol, atol, epsilon,
    LAYERS: tl.constexpr, D_MODEL: tl.constexpr, D_INNER: tl.constexpr, CHANNELS: tl.constexpr,
    D_IN_PROJ: tl.constexpr, HEADS: tl.constexpr, HEAD_SIZE: tl.constexpr, D_STATE: tl.constexpr,
    GROUPS: tl.constexpr, D_CONV: tl.constexpr, RESIDUAL: tl.constexpr, PADDED_MODEL: tl.constexpr,
    PADDED_STATE: tl.constexpr, PADDED_WINDOW: tl.constexpr, BLOCK_ROWS: tl.constexpr,
    BLOCK_COLUMNS: tl.constexpr,
):  # fmt: skip
    """Solve token after token of one sequence; windows and states are replaced in place.

    The value is the last iterate that Φ was evaluated at, as in `implicit.fixed_point.solve`.
    """
    # Scratch memory of this sequence: stream after each layer, projections, channels, gated outputs, factors.
    sequence = tl.program_id(0).to(tl.int64)
    streams += sequence * ((LAYERS + 1) * D_MODEL)
    projected += sequence * (LAYERS * D_IN_PROJ)
    activated += sequence * (LAYERS * CHANNELS)
    gated += sequence * D_INNER
    factors += sequence * GROUPS
    feature = tl.arange(0, PADDED_MODEL)
    inside = feature < D_MODEL
    latent_weight = tl.load(latent_norm + feature, mask=inside, other=0.0).to(tl.float32)

    earlier_converged = tl.full((), 1, tl.int32)
    for token in range(length):
        # z₀ of the token.
        place = sequence * length + token
        latent = tl.load(start + place * D_MODEL + feature, mask=inside, other=0.0).to(tl.float32)
        tl.store(streams + feature, latent, mask=inside)
        tl.debug_barrier()

        # Until ‖Φ(z) − z‖ ≤ atol + rtol ‖z‖, or a limit, or a number that is not finite.
        evaluations = tl.full((), 0, tl.int32)
        status = tl.full((), MAX_ITERATIONS, tl.int32)
        residual = tl.full((), float("inf"), tl.float32)
        while (status == MAX_ITERATIONS) & (evaluations < max_iterations):
            for layer in range(LAYERS):
                of_sequence = layer * batch + sequence
                # (gate, p, raw Δ) = W_in norm(s) + injection; (x, B, C) = silu(taps ∗ p).
                project(
                    streams + layer * D_MODEL, mixer_norm + layer * D_MODEL,
                    in_proj + layer * (D_IN_PROJ * D_MODEL),
                    injections + (of_sequence * length + token) * D_IN_PROJ,
                    windows + of_sequence * (CHANNELS * (D_CONV - 1)),
                    conv_weight + layer * (CHANNELS * D_CONV), conv_bias + layer * CHANNELS,
                    projected + layer * D_IN_PROJ, activated + layer * CHANNELS, epsilon,
                    D_MODEL, D_INNER, CHANNELS, D_IN_PROJ, D_CONV, PADDED_MODEL, BLOCK_ROWS, BLOCK_COLUMNS,
                )  # fmt: skip
                tl.debug_barrier()
                # q = (e^(ΔA) h C + (Δ (B · C) + D) x) silu(gate), and the factor of its norm.
                read_state(
                    projected + layer * D_IN_PROJ, activated + layer * CHANNELS,
                    states + of_sequence * (D_INNER * D_STATE), dt_bias + layer * HEADS,
                    A_log + layer * HEADS, D + layer * HEADS, gated, factors, epsilon,
                    D_INNER, CHANNELS, HEAD_SIZE, D_STATE, GROUPS, PADDED_STATE, BLOCK_ROWS, BLOCK_COLUMNS,
                )  # fmt: skip
                tl.debug_barrier()
                # s' = s + W_out norm(q), without s if there is no residual stream.
                project_back(
                    gated, factors, gate_norm + layer * D_INNER, out_proj + layer * (D_MODEL * D_INNER),
                    streams + layer * D_MODEL, streams + (layer + 1) * D_MODEL,
                    D_MODEL, D_INNER, GROUPS, RESIDUAL, BLOCK_ROWS, BLOCK_COLUMNS,
                )  # fmt: skip
                tl.debug_barrier()
            # Φ(z) = norm(s) weight, and the status that its distance from z gives.
            stream = tl.load(streams + LAYERS * D_MODEL + feature, mask=inside, other=0.0)
            image = stream * norm_factor(stream, D_MODEL, epsilon) * latent_weight
            difference = image - latent
            residual = vector_norm(difference)
            tolerance = atol + rtol * vector_norm(latent)
            evaluations += 1
            met = (residual <= tolerance) & (tolerance < float("inf"))
            status = tl.where(met, CONVERGED, MAX_ITERATIONS)
            status = tl.where(residual < float("inf"), status, NON_FINITE)  # neither is a NaN below it
            # z ← z + τ (Φ(z) − z), unless this z is the one to keep.
            goes_on = (status == MAX_ITERATIONS) & (evaluations < max_iterations)
            latent = tl.where(goes_on, latent + damping * difference, latent)
            tl.store(streams + feature, latent, mask=inside)
            tl.debug_barrier()

        # A fixed point above a wrong left context is none.
        status = tl.where((status == CONVERGED) & (earlier_converged == 0), MAX_ITERATIONS, status)
        earlier_converged = tl.where(status == CONVERGED, 1, 0)
        # Results of the token.
        tl.store(value + place * D_MODEL + feature, latent.to(value.dtype.element_ty), mask=inside)
        tl.store(iterations + place, evaluations.to(tl.int64))
        tl.store(residuals + place, residual)
        tl.store(statuses + place, status.to(tl.int8))
        # h ← e^(ΔA) h + Δ x Bᵀ, and the window moves on by one token.
        for layer in range(LAYERS):
            of_sequence = layer * batch + sequence
            advance_state(
                projected + layer * D_IN_PROJ, activated + layer * CHANNELS,
                windows + of_sequence * (CHANNELS * (D_CONV - 1)), states + of_sequence * (D_INNER * D_STATE),
                dt_bias + layer * HEADS, A_log + layer * HEADS,
                D_INNER, CHANNELS, HEAD_SIZE, D_STATE, GROUPS, D_CONV, PADDED_WINDOW, BLOCK_ROWS,
                BLOCK_COLUMNS,
            )  # fmt: skip
        tl.debug_barrier()


LARGEST_TILE = 128
"""Most rows and columns of a tile. A thread then spills at most 80 bytes on sm_80, 88 on sm_90, 10 registers
on gfx942 (benchmarks/results/triton_compilation.json); not yet chosen by time on a GPU."""

ENTRIES_A_THREAD = 32
"""Entries of a tile that a thread loads at once. A program has a multiprocessor to itself, so it needs many
bytes on their way: in float32 eight loads of 16 bytes a thread, 64 KiB for the largest tile."""

WARP_SIZE = 64 if torch.version.hip else 32


def tiles(self_map: SelfMap, warp_size: int = WARP_SIZE) -> Tiles:
    """Return the tile sizes: the largest, or less where the matrices are smaller."""
    rows = min(LARGEST_TILE, padded(self_map.d_in_proj))
    columns = min(LARGEST_TILE, padded(max(self_map.d_model, self_map.d_inner, self_map.d_state)))
    return Tiles(rows, columns, max(1, rows * columns // (ENTRIES_A_THREAD * warp_size)))


def walk(
    self_map: SelfMap,
    injections: Tensor,
    start: Tensor,
    windows: Tensor,
    states: Tensor,
    solver: DampedPicard,
    stopping: Stopping,
) -> tuple[Launch, Walk]:
    """Plan the solve, with the arguments of `sequential_solve`; return the launch and what it fills.

    Windows and states are copies of those given, which stay as they are.
    """
    batch, length, d_model = start.shape
    layers, d_in_proj, channels = self_map.layers, self_map.d_in_proj, self_map.channels
    tile = tiles(self_map)

    def filled_by_the_kernel(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.empty(shape, dtype=dtype, device=start.device)

    found = Walk(
        torch.empty_like(start, memory_format=torch.contiguous_format),
        filled_by_the_kernel(batch, length, dtype=torch.int64),
        filled_by_the_kernel(batch, length),
        filled_by_the_kernel(batch, length, dtype=torch.int8),
        windows.clone(memory_format=torch.contiguous_format),
        states.clone(memory_format=torch.contiguous_format),
    )
    launch = Launch(
        solve_kernel,
        batch,
        {
            **{name: weight.detach().contiguous() for name, weight in self_map.weights.items()},
            "injections": injections.contiguous(),
            "start": start.contiguous(),
            "windows": found.windows,
            "states": found.states,
            "value": found.value,
            "iterations": found.iterations,
            "residuals": found.residual,
            "statuses": found.status,
            "streams": filled_by_the_kernel(batch, layers + 1, d_model),
            "projected": filled_by_the_kernel(batch, layers, d_in_proj),
            "activated": filled_by_the_kernel(batch, layers, channels),
            "gated": filled_by_the_kernel(batch, self_map.d_inner),
            "factors": filled_by_the_kernel(batch, self_map.groups),
            "batch": batch,
            "length": length,
            "max_iterations": stopping.max_iterations,
            "damping": solver.damping,
            "rtol": stopping.rtol,
            "atol": stopping.atol,
            "epsilon": self_map.epsilon,
        },
        {
            "LAYERS": layers,
            "D_MODEL": d_model,
            "D_INNER": self_map.d_inner,
            "CHANNELS": channels,
            "D_IN_PROJ": d_in_proj,
            "HEADS": self_map.heads,
            "HEAD_SIZE": self_map.head_size,
            "D_STATE": self_map.d_state,
            "GROUPS": self_map.groups,
            "D_CONV": self_map.d_conv,
            "RESIDUAL": int(self_map.residual),
            "PADDED_MODEL": padded(d_model),
            "PADDED_STATE": padded(self_map.d_state),
            "PADDED_WINDOW": padded(self_map.d_conv),
            **tile.constants("ROWS", "COLUMNS"),
        },
        tile,
    )
    return launch, found
