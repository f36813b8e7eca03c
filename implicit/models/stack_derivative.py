"""The derivative of a stack of cells at single tokens, put together of those of its cells."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import cast

import torch
from torch import Tensor, nn

from implicit.cells import Cell, RMSNorm, SwiGLU
from implicit.models.stack import Layers, of_layer
from theory.transition import State


@cache
def has_derivative(cell: type[Cell]) -> bool:
    """Return whether a cell has its derivative written out.

    One that is inherited counts only if no method was overridden since, which it would not know of.

    Example:
        >>> from implicit.cells import DeltaNetCell, Mamba3Cell
        >>> class Doubled(DeltaNetCell):
        ...     def step(self, inputs, state, injection=None):
        ...         return super().step(2 * inputs, state, injection)
        >>> has_derivative(DeltaNetCell), has_derivative(Mamba3Cell), has_derivative(Doubled)
        (True, False, False)
    """
    defining = next(base for base in cell.__mro__ if "output_with_derivative" in vars(base))
    since = cell.__mro__[: cell.__mro__.index(defining)]
    overridden = {name for base in since for name, value in vars(base).items() if inspect.isroutine(value)}
    return defining is not Cell and overridden <= {"__init__"}


def push_forward(
    stack: Layers, stream: Tensor, injections: Sequence[Tensor], state: State
) -> tuple[Tensor, Tensor]:
    """Return what all layers make of single tokens, before the last norm, and its derivative in the stream.

    The cells have their derivative written out. The first layer reads the stream, ``[tokens, d_model]``; the
    state before each of the tokens is held fixed. The derivative is ``[tokens, d_model, d_model]``, rows for
    outputs.
    """
    width = stream.shape[-1]
    along = torch.eye(width, dtype=stream.dtype, device=stream.device).expand(len(stream), -1, -1)
    for layer, (cell, norm) in enumerate(zip(stack.cells, stack.norms, strict=True)):
        pair = cell.output_with_derivative(norm(stream), of_layer(state, layer), injections[layer])
        assert pair is not None  # as has_derivative told
        output, slope = pair
        slope = slope @ norm.push_forward(stream, along)
        stream, along = (stream + output, along + slope) if stack.residual else (output, slope)
        if stack.mlps:
            stream, along = _through_mlp(cast("nn.Sequential", stack.mlps[layer]), stream, along)
    return stream, along


def _through_mlp(block: nn.Sequential, stream: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
    norm, mlp = cast("tuple[RMSNorm, SwiGLU]", tuple(block))
    normalised = norm(stream)
    along = along + mlp.push_forward(normalised, norm.push_forward(stream, along))
    return stream + mlp(normalised), along
