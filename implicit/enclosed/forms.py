"""Which form on balls a model has: the one written by hand for Mamba-2, or else its own code."""

import math
from collections.abc import Mapping

from torch import Tensor

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.enclosed.any_loop import enclosed_transitions
from implicit.enclosed.mamba2 import EnclosedMamba2, enclosable
from implicit.models.explicit import ExplicitModel
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.stack import CellStack
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array
from theory.rigorous.tensors import EnclosedTransitionBatch

Form = EnclosedMamba2 | EnclosedTransitionBatch


def is_mamba2(model: SequenceModel) -> bool:
    """Return whether a model is a stack of Mamba-2 cells and nothing else, of which there is a form by hand.

    A subclass that changes the cell or the transition is not: its own code says what it is.
    """
    try:
        stack = enclosable(model)
    except InputError:
        return False
    plain = {ImplicitModel.transitions, ExplicitModel.transitions}
    own = type(stack).transitions in plain and type(stack).advance is CellStack.advance
    return own and all(type(cell) is Mamba2Cell for cell in stack.cells)


def form_of(model: SequenceModel, tokens: Tensor) -> Form:
    """Return (Φ, G) at T positions on balls."""
    return EnclosedMamba2(model, tokens) if is_mamba2(model) else enclosed_transitions(model, tokens)


def boxes(form: Form, blocks: frozenset[str], state: Mapping[str, Array], radius: Array) -> dict[str, Ball]:
    """Return states, every part ``[T, …]``, with the parts ``blocks`` of h widened by a radius, ``[T]``."""
    if isinstance(form, EnclosedTransitionBatch):
        return form.enclosed(state, radius)
    column = {name: radius.reshape(-1, *(1,) * (entry.ndim - 1)) for name, entry in state.items()}
    return {
        name: Ball.around(entry, column[name] if name in blocks else 0 * column[name])
        for name, entry in state.items()
    }


def block_parts(model: SequenceModel) -> frozenset[str]:
    """Return the names of the parts of the state that Theorem 1 speaks of."""
    assert isinstance(model, CellStack)  # as every model with a form is
    return frozenset(name for names in model.layer_states for name in names)


def widest(model: SequenceModel, form: Form) -> int:
    """Return how many numbers are differentiated at once at a position: it limits how many are taken."""
    if isinstance(form, EnclosedMamba2):
        return max(cell.d_inner + cell.channels + cell.heads for cell in form.cells)
    state = model.init_state(1)
    return max(sum(math.prod(state[name].shape) for name in names) for names in form.layer_states)
