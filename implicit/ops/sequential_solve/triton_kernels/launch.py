"""The launch of the fused sequential solve: sizes, tiles and memory, planned but not run."""

from dataclasses import dataclass

import torch
from torch import Tensor

from implicit.fixed_point import DampedPicard, Stopping
from implicit.ops.sequential_solve.self_map import SelfMap, Walk
from implicit.ops.sequential_solve.triton_kernels.kernel import solve_kernel
from implicit.ops.triton_shared.launch import Launch, padded

LARGEST_TILE = 128
"""Most rows and columns of a tile. What a thread then spills is at most 80 bytes on sm_80, 88 on sm_90, 10
registers on gfx942 (benchmarks/results/triton_compilation.json); not yet chosen by time on a GPU."""

ENTRIES_A_THREAD = 32
"""Entries of a tile that a thread loads at once. A program has a multiprocessor to itself, so it needs many
bytes on their way: in float32 eight loads of 16 bytes a thread, 64 KiB for the largest tile."""

WARP_SIZE = 64 if torch.version.hip else 32


@dataclass(frozen=True)
class Tiles:
    """The tiles of matrices that a program multiplies with vectors; products need no pipeline stages."""

    block_rows: int
    block_columns: int
    warps: int
    stages: int = 1

    def constants(self) -> dict[str, int]:
        """Return the tile sizes under the names that the kernel gives them."""
        return {"BLOCK_ROWS": self.block_rows, "BLOCK_COLUMNS": self.block_columns}


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
            **tile.constants(),
        },
        tile,
    )
    return launch, found
