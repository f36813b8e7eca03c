"""One token's step of any model on balls, with latent and whole state as variables: the model's own code.

`implicit.enclosed.closed_loop` has the form written by hand for Mamba-2, for covers of thousands of sets.

An explicit model has no latent. Here it is given one, the next state: Φ(z; s, x) = G(s, x), of which z* =
G(s, x) is the one fixed point, and z is the next state that is read. So what is proved of closed loops with
fixed points (`theory.rigorous.covers.invariant_cover`) holds of explicit models as it stands.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from automata.errors import InputError
from implicit.cells.interface import has_hooks
from implicit.enclosed.any_cell import with_exact_weights
from implicit.models.implicit_model import ImplicitModel
from implicit.models.interface import SequenceModel
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import TorchRNN
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.tensors import EnclosedTensor, EnclosedTransitionBatch

LARGEST = 2.0**10
"""The derivative of the logits is enclosed for all latents, or states, whose entries are at most so large."""


class EnclosedAnyLoop:
    """Φ, G and logits of a model at T positions, each with its token."""

    def __init__(self, model: SequenceModel) -> None:
        if not isinstance(model, ImplicitModel | StepModel | TorchRNN):
            raise InputError(
                f"the model is {model.name}, whose step is not one of its state; give an implicit model, an "
                "elman, gru or lstm, or a StepModel"
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
        self._decoding = self._decoded(
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

        The derivative encloses that at all latents up to `LARGEST`; that of an affine map is no wider
        for it.
        """
        value = self._decoded(Dual.constant(latent.value, 0)).value
        return Dual(value, self._decoding @ latent.tangent)

    def _decoded(self, latent: Dual) -> Dual:
        given = _tensor(latent)
        twin: Any = self._twin
        if self.explicit:
            parts = given.split(self._sizes)
            state = {
                name: part.reshaped(shape)
                for (name, shape), part in zip(self._shapes.items(), parts, strict=True)
            }
            return _dual(EnclosedTensor.constant(twin.read(state)), latent)
        return _dual(EnclosedTensor.constant(twin.head(given)), latent)


def _tensor(dual: Dual) -> EnclosedTensor:
    tangent = Ball(np.moveaxis(dual.tangent.midpoint, -1, 1), np.moveaxis(dual.tangent.radius, -1, 1))
    return EnclosedTensor(dual.value, tangent if dual.columns else None)


def _dual(numbers: EnclosedTensor, like: Dual) -> Dual:
    if numbers.tangent is None:
        return Dual.constant(numbers.value, like.columns)
    parts = (numbers.tangent.midpoint, numbers.tangent.radius)
    return Dual(numbers.value, Ball(*(np.moveaxis(part, 1, -1) for part in parts)))
