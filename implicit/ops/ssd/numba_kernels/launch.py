"""The scan on CPU tensors: memory laid out, sequences dealt to threads."""

import numpy as np
import torch
from torch import Tensor

from implicit.ops.numba_shared.launch import array, deal
from implicit.ops.numba_shared.products import lanes as lanes_of
from implicit.ops.ssd.numba_kernels import kernel
from implicit.ops.ssd.numba_kernels.tiles import ROWS


def forward(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Outputs and final state; arguments as of `ssd`, all of one dtype.

    Example:
        >>> x, dt, B = torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1), torch.ones(1, 2, 1, 1)
        >>> y, state = forward(x, dt, torch.zeros(1), B, B, None)
        >>> y.flatten().tolist(), state.item()
        ([1.0, 2.0], 2.0)
    """
    inputs = kernel.Inputs(*(array(part) for part in (x, dt, A, B, C)))
    states = _state(inputs, initial_state)
    y = np.empty_like(inputs.x)
    lanes = lanes_of(y.dtype)

    def run(first: int, last: int) -> None:
        kernel.forward(inputs, states, y, _work(inputs, lanes), lanes, first, last)

    deal(run, len(x))
    return torch.from_numpy(y), torch.from_numpy(states)


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
    """Gradients of x, Δ, A, B, C and the initial state, from those of the outputs and the final state.

    Example:
        y₂ = 2 with C₁ = 1 and C₂ = 1: its gradient in C₂ is the state, 2.

        >>> x, dt, B = torch.ones(1, 2, 1, 1), torch.ones(1, 2, 1), torch.ones(1, 2, 1, 1)
        >>> ones = torch.ones(1, 2, 1, 1)
        >>> backward(x, dt, torch.zeros(1), B, B, None, ones, None)[4].flatten().tolist()
        [1.0, 2.0]
    """
    inputs = kernel.Inputs(*(array(part) for part in (x, dt, A, B, C)))
    states, states_dot = _state(inputs, initial_state), _state(inputs, state_dot)
    y = np.zeros_like(inputs.x) if y_dot is None else array(y_dot)
    found = tuple(np.empty_like(part) for part in (inputs.x, inputs.dt, inputs.dt, inputs.B, inputs.C))
    lanes = lanes_of(y.dtype)

    def run(first: int, last: int) -> None:
        work = _work(inputs, lanes)
        kernel.backward(inputs, states, y, states_dot, found, work, _back(work, lanes), lanes, first, last)

    deal(run, len(x))
    x_dot, dt_dot, rates, B_dot, C_dot = (torch.from_numpy(part) for part in found)
    A_dot = (rates.double() * dt).sum((0, 1)).to(A.dtype)
    before = None if initial_state is None else torch.from_numpy(states_dot)
    return x_dot, dt_dot, A_dot, B_dot, C_dot, before


def _state(inputs: kernel.Inputs, given: Tensor | None) -> np.ndarray:
    """A state to be replaced in place: a copy, or zeros."""
    if given is not None:
        return array(given).copy()
    batch, _, heads, size = inputs.x.shape
    return np.zeros((batch, heads, size, inputs.B.shape[3]), inputs.x.dtype)


def _work(inputs: kernel.Inputs, lanes: int) -> kernel.Work:
    length, dtype = inputs.x.shape[1], inputs.x.dtype
    unit = max(lanes, ROWS)  # both sizes are rows in one product and columns in another
    size, width = (-(-n // unit) * unit for n in (inputs.x.shape[3], inputs.B.shape[3]))
    shapes = (length + 1,), *2 * ((length, size),), *2 * ((length, width),), (width, size), (size, width)
    return kernel.Work(*(np.zeros(shape, dtype) for shape in shapes))


def _back(work: kernel.Work, lanes: int) -> kernel.Backward:
    length = len(work.u)
    u, B, state = work.u.shape, work.B.shape, work.state.shape
    shapes = u, B, B, (length * ROWS, lanes), (length, lanes), state, work.transposed.shape, u
    return kernel.Backward(*(np.zeros(shape, work.u.dtype) for shape in shapes))
