"""Stacks of any cells on balls: the model's own code, with its weights as exact numbers.

`theory.rigorous.tensors` runs code written for PyTorch on balls. Here the code is the model's, down to
`Cell.step`; a copy of it holds balls of radius zero in the place of its parameters, so that what is computed
of weights alone, such as the injections, is enclosed as well. A cell whose step calls something that has no
form on balls is refused by name; `implicit.enclosed.mamba2` is a form written by hand.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from automata.errors import InputError
from implicit.models.interface import SequenceModel
from implicit.models.stack import CellStack
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.tensors import EnclosedTensor, EnclosedTransitionBatch
from theory.rigorous.tensors.agreement import AsReal, compare_beside


def with_exact_weights(model: nn.Module) -> Any:
    """Return a copy of a module whose parameters and buffers are the real numbers that their floats are."""
    twin = copy.deepcopy(model)
    for module in twin.modules():
        for entries in (module._parameters, module._buffers):
            held: dict[str, Any] = entries
            for name, tensor in held.items():
                if tensor is not None and tensor.is_floating_point():
                    held[name] = EnclosedTensor.constant(tensor)
    return twin


def enclosed_transitions(model: SequenceModel, tokens: Tensor) -> EnclosedTransitionBatch:
    """Return (Φ, G) of a stack of cells at T positions, on balls."""
    if not isinstance(model, CellStack):
        raise InputError(
            f"model is a {model.name}, which is no stack of cells; give an implicit model of a cell, "
            "or your own (Φ, G) to theory.prove_theorem1"
        )
    shapes = {name: tuple(entry.shape[1:]) for name, entry in model.init_state(1).items()}
    twin = with_exact_weights(model)
    with np.errstate(all="ignore"):
        found = EnclosedTransitionBatch(twin.transitions(tokens), shapes)
        _try(model, found, shapes, len(tokens))
    return found


@torch.no_grad()
def compare_with_floats(
    model: CellStack,
    transitions: EnclosedTransitionBatch,
    tokens: Tensor,
    state: Mapping[str, NDArray[np.float64]],
    latents: NDArray[np.float64],
    columns: Sequence[NDArray[np.int64]] = (),
) -> None:
    """Refuse a model whose code is another function on balls than on float64 tensors, at points.

    Tokens are ``[T]``, every part of the state ``[T, …]``, latents ``[T, d]``; ``columns`` are of each
    layer's block the entry to differentiate by, ``[T]``, or random directions if not given.
    """
    with AsReal():
        precise = copy.deepcopy(model).double().eval().transitions(tokens)
    compare_beside(precise, transitions, state, latents, columns)


def _try(
    model: CellStack, transitions: EnclosedTransitionBatch, shapes: dict[str, tuple[int, ...]], positions: int
) -> None:
    """Evaluate once, so that what has no form on balls is named with the cell that needs it."""
    state = {name: np.zeros((positions, *shape)) for name, shape in shapes.items()}
    latent = np.zeros((positions, transitions.latent_size))
    try:
        transitions.advance(Dual.constant(Ball.exact(latent), 0), transitions.enclosed(state), {})
    except InputError as fault:
        raise InputError(f"cell {model.cell_class.__name__} cannot be enclosed: {fault}") from None
