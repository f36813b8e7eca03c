"""The fused sequential solve on CPU tensors: weights packed, memory laid out, sequences dealt to threads."""

import numpy as np
import torch
from torch import Tensor

from implicit.fixed_point import DampedPicard, Stopping
from implicit.ops.numba_shared.launch import array, deal
from implicit.ops.numba_shared.matrices import MOST_VECTORS, pack, padded
from implicit.ops.sequential_solve.numba_kernels.adjoint_kernel import (
    Bookkeeping,
    Krylov,
    Sequences,
    solve_adjoint,
)
from implicit.ops.sequential_solve.numba_kernels.evaluate import Places, Weights
from implicit.ops.sequential_solve.numba_kernels.kernel import solve
from implicit.ops.sequential_solve.numba_kernels.trail import Slopes, Trail, replay
from implicit.ops.sequential_solve.numba_kernels.transposed import Pulled, Transposed
from implicit.ops.sequential_solve.self_map import SelfMap, Walk


def walk(
    self_map: SelfMap,
    injections: Tensor,
    start: Tensor,
    windows: Tensor,
    states: Tensor,
    solver: DampedPicard,
    stopping: Stopping,
    mask: Tensor | None = None,
) -> Walk:
    """Solve token after token; arguments as of `sequential_solve`, and which tokens are real."""
    batch, length, features = start.shape
    dtype = array(start).dtype
    weights = packed(self_map)
    # [layers, batch, channels, d_conv − 1] and [layers, batch, heads, head_size, d_state]
    # become sequences first and channels last, always as copies: they are replaced in place.
    window = array(windows).transpose(1, 0, 3, 2).copy()
    state = array(states.flatten(2, 3)).transpose(1, 0, 3, 2).copy()
    found = (
        np.empty((batch, length, features), dtype),
        np.empty((batch, length), np.int64),
        np.empty((batch, length), dtype),
        np.empty((batch, length), np.int8),
    )
    real = np.ones((batch, length), np.bool_) if mask is None else array(mask)
    element = dtype.type
    rule = (
        element(solver.damping),
        element(stopping.rtol),
        element(stopping.atol),
        stopping.max_iterations,
        np.finfo(dtype).tiny,
    )
    given = array(injections), array(start), real, window, state, found, rule

    def run(first: int, last: int) -> None:
        places = places_for(self_map, min(last - first, MOST_VECTORS), dtype)
        numbers = np.zeros((5, len(places.normed)), np.int64)
        solve(weights, places, *given, tuple(numbers), first, last)

    deal(run, batch)
    value, iterations, residual, status = (torch.from_numpy(part) for part in found)
    after = torch.from_numpy(np.ascontiguousarray(window.transpose(1, 0, 3, 2)))
    ssm = torch.from_numpy(np.ascontiguousarray(state.transpose(1, 0, 3, 2))).view_as(states)
    return Walk(value, iterations, residual, status, after, ssm)


def packed(self_map: SelfMap) -> Weights:
    """The self-map as the kernels read it, weights of norms multiplied into the matrices."""
    w = {name: weight.detach() for name, weight in self_map.weights.items()}
    dtype = array(w["D"]).dtype
    return Weights(
        in_proj=pack(array(w["in_proj"] * w["mixer_norm"][:, None])),
        out_proj=pack(array(w["out_proj"] * w["gate_norm"][:, None])),
        taps=array(w["conv_weight"].mT),
        conv_bias=array(w["conv_bias"]),
        dt_bias=array(w["dt_bias"]),
        rates=array(-w["A_log"].exp()),
        skips=array(w["D"]),
        latent_norm=array(w["latent_norm"]),
        groups=self_map.groups,
        residual=self_map.residual,
        epsilon=dtype.type(self_map.epsilon),
    )


def places_for(self_map: SelfMap, size: int, dtype: np.dtype) -> Places:
    """Memory for as many places, and up to a power of two more that products are computed for."""
    size = 1 << (size - 1).bit_length()
    layers, heads, inner = self_map.layers, self_map.heads, self_map.d_inner

    def rows(count: int, width: int) -> np.ndarray:
        return np.zeros((count, width), dtype)

    return Places(
        streams=rows((layers + 1) * size, padded(self_map.d_model, dtype)),
        normed=rows(size, self_map.d_model),
        projected=rows(layers * size, padded(self_map.d_in_proj, dtype)),
        past=rows(layers * size, self_map.channels),
        activated=rows(layers * size, self_map.channels),
        steps=rows(layers * size, heads),
        decays=rows(layers * size, heads),
        gated=rows(size, inner),
        images=rows(size, self_map.d_model),
    )


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
