"""One token’s step of an implicit Mamba-2 model on balls, with latent and whole state as variables.

`implicit.enclosed.mamba2` differentiates along one direction of h a layer, at a fixed window, which large
models need. For statements about sets of states all derivatives by the state are wanted, the window's among
them; that is affordable for states of some dozens of numbers.

A state is one vector: the window, channel by channel, then h, ``(channel, n)`` row by row.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.enclosed.mamba2 import EnclosedCell, enclosable, exact, rms_norm
from implicit.models.interface import SequenceModel
from theory import State
from theory.rigorous.balls import Dual
from theory.rigorous.balls.dual import join


class EnclosedClosedLoop:
    """Φ, G and logits of a one-layer implicit Mamba-2 model at T positions, each with its token."""

    def __init__(self, model: SequenceModel) -> None:
        stack = enclosable(model)
        implicit, embedding_norm, latent_norm = stack.implicit, stack.embedding_norm, stack.latent_norm
        if implicit is None or embedding_norm is None or latent_norm is None:
            raise InputError(f"the model is {model.name}, which has no fixed points; give an implicit one")
        if stack.config.layers != 1:
            raise InputError(f"the model has {stack.config.layers} layers; give one with a single layer")
        (mixer,) = stack.cells
        assert isinstance(mixer, Mamba2Cell)
        self.cell = EnclosedCell(mixer)
        self.damping, self.residual = implicit.solver.damping, stack.residual
        self.latent_size = implicit.latent_size
        self.window_size = mixer.conv_channels * (mixer.d_conv - 1)
        self.state_size = self.window_size + mixer.d_inner * mixer.d_state
        (mixer_norm,), (injection,) = stack.norms, stack.injections
        assert isinstance(injection, nn.Linear)
        self.norm_before = exact(mixer_norm.weight), mixer_norm.epsilon
        self.last_norm = exact(latent_norm.weight), latent_norm.epsilon
        self._head = exact(stack.head.weight), exact(stack.head.bias)
        embedded = Dual.constant(exact(stack.embedding.weight), 0)
        normalised = rms_norm(embedded, exact(embedding_norm.weight), embedding_norm.epsilon)
        self._injection = normalised.mapped(exact(injection.weight)).value
        # where the factors of an entry (channel p, n) of h stand
        channel, self._n = np.divmod(np.arange(mixer.d_inner * mixer.d_state), mixer.d_state)
        self._channel, self._head_of = channel, channel // mixer.head_size
        self._shared = self._head_of // (mixer.heads // mixer.groups) * mixer.d_state + self._n
        # the next window is the last entries of (window, new channel), channel by channel
        earlier = np.arange(self.window_size).reshape(mixer.conv_channels, -1)
        new = self.window_size + np.arange(mixer.conv_channels)[:, None]
        self._shift = np.concatenate([earlier, new], axis=1)[:, 1:].ravel()

    def advance(
        self, latent: Dual, state: Dual, tokens: Sequence[int] | NDArray[np.int64]
    ) -> tuple[Dual, Dual]:
        """Return Φ, ``[T, d]``, and G, ``[T, n]``, of a latent and a state with the same directions."""
        projected = self.projected(rms_norm(latent, *self.norm_before), tokens)
        output, following = self.block(projected, state)
        stream = latent + output if self.residual else output
        return rms_norm(stream, *self.last_norm), following

    def projected(self, inputs: Dual, tokens: Sequence[int] | NDArray[np.int64]) -> Dual:
        """Return the input projection with the injection, ``[T, d_in_proj]``, of the normalised latent."""
        return inputs.mapped(self.cell.in_proj).shifted(self._injection[np.asarray(tokens)])

    def block(self, projected: Dual, state: Dual) -> tuple[Dual, Dual]:
        """Return what the block adds to its stream, ``[T, d]``, and G, from the input projection."""
        cell = self.cell
        gate = projected[: cell.d_inner]
        channels = projected[cell.d_inner : cell.d_inner + cell.channels]
        dt = projected[cell.d_inner + cell.channels :].shifted(cell.dt_bias).softplus()
        window, h = state[: self.window_size], state[self.window_size :]
        convolved = channels.scaled(cell.last_tap).shifted(cell.conv_bias)
        following_window = window
        if self.window_size:
            taps = cell.earlier_taps.shape[1]
            convolved = convolved + window.scaled(cell.earlier_taps.reshape(self.window_size)).sums(taps)
            following_window = join([window, channels])[self._shift]
        convolved = convolved.silu()
        shared = cell.groups * cell.d_state
        x = convolved[: cell.d_inner]
        B, C = (convolved[start : start + shared] for start in (cell.d_inner, cell.d_inner + shared))
        decay = dt.scaled(cell.rate).exp()
        driven = x * dt.repeat(cell.head_size)
        following = decay[self._head_of] * h + driven[self._channel] * B[self._shared]
        y = (following * C[self._shared]).sums(cell.d_state)
        y = y + x.scaled(cell.skip.repeat(cell.head_size, 0))
        output = rms_norm(y * gate.silu(), cell.norm_weight, cell.epsilon, cell.groups).mapped(cell.out_proj)
        return output, join([following_window, following])

    def logits(self, latent: Dual) -> Dual:
        """Return the logits of latents, ``[T, d]`` → ``[T, classes]``."""
        weight, bias = self._head
        return latent.mapped(weight).shifted(bias)


def unflatten_state(model: SequenceModel, vectors: Tensor) -> State:
    """Undo `flatten_state`."""
    shapes = {name: part.shape[1:] for name, part in model.init_state(1).items()}
    parts = vectors.split([shape.numel() for shape in shapes.values()], dim=1)
    return {
        name: part.reshape(len(vectors), *shape)
        for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }


def flatten_state(state: State) -> Tensor:
    """Return states as vectors, ``[batch, n]``, their parts one after the other."""
    return torch.cat([part.flatten(1) for part in state.values()], dim=1)
