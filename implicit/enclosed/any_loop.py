"""One token's step of any model on balls: the model's own code, or the form written by hand for Mamba-2.

Latent and whole state are variables, and balls of radius zero replace the parameters. A cell that calls
something without a form on balls is refused by name. `implicit.enclosed.closed_loop` has the fast form for
Mamba-2. An explicit model's latent is its next state, Φ(z; s, x) = G(s, x), so that proofs about closed loops
with fixed points hold for it too.
"""

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.cells.contract import close, evaluation_mode
from implicit.cells.interface import has_hooks, is_ours
from implicit.cells.plain import in_double_precision, like, widened
from implicit.enclosed.mamba2 import EnclosedMamba2, enclosable
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.stack import CellStack
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import TorchRNN
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array
from theory.rigorous.tensors import EnclosedTensor, EnclosedTransitionBatch
from theory.rigorous.tensors.agreement import AsReal, compare_beside
from theory.rigorous.tensors.transitions import from_dual, to_dual


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
        # evaluated once, so that what has no form on balls is named with the cell that needs it
        state = {name: np.zeros((len(tokens), *shape)) for name, shape in shapes.items()}
        latent = np.zeros((len(tokens), found.latent_size))
        try:
            found.advance(Dual.constant(Ball.exact(latent), 0), found.enclosed(state), {})
        except InputError as fault:
            raise InputError(f"cell {model.cell_class.__name__} cannot be enclosed: {fault}") from None
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

    A user's model may be no other function in its own type either, beyond rounding. Tokens are ``[T]``, every
    part of the state ``[T, …]``, latents ``[T, d]``; ``columns`` are of each layer's block the entry to
    differentiate by, ``[T]``, or random directions if not given.
    """
    double = in_double_precision(model)
    with AsReal():
        precise = double.transitions(tokens)
    compare_beside(precise, transitions, state, latents, columns)
    if not (is_ours(model) and all(map(is_ours, model.cells))):
        _compare_types(model, double, tokens, state, latents)


def _compare_types(
    model: CellStack,
    double: CellStack,
    tokens: Tensor,
    state: Mapping[str, NDArray[np.float64]],
    latents: NDArray[np.float64],
) -> None:
    with evaluation_mode(model):
        begun, own, precise = model.init_state(1), model.transitions(tokens), double.transitions(tokens)
        pairs = list(zip(begun.values(), double.init_state(1).values(), strict=True))
        for index, latent in enumerate(latents):
            z = torch.from_numpy(latent).to(like(model))
            s = {name: torch.as_tensor(entry[index]).to(begun[name]) for name, entry in state.items()}
            wide = {name: widened(part) for name, part in s.items()}
            image, after = own.advance(z, s, {name: entry[index] for name, entry in own.inputs.items()})
            inputs = {name: entry[index] for name, entry in precise.inputs.items()}
            exact, following = precise.advance(z.double(), wide, inputs)
            pairs += [(image, exact), *((after[name], part) for name, part in following.items())]
    if not all(close(model, found, expected.to(found)) for found, expected in pairs):
        kind, name = like(model).dtype, type(model).__name__
        raise InputError(
            f"init_state, Φ or G of {name} is another function in {kind} than in float64; write one formula, "
            "without a condition on the type of numbers"
        )


LARGEST = 2.0**10
"""The derivative of the logits is enclosed for all latents, or states, whose entries are at most so large."""


class EnclosedAnyLoop:
    """Φ, G and logits of a model at T positions, each with its token."""

    def __init__(self, model: SequenceModel) -> None:
        if not isinstance(model, ImplicitModel | StepModel | TorchRNN):
            raise InputError(
                f"the model is {model.name}, of whose steps nothing can be proved; give an implicit model, "
                "an elman, gru or lstm, or a StepModel"
            )
        layers = getattr(model.config, "layers", 1)
        if layers != 1:
            raise InputError(f"the model has {layers} layers; give one with a single layer")
        self.explicit = model.implicit is None
        if not self.explicit and (type(model.head) is not nn.Linear or has_hooks(model.head)):
            raise InputError("the head of the model is not a plain torch.nn.Linear; make it one")
        self._shapes = {name: tuple(part.shape[1:]) for name, part in model.init_state(1).items()}
        self._sizes = [math.prod(shape) for shape in self._shapes.values()]
        self.state_size = sum(self._sizes)
        self.latent_size = self.state_size if model.implicit is None else model.implicit.latent_size
        self._twin = with_exact_weights(model)
        self._decoding = self.decoded(
            Dual.variable(Ball.around(np.zeros((1, self.latent_size)), LARGEST), self.latent_size)
        ).tangent

    @np.errstate(all="ignore")
    def advance(
        self, latent: Dual, state: Dual, tokens: Sequence[int] | NDArray[np.int64]
    ) -> tuple[Dual, Dual]:
        """Return Φ, ``[T, d]``, and G, ``[T, n]``; see `EnclosedClosedLoop.advance`."""
        batch = self.transitions(tokens)
        if not self.explicit:
            return batch.whole(latent, state)
        return batch.whole(latent[:0], state)[1], latent

    def transitions(self, tokens: Sequence[int] | NDArray[np.int64]) -> EnclosedTransitionBatch:
        """Return (Φ, G) of the model at these tokens."""
        where = torch.as_tensor(np.asarray(tokens, dtype=np.int64))
        return EnclosedTransitionBatch(self._twin.transitions(where), self._shapes)

    def logits(self, latent: Dual) -> Dual:
        """Return the logits of latents, or of next states, ``[T, d]`` → ``[T, classes]``.

        The derivative encloses that at all latents up to `LARGEST`.
        """
        value = self.decoded(Dual.constant(latent.value, 0)).value
        return Dual(value, self._decoding @ latent.tangent)

    def decoded(self, latent: Dual) -> Dual:
        """Return the logits with derivatives at the given latents alone."""
        given, positions = from_dual(latent), len(latent.value.midpoint)
        twin: Any = self._twin
        if self.explicit:
            parts = given.split(self._sizes)
            state = {
                name: part.reshaped(shape)
                for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
            }
            return to_dual(EnclosedTensor.constant(twin.read(state)), positions, latent.columns)
        return to_dual(EnclosedTensor.constant(twin.head(given)), positions, latent.columns)


Form = EnclosedMamba2 | EnclosedTransitionBatch


def is_mamba2(model: SequenceModel) -> bool:
    """Return whether a model is a stack of Mamba-2 cells and nothing else, of which there is a form by hand.

    A subclass that changes the cell or the transition is not: its own code says what it is.
    """
    try:
        stack = enclosable(model)
    except InputError:
        return False
    return is_ours(stack) and all(type(cell) is Mamba2Cell for cell in stack.cells)


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
