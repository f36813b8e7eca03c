"""One token’s step of an implicit Mamba-2 model on balls, with latent and whole state as variables.

A state is one vector: the window, channel by channel, then h, ``(channel, n)`` row by row. All derivatives by
it are computed, which is affordable for some dozens of numbers; `implicit.enclosed.mamba2` takes one
direction of h a layer.

`ExecutedClosedLoop` bounds the rounding of the sequential mode in plain PyTorch on a CPU. It repeats the
operations of `implicit.cells.mamba2.Mamba2Cell.step`, `implicit.models.implicit_model` and
`implicit.fixed_point` on `theory.rigorous.rounded.Rounded` numbers, for all z and s of boxes at once.
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
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import round_up
from theory.rigorous.balls.dual import join
from theory.rigorous.covers.invariant_cover import StepRounding
from theory.rigorous.rounded import TINY, FloatFormat, Rounded, joined


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
        self.channel, n = np.divmod(np.arange(mixer.d_inner * mixer.d_state), mixer.d_state)
        self.head_of = self.channel // mixer.head_size
        self.shared = self.head_of // (mixer.heads // mixer.groups) * mixer.d_state + n
        # where, in (window, new channel), the entries stand that each channel is convolved from; all but the
        # first are the next window
        earlier = np.arange(self.window_size).reshape(mixer.conv_channels, -1)
        new = self.window_size + np.arange(mixer.conv_channels)[:, None]
        self.read = np.concatenate([earlier, new], axis=1)

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
            following_window = join([window, channels])[self.read[:, 1:].ravel()]
        convolved = convolved.silu()
        shared = cell.groups * cell.d_state
        x = convolved[: cell.d_inner]
        B, C = (convolved[start : start + shared] for start in (cell.d_inner, cell.d_inner + shared))
        decay = dt.scaled(cell.rate).exp()
        driven = x * dt.repeat(cell.head_size)
        following = decay[self.head_of] * h + driven[self.channel] * B[self.shared]
        y = (following * C[self.shared]).sums(cell.d_state)
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


class ExecutedClosedLoop:
    """The rounding of a one-layer implicit Mamba-2 model's step, as `theory.rigorous.covers` asks for it."""

    def __init__(self, model: SequenceModel, form: FloatFormat) -> None:
        self._exact = EnclosedClosedLoop(model)  # which refuses what has no fixed points
        stack, self.form = enclosable(model), form
        (cell,), (injection,), embedding_norm = stack.cells, stack.injections, stack.embedding_norm
        assert isinstance(cell, Mamba2Cell)
        assert isinstance(injection, nn.Linear)
        assert embedding_norm is not None
        self._cell = cell
        self._taps, self._conv_bias = self._given(cell.conv1d.weight[:, 0].flatten()), cell.conv_bias
        self._head = exact(stack.head.weight), self._given(stack.head.bias)
        self._rate = -self._given(cell.A_log).exp()
        embedded = self._given(stack.embedding.weight).rms_norm(
            exact(embedding_norm.weight), embedding_norm.epsilon
        )
        self._injection = embedded.mapped(exact(injection.weight))

    def rounding(self, latent: Ball, state: Ball, tokens: Sequence[int] | NDArray[np.int64]) -> StepRounding:
        """Bound what the program may be off at T positions, for boxes of z and s."""
        z = Rounded.given(latent, self.form)
        image, following = self._advance(z, Rounded.given(state, self.form), np.asarray(tokens))
        change = image - z
        after = z + change * self._constant(self._exact.damping, change)
        # the norms of residual and latent are computed too, and the latter times the tolerance, at most 1
        size, form = latent.shape[-1], self.form
        relative = form.gamma(size + 2) + 2 * form.function + 4 * form.unit_roundoff
        lengths = _length(change.size) + _length(z.size)
        residual = round_up(change.length() + round_up(relative * lengths))
        # a product to which the library adds the bias before, within or after it
        weight, bias = self._head
        terms = round_up((weight.magnitude @ z.size[..., None])[..., 0] + bias.size, size)
        return StepRounding(
            step=np.maximum(after.length(), round_up(self._exact.damping * residual)),
            state=following.length(),
            logits=round_up(form.gamma(size + 2) * terms.max(-1) + TINY),
        )

    def _advance(self, z: Rounded, state: Rounded, tokens: NDArray[np.int64]) -> tuple[Rounded, Rounded]:
        """Φ and G as `CellStack.advance` and `Mamba2Cell.step` compute them."""
        cell, loop = self._cell, self._exact
        channels_end = cell.d_inner + cell.conv_channels
        read = Rounded(self._injection.exact[tokens], self._injection.error[tokens], self.form)
        projected = z.rms_norm(*loop.norm_before).mapped(loop.cell.in_proj) + read
        gate, channels = projected[: cell.d_inner], projected[cell.d_inner : channels_end]
        dt = (projected[channels_end:] + self._given(cell.dt_bias)).softplus()
        window, h = state[: loop.window_size], state[loop.window_size :]
        whole = joined([window, channels])[loop.read.ravel()]
        convolved = ((whole * self._taps).sums(cell.d_conv) + self._given(self._conv_bias)).silu()
        shared = cell.groups * cell.d_state
        x = convolved[: cell.d_inner]
        B, C = (convolved[start : start + shared] for start in (cell.d_inner, cell.d_inner + shared))
        decay = (dt * self._rate).exp()
        driven = dt.repeat(cell.head_size) * x
        following = decay[loop.head_of] * h + driven[loop.channel] * B[loop.shared]
        y = (following * C[loop.shared]).sums(cell.d_state)
        y = y + self._given(cell.D).repeat(cell.head_size) * x
        output = (y * gate.silu()).rms_norm(exact(cell.norm.weight), cell.norm.epsilon, cell.groups)
        output = output.mapped(loop.cell.out_proj)
        stream = z + output if loop.residual else output
        kept = np.arange(cell.conv_channels * cell.d_conv) % cell.d_conv > 0
        return stream.rms_norm(*loop.last_norm), joined([whole[kept], following])

    def _given(self, weight: nn.Parameter | object) -> Rounded:
        return Rounded.given(exact(weight), self.form)  # type: ignore[arg-type]

    def _constant(self, number: float, like: Rounded) -> Rounded:
        return Rounded.given(Ball.exact(np.full(like.exact.shape, number)), self.form)


def _length(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return round_up(np.sqrt(round_up(np.square(sizes).sum(-1), sizes.shape[-1])))
