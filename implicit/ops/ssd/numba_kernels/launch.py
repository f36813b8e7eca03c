"""The scan on CPU tensors: memory laid out, sequences dealt to threads."""

from itertools import accumulate

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from implicit.ops.hand_written_passes import op_with_passes
from implicit.ops.numba_shared.launch import Strided, array, deal
from implicit.ops.numba_shared.matrices import lanes, memory
from implicit.ops.ssd import chunked
from implicit.ops.ssd.numba_kernels import sequence
from implicit.ops.ssd.numba_kernels.chunk import CHUNK_SIZE, Chunk, Gradient


def room_for_chunk(length: int, size: int, width: int, dtype: np.dtype) -> tuple[Chunk, Gradient]:
    """Lay out the memory of a chunk and of its gradients, for states ``[size, width]``."""
    whole = lanes(dtype)
    t, p, n = (-(-number // whole) * whole for number in (min(length, CHUNK_SIZE), size, width))
    of_chunk = (*4 * (t,), *3 * (t * p,), *4 * (t * n,), *2 * (t * t,), p * n)
    of_gradient = (*4 * (t * p,), *3 * (t * n,), *4 * (t,), *2 * (p * n,), *2 * (t * t,))
    *places, end = accumulate((*of_chunk, *of_gradient), initial=0)
    room = memory(end, dtype)
    chunk = Chunk(room, t, p, n, *places[: len(of_chunk)])
    return chunk, Gradient(*places[len(of_chunk) :])


def room_for_states(work: Chunk, heads: int, length: int = 1) -> NDArray[np.floating]:
    """Memory for the states of all heads before every chunk of a sequence."""
    return memory(-(-length // work.tokens) * heads * work.size * work.width, work.memory.dtype)


def forward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs and final state; arguments as of `ssd`, all of one dtype."""
    inputs = _inputs(x, dt, A, B, C)
    states = _state(x, B, initial_state)
    y = torch.empty_like(x, memory_format=torch.contiguous_format)

    def run(first: int, last: int) -> None:
        work, _ = room_for_chunk(x.shape[1], x.shape[3], B.shape[3], inputs.A.dtype)
        held = room_for_states(work, x.shape[2])
        sequence.forward(inputs, states.reshape(-1), Strided.of(y), work, held, first, last)

    deal(run, len(x))
    return y, torch.from_numpy(states)


def backward(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None,
    y_dot: Tensor | None,
    state_dot: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None]:
    """Gradients of x, Δ, A, B, C and the initial state, from those of the outputs and the final state."""
    inputs = _inputs(x, dt, A, B, C)
    states, states_dot = _state(x, B, initial_state), _state(x, B, state_dot)
    outputs_dot = Strided.of(torch.zeros_like(x) if y_dot is None else y_dot)
    made = [torch.empty_like(part, memory_format=torch.contiguous_format) for part in (x, dt, B, C, dt)]
    found = sequence.Gradients(*(Strided.of(part) for part in made))

    def run(first: int, last: int) -> None:
        work, back = room_for_chunk(x.shape[1], x.shape[3], B.shape[3], inputs.A.dtype)
        held, held_dot = room_for_states(work, x.shape[2], x.shape[1]), room_for_states(work, x.shape[2])
        flat = states.reshape(-1), outputs_dot, states_dot.reshape(-1)
        sequence.backward(inputs, *flat, found, work, back, held, held_dot, first, last)

    deal(run, len(x))
    x_dot, dt_dot, B_dot, C_dot, rates = made
    A_dot = (rates.double() * dt).sum((0, 1)).to(A.dtype)
    before = None if initial_state is None else torch.from_numpy(states_dot)
    return x_dot, dt_dot, A_dot, B_dot, C_dot, before


def _inputs(x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor) -> sequence.Inputs[Strided]:
    x_part, dt_part, B_part, C_part = (Strided.of(part) for part in (x, dt, B, C))
    return sequence.Inputs(
        x_part, dt_part, array(A), B_part, C_part, x.shape[1], B.shape[2], x.shape[3], B.shape[3]
    )


def _state(x: Tensor, B: Tensor, given: Tensor | None) -> NDArray[np.floating]:
    """A state to be replaced in place: a copy, or zeros."""
    if given is not None:
        return array(given).copy()
    batch, _, heads, size = x.shape
    return np.zeros((batch, heads, size, B.shape[3]), array(x[:0]).dtype)


def ssd_numba(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Run `ssd` by numba: kernels for values and first derivatives, the chunked composition for all else."""
    dt, A = dt.to(x.dtype), A.to(x.dtype)
    y, state = _SCAN(x, dt, A, B, C, None if initial_state is None else initial_state.to(x.dtype))
    return y, state


_SCAN = op_with_passes(
    chunked.composition(chunked.CHUNK_SIZE),
    forward=forward,
    backward=lambda inputs, gradients: backward(*inputs, *gradients),
)
