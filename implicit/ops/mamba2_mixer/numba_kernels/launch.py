"""The mixer on CPU tensors: memory laid out, sequences dealt to threads."""

import functools
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from implicit.ops.hand_written_passes import Arguments, Op, op_with_passes
from implicit.ops.mamba2_mixer.dispatch import MixerTensors, definition
from implicit.ops.mamba2_mixer.numba_kernels import kernel
from implicit.ops.mamba2_mixer.numba_kernels.around_scan import Found, Inputs, Room
from implicit.ops.numba_shared.launch import Strided, array, deal
from implicit.ops.numba_shared.matrices import memory
from implicit.ops.ssd.numba_kernels.launch import room_for_chunk, room_for_states


def forward(norm_groups: int, epsilon: float, *tensors: Any) -> tuple[Tensor, Tensor]:
    """Outputs and final state of `MixerTensors`."""
    given = MixerTensors(*tensors)
    inputs = _inputs(norm_groups, epsilon, functional.softplus(_before(given)), given)
    states = array(given.state)
    after = np.empty_like(states)
    out = given.projected.new_empty(*given.projected.shape[:2], len(inputs.weight))

    def run(first: int, last: int) -> None:
        work, _ = room_for_chunk(inputs.length, inputs.size, inputs.width, inputs.A.dtype)
        held, room = room_for_states(work, len(inputs.A)), _room(inputs, min(inputs.length, kernel.RUN))
        flat = states.reshape(-1), after.reshape(-1), out.numpy().reshape(-1)
        kernel.mix_forward(inputs, *flat, room, work, held, first, last)

    deal(run, len(out))
    return out, torch.from_numpy(after)


def backward(norm_groups: int, epsilon: float, tensors: Arguments, gradients: Arguments) -> Arguments:
    """Gradients of `MixerTensors`, from those of the outputs and the final state."""
    given = MixerTensors(*tensors)
    projected, state, before = given.projected, given.state, _before(given)
    dt = functional.softplus(before)
    inputs = _inputs(norm_groups, epsilon, dt, given)
    outputs_dot, state_dot = gradients
    batch, heads, features = len(projected), len(inputs.A), len(inputs.weight)
    states = array(state)
    states_dot = np.zeros_like(states) if state_dot is None else array(state_dot).copy()
    if outputs_dot is None:
        outputs_dot = projected.new_zeros(*projected.shape[:2], features)
    flat_dot = Strided.of(outputs_dot)

    def zeros(entries: int) -> NDArray[np.floating]:
        return np.zeros(batch * entries, inputs.A.dtype)

    projected_dot = projected.new_empty(projected.shape)
    dt_dot, rates = torch.empty_like(before), torch.empty_like(before)
    found = Found(
        projected_dot.numpy().reshape(-1),
        zeros(given.window[0].numel()),
        zeros(inputs.taps.size),
        zeros(inputs.bias.size),
        dt_dot.numpy().reshape(-1),
        rates.numpy().reshape(-1),
        zeros(features),
        zeros(features),
    )

    def run(first: int, last: int) -> None:
        work, back = room_for_chunk(inputs.length, inputs.size, inputs.width, inputs.A.dtype)
        tokens = min(inputs.length, kernel.RUN)
        runs, room = -(-inputs.length // kernel.RUN), _room(inputs, tokens)
        lengths = runs * work.tokens, tokens + work.tokens, 1
        held = (room_for_states(work, heads, length) for length in lengths)
        flat = states.reshape(-1), flat_dot, states_dot.reshape(-1)
        kernel.mix_backward(inputs, *flat, found, room, work, back, *held, first, last)

    deal(run, batch)
    window_dot = torch.from_numpy(found.window).view(batch, -1, len(inputs.bias)).mT
    taps_dot, bias_dot, skip_dot, weight_dot = (
        torch.from_numpy(part).view(batch, -1).sum(0)
        for part in (found.taps, found.bias, found.skip, found.weight)
    )
    before_dot = dt_dot.mul_(before.sigmoid_())  # the derivative of softplus
    if given.real is not None:
        before_dot.mul_(given.real[..., None])
    projected_dot[..., -heads:] = before_dot
    return (
        projected_dot,
        window_dot,
        taps_dot.view(given.taps.shape[::-1]).T,
        bias_dot,
        before_dot.sum((0, 1)),
        (rates.double() * torch.from_numpy(inputs.dt).view_as(dt)).sum((0, 1)).to(given.A.dtype),
        skip_dot.view(heads, -1).sum(1),
        weight_dot,
        torch.from_numpy(states_dot),
        None,
    )


def _before(given: MixerTensors) -> Tensor:
    """Return Δ before softplus, contiguous."""
    return given.projected.detach()[..., -len(given.dt_bias) :] + given.dt_bias.detach()


def _inputs(norm_groups: int, epsilon: float, dt: Tensor, given: MixerTensors) -> Inputs:
    heads, size, width = given.state.shape[1:]
    if given.real is not None:
        dt = dt.masked_fill((given.real == 0)[..., None], 0)
    number = array(given.weight).dtype.type
    return Inputs(
        Strided.of(given.projected),
        array(dt).reshape(-1),
        array(given.window.mT).reshape(-1),
        array(given.taps.T).reshape(-1),
        array(given.bias),
        array(given.A),
        array(given.D).repeat(size),
        array(given.weight),
        number(epsilon),
        number(norm_groups / len(given.weight)),
        given.projected.shape[1],
        (len(given.bias) - heads * size) // (2 * width),
        size,
        width,
        norm_groups,
    )


def _room(inputs: Inputs, tokens: int) -> Room:
    channels, features = len(inputs.bias), len(inputs.weight)
    behind = len(inputs.taps) - channels  # of the tokens of the next run that have read from this one
    sizes = (tokens * channels, tokens * features, tokens * channels, tokens * channels + behind)
    *places, end = accumulate(sizes, initial=0)
    return Room(memory(end, inputs.A.dtype), tokens, *places)


@functools.cache
def numba_op(norm_groups: int, epsilon: float) -> Op:
    """Return the mixer with kernels for passes; arguments as of `definition`."""
    return op_with_passes(
        definition(norm_groups, epsilon),
        forward=functools.partial(forward, norm_groups, epsilon),
        backward=functools.partial(backward, norm_groups, epsilon),
    )
