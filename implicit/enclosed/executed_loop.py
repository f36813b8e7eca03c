"""Bounds of the rounding of one token's step of an implicit Mamba-2 model, as a program on a CPU runs it.

The program is the sequential mode in plain PyTorch: for a latent z and a state s that are floats it computes
Φ, the residual, the next iterate, the next state and the logits, operation by operation as
`implicit.cells.mamba2.Mamba2Cell.step`, `implicit.models.implicit_model` and `implicit.fixed_point` have
them. Here the same operations are done on `theory.rigorous.rounded.Rounded` numbers, for all z and s of boxes
at once.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import nn

from implicit.cells import Mamba2Cell
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.mamba2 import enclosable, exact
from implicit.models.interface import SequenceModel
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import round_up
from theory.rigorous.covers.invariant_cover import StepRounding
from theory.rigorous.float_format import FloatFormat
from theory.rigorous.rounded import TINY, Rounded, joined


class ExecutedClosedLoop:
    """The rounding of a one-layer implicit Mamba-2 model's step, as `theory.rigorous.covers` asks for it."""

    def __init__(self, model: SequenceModel, form: FloatFormat) -> None:
        self._damping = EnclosedClosedLoop(model).damping  # which refuses what has no fixed points
        stack, self.form = enclosable(model), form
        (cell,), (norm,), (injection,) = stack.cells, stack.norms, stack.injections
        embedding_norm, latent_norm = stack.embedding_norm, stack.latent_norm
        assert isinstance(cell, Mamba2Cell)
        assert isinstance(injection, nn.Linear)
        assert embedding_norm is not None
        assert latent_norm is not None
        self._cell, self._residual = cell, stack.residual
        self._in_proj, self._out_proj = exact(cell.in_proj.weight), exact(cell.out_proj.weight)
        self._taps, self._conv_bias = self._given(cell.conv1d.weight[:, 0].flatten()), cell.conv_bias
        self._norm = exact(norm.weight), norm.epsilon
        self._last_norm = exact(latent_norm.weight), latent_norm.epsilon
        self._head = exact(stack.head.weight), self._given(stack.head.bias)
        self._rate = -self._given(cell.A_log).exp()
        embedded = self._given(stack.embedding.weight).rms_norm(
            exact(embedding_norm.weight), embedding_norm.epsilon
        )
        self._injection = embedded.mapped(exact(injection.weight))
        channel, self._n = np.divmod(np.arange(cell.d_inner * cell.d_state), cell.d_state)
        self._channel, self._head_of = channel, channel // cell.head_size
        self._shared = self._head_of // (cell.heads // cell.groups) * cell.d_state + self._n

    def rounding(self, latent: Ball, state: Ball, tokens: Sequence[int] | NDArray[np.int64]) -> StepRounding:
        """Bound what the program may be off at T positions, for boxes of z and s."""
        z = Rounded.given(latent, self.form)
        image, following = self._advance(z, Rounded.given(state, self.form), np.asarray(tokens))
        change = image - z
        after = z + change * self._constant(self._damping, change)
        # the norms of residual and latent are computed too, and the latter times the tolerance, at most 1
        size, form = latent.shape[-1], self.form
        relative = form.gamma(size + 2) + 2 * form.function + 4 * form.unit_roundoff
        lengths = _length(change.size) + _length(z.size)
        residual = round_up(change.length() + round_up(relative * lengths))
        # a product to which the library adds the bias before, within or after it
        weight, bias = self._head
        terms = round_up((weight.magnitude @ z.size[..., None])[..., 0] + bias.size, size)
        return StepRounding(
            step=np.maximum(after.length(), round_up(self._damping * residual)),
            state=following.length(),
            logits=round_up(form.gamma(size + 2) * terms.max(-1) + TINY),
        )

    def _advance(self, z: Rounded, state: Rounded, tokens: NDArray[np.int64]) -> tuple[Rounded, Rounded]:
        """Φ and G as `CellStack.advance` and `Mamba2Cell.step` compute them."""
        cell = self._cell
        channels_end = cell.d_inner + cell.conv_channels
        read = Rounded(self._injection.exact[tokens], self._injection.error[tokens], self.form)
        projected = z.rms_norm(*self._norm).mapped(self._in_proj) + read
        gate, channels = projected[: cell.d_inner], projected[cell.d_inner : channels_end]
        dt = (projected[channels_end:] + self._given(cell.dt_bias)).softplus()
        split = cell.conv_channels * (cell.d_conv - 1)
        window, h = state[:split], state[split:]
        whole = joined([window, channels])[self._places()]
        convolved = ((whole * self._taps).sums(cell.d_conv) + self._given(self._conv_bias)).silu()
        shared = cell.groups * cell.d_state
        x = convolved[: cell.d_inner]
        B, C = (convolved[start : start + shared] for start in (cell.d_inner, cell.d_inner + shared))
        decay = (dt * self._rate).exp()
        driven = dt.repeat(cell.head_size) * x
        following = decay[self._head_of] * h + driven[self._channel] * B[self._shared]
        y = (following * C[self._shared]).sums(cell.d_state)
        y = y + self._given(cell.D).repeat(cell.head_size) * x
        output = (y * gate.silu()).rms_norm(exact(cell.norm.weight), cell.norm.epsilon, cell.groups)
        output = output.mapped(self._out_proj)
        stream = z + output if self._residual else output
        kept = np.arange(cell.conv_channels * cell.d_conv) % cell.d_conv > 0
        return stream.rms_norm(*self._last_norm), joined([whole[kept], following])

    def _places(self) -> NDArray[np.int64]:
        """Where, in (window, new channel), the entries stand that each channel is convolved from."""
        channels, earlier = self._cell.conv_channels, self._cell.d_conv - 1
        before = np.arange(channels * earlier).reshape(channels, earlier)
        new = channels * earlier + np.arange(channels)[:, None]
        return np.concatenate([before, new], axis=1).ravel()

    def _given(self, weight: nn.Parameter | object) -> Rounded:
        return Rounded.given(exact(weight), self.form)  # type: ignore[arg-type]

    def _constant(self, number: float, like: Rounded) -> Rounded:
        return Rounded.given(Ball.exact(np.full(like.exact.shape, number)), self.form)


def _length(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    return round_up(np.sqrt(round_up(np.square(sizes).sum(-1), sizes.shape[-1])))
