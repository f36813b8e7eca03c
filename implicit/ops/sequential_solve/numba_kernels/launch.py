"""The fused sequential solve on CPU tensors: weights packed, memory laid out, sequences dealt to threads."""

import numpy as np
import torch
from torch import Tensor

from implicit.fixed_point import DampedPicard, Stopping
from implicit.ops.numba_shared.launch import array, deal
from implicit.ops.numba_shared.matrices import MOST_VECTORS, pack, padded
from implicit.ops.sequential_solve.numba_kernels.evaluate import Places, Weights
from implicit.ops.sequential_solve.numba_kernels.kernel import solve
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
