"""The adjoint system on CPU tensors: memory laid out, sequences dealt to threads."""

import numpy as np
import torch
from torch import Tensor

from implicit.ops.numba_shared.launch import array, deal
from implicit.ops.numba_shared.matrices import MOST_VECTORS, pack, padded
from implicit.ops.sequential_solve.numba_kernels.adjoint_kernel import (
    Bookkeeping,
    Krylov,
    Sequences,
    solve_adjoint,
)
from implicit.ops.sequential_solve.numba_kernels.launch import packed, places_for
from implicit.ops.sequential_solve.numba_kernels.trail import Slopes, Trail, replay
from implicit.ops.sequential_solve.numba_kernels.transposed import Pulled, Transposed
from implicit.ops.sequential_solve.self_map import SelfMap

MOST_BYTES = 2**26
"""Memory of the trails of a thread, unless one sequence takes more."""
STEPS = 32
"""The most steps of GMRES between two restarts."""
TOLERANCES = {torch.float32: 1e-5, torch.float64: 1e-13}
"""Residual of the system at a token, as a share of the norm of v: some hundred roundings."""


def walk_back(
    self_map: SelfMap,
    injections: Tensor,
    latents: Tensor,
    windows: Tensor,
    states: Tensor,
    gradient: Tensor,
    mask: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Solve the adjoint system v = g + Jᵀ v of whole sequences; return v and the norm of what it leaves.

    The latents z are where to differentiate, ``gradient`` is g, both ``[batch, length, d_model]`` and of one
    dtype of `TOLERANCES`; all else as of `sequential_solve`. The norms are per token, ``[batch, length]``.
    """
    batch, length, features = latents.shape
    values = array(latents)
    dtype = values.dtype
    weights = packed(self_map)
    w = {name: weight.detach() for name, weight in self_map.weights.items()}
    transposed = Transposed(
        pack(array((w["in_proj"] * w["mixer_norm"][:, None]).mT)),
        pack(array((w["out_proj"] * w["gate_norm"][:, None]).mT)),
    )
    given = Sequences(
        values,
        array(gradient),
        np.ones((batch, length), np.bool_) if mask is None else array(mask),
        array(injections),
        array(windows).transpose(1, 0, 3, 2).copy(),
        array(states.flatten(2, 3)).transpose(1, 0, 3, 2).copy(),
    )
    found = np.empty((batch, length, features), dtype), np.empty((batch, length), dtype)
    rtol = dtype.type(TOLERANCES[latents.dtype])
    layers, inner, width = self_map.layers, self_map.d_inner, self_map.d_state
    bytes_of_sequence = length * layers * inner * width * dtype.itemsize
    most = max(1, min(MOST_VECTORS, MOST_BYTES // bytes_of_sequence))

    def run(first: int, last: int) -> None:
        size = 1 << (min(last - first, most) - 1).bit_length()
        places = places_for(self_map, size, dtype)
        memory = _memory(self_map, size, length, dtype)
        trail, windows, states, book = memory[0], memory[3], memory[4], memory[-1]
        for begin in range(first, last, most):
            count = min(most, last - begin)
            book.sequence[:count] = range(begin, begin + count)
            replay(weights, places, trail, *given[:1], *given[2:], book.sequence, book.token, count)
            book.token[:], book.fresh[:] = length, True
            windows[:], states[:] = 0, 0
            solve_adjoint(weights, transposed, given, *memory, found, rtol, count)

    deal(run, batch)
    return torch.from_numpy(found[0]), torch.from_numpy(found[1])


def _memory(
    self_map: SelfMap, size: int, length: int, dtype: np.dtype
) -> tuple[Trail, Slopes, Pulled, np.ndarray, np.ndarray, Krylov, Bookkeeping]:
    """Return the memory that the kernel works in, for so many places, a power of two."""
    layers, heads, inner, features = self_map.layers, self_map.heads, self_map.d_inner, self_map.d_model
    channels, width, older = self_map.channels, self_map.d_state, self_map.d_conv - 1
    rows, kept = layers * size, size * length * layers
    steps = min(STEPS, features)

    def zeros(*shape: int) -> np.ndarray:
        return np.zeros(shape, dtype)

    trail = Trail(
        streams=zeros(size * length * (layers + 1), padded(features, dtype)),
        projected=zeros(kept, padded(self_map.d_in_proj, dtype)),
        convolved=zeros(kept, channels),
        steps=zeros(kept, heads),
        decays=zeros(kept, heads),
        states=np.empty((kept, width, inner), dtype),
    )
    factors = zeros(rows + size, 3)
    factors[:, 1:] = 1 / features, self_map.groups / inner
    slopes = Slopes(
        normed=zeros(rows + size, features),
        factors=factors,
        activated=zeros(rows, channels),
        channel_slopes=zeros(rows, channels),
        step_slopes=zeros(rows, heads),
        gains=zeros(rows, heads),
        of_steps=zeros(rows, inner),
        gated=zeros(rows, inner),
        opened=zeros(rows, inner),
        gate_slopes=zeros(rows, inner),
    )
    pulled = Pulled(
        vectors=zeros(size, features),
        streams=zeros(size, features),
        normed=zeros(size, padded(features, dtype)),
        gated=zeros(rows, padded(inner, dtype)),
        projected=zeros(rows, self_map.d_in_proj),
        convolved=zeros(rows, channels),
    )
    krylov = Krylov(
        iterate=zeros(size, features),
        basis=zeros(size, steps + 1, features),
        triangle=np.zeros((size, steps + 1, steps)),
        cosines=np.zeros((size, steps)),
        sines=np.zeros((size, steps)),
        right=np.zeros((size, steps + 2)),  # behind it what the tolerance is of
    )
    book = Bookkeeping(*np.zeros((4, size), np.int64), *np.zeros((2, size), np.bool_))
    return trail, slopes, pulled, zeros(rows * older, channels), zeros(rows * width, inner), krylov, book
