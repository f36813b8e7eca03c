"""Mamba-2 models on balls: (Φ, G), of an explicit model G alone, in rigorous arithmetic, with derivatives.

The weights are taken as the exact numbers that their floats are, and every operation as one on real numbers;
what comes out encloses the exact values and derivatives (`theory.rigorous.enclosure`). One token's step of
the cell, with the names of `implicit.cells.mamba2`:

    a = exp(−e^{A_log} Δ)          decay, one per head
    h' = a ⊙ h + (Δ x) Bᵀ
    y  = h' C + D x = a ⊙ (h C) + (Δ x) (B·C) + D x

The second form of y keeps h' itself, by far the largest object, from being formed with all its derivatives.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import Mamba2Cell, RMSNorm
from implicit.cells.interface import has_hooks
from implicit.cells.plain import in_double_precision, is_plain
from implicit.models.interface import SequenceModel
from implicit.models.stack import CellStack
from theory.rigorous.balls import Ball, Dual, exp
from theory.rigorous.balls.dual import join


def exact(tensor: Tensor) -> Ball:
    """Return the floats of a tensor as exact real numbers."""
    return Ball.exact(tensor.detach().to(torch.float64).cpu().numpy())


def rms_norm(x: Dual, weight: Ball, epsilon: float, groups: int = 1) -> Dual:
    """Return x / sqrt(mean(x²) + ε) · weight, normalised within each group of neighbouring features."""
    group = x.value.shape[-1] // groups
    squares = x * x
    mean = squares.sums(group).scaled(Ball.exact(1.0) / Ball.exact(float(group)))
    return (x * mean.shifted(Ball.exact(epsilon)).rsqrt().repeat(group)).scaled(weight)


@dataclass(frozen=True, eq=False)
class Mamba2Update:
    """One layer's h' = a ⊙ h + (Δ x) Bᵀ in factors; entry (channel p, n) of h has the number p d_state + n.

    ``decay`` is a, ``[T, heads]``, ``inputs`` Δ x, ``[T, d_inner]``, and B ``[T, groups · d_state]``.
    """

    decay: Dual
    inputs: Dual
    B: Dual
    groups: int = 1

    @property
    def coefficients(self) -> Dual:
        """Decay, inputs and B in one."""
        return join([self.decay, self.inputs, self.B])

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        """Return decay and drive of one entry of h at each position, ``[T, 1]`` each."""
        heads, channels = self.decay.value.shape[-1], self.inputs.value.shape[-1]
        d_state = self.B.value.shape[-1] // self.groups
        channel, n = np.divmod(rows, d_state)
        head = channel // (channels // heads)
        group = head // (heads // self.groups)
        return self.decay.at(head), self.inputs.at(channel) * self.B.at(group * d_state + n)


class EnclosedCell:
    """`Mamba2Cell.step` on balls."""

    def __init__(self, cell: Mamba2Cell) -> None:
        assert cell.conv1d.bias is not None
        self.heads, self.head_size, self.groups = cell.heads, cell.head_size, cell.groups
        self.d_inner, self.d_state, self.channels = cell.d_inner, cell.d_state, cell.conv_channels
        self.in_proj, self.out_proj = exact(cell.in_proj.weight), exact(cell.out_proj.weight)
        taps = exact(cell.conv1d.weight[:, 0])
        self.earlier_taps, self.last_tap = taps[:, :-1], taps[:, -1]
        self.conv_bias, self.dt_bias = exact(cell.conv1d.bias), exact(cell.dt_bias)
        self.rate, self.skip = -exp(exact(cell.A_log)), exact(cell.D)
        self.norm_weight, self.epsilon = exact(cell.norm.weight), cell.norm.epsilon

    def step(
        self, inputs: Dual, injection: Ball | None, window: Ball, h: Ball, direction: tuple[int, Ball] | None
    ) -> tuple[Dual, Mamba2Update]:
        """Return the output ``[T, d_model]`` and the update of h, ``[T, heads, head_size, d_state]``.

        Injection and window are constant. ``direction`` is the derivative of h, shaped like it, and the
        column of the tangents that it belongs to.
        """
        projected = inputs.mapped(self.in_proj)
        if injection is not None:
            projected = projected.shifted(injection)
        gate = projected[: self.d_inner]
        channels = projected[self.d_inner : self.d_inner + self.channels]
        dt = projected[self.d_inner + self.channels :].shifted(self.dt_bias).softplus()
        before = (window * self.earlier_taps).sum(-1) + self.conv_bias
        convolved = channels.scaled(self.last_tap).shifted(before).silu()
        shared = self.groups * self.d_state
        x = convolved[: self.d_inner]
        B, C = (convolved[start : start + shared] for start in (self.d_inner, self.d_inner + shared))
        decay = dt.scaled(self.rate).exp()
        driven = x * dt.repeat(self.head_size)
        across = (B * C).sums(self.d_state).repeat(self.d_inner // self.groups)
        y = decay.repeat(self.head_size) * self._read(h, C, direction)
        y = y + driven * across + x.scaled(self.skip.repeat(self.head_size, 0))
        normalised = rms_norm(y * gate.silu(), self.norm_weight, self.epsilon, self.groups)
        return normalised.mapped(self.out_proj), Mamba2Update(decay, driven, B, self.groups)

    def _read(self, h: Ball, C: Dual, direction: tuple[int, Ball] | None) -> Dual:
        """The product h C of every group of heads, ``[T, d_inner]``."""
        positions = len(h.midpoint)
        by_group = h.reshape(positions, self.groups, -1, self.d_state)
        weights = C.value.reshape(positions, self.groups, self.d_state, 1)
        slopes = C.tangent.reshape(positions, self.groups, self.d_state, C.columns)
        value = (by_group @ weights).reshape(positions, self.d_inner)
        tangent = (by_group @ slopes).reshape(positions, self.d_inner, C.columns)
        if direction is not None:
            column, along = direction
            own = along.reshape(positions, self.groups, -1, self.d_state) @ weights
            seed = np.zeros((1, 1, C.columns))
            seed[..., column] = 1.0
            tangent = tangent + own.reshape(positions, self.d_inner, 1) * Ball.exact(seed)
        return Dual(value, tangent)


def enclosable(model: SequenceModel) -> CellStack:
    """Return the model as the stack of Mamba-2 cells that it has to be."""
    if (
        not isinstance(model, CellStack)
        or model.mlps
        or not all(isinstance(cell, Mamba2Cell) for cell in model.cells)
    ):
        raise InputError(
            f"model is {model.name}, of which there is no ball-arithmetic form; "
            "give an implicit-mamba2 or a mamba2"
        )
    norms = [norm for norm in (model.embedding_norm, model.latent_norm) if norm is not None]
    without_bias = [layer for layer in model.injections if getattr(layer, "bias", None) is None]
    plain = is_plain(model.mixers, model.mixer_norms, *norms, *without_bias)
    plain &= type(model.embedding) is nn.Embedding
    plain &= all(type(norm) is RMSNorm for norm in (*model.mixer_norms, *norms))
    if not plain or any(map(has_hooks, model.modules())):
        raise InputError(
            f"model is {model.name} with adapters, hooks or other modules in place of its own, which have no "
            "ball-arithmetic form; merge or remove them"
        )
    injections = [layer for layer in model.injections if isinstance(layer, nn.Linear)]
    of_own_layer = len(injections) == len(model.injections) == (len(model.cells) if model.implicit else 0)
    if not of_own_layer or any(injection.bias is not None for injection in injections):
        raise InputError(
            f"model is {model.name} with injections that layers share or that have a bias; give one with an "
            "injection per layer and no bias"
        )
    return model


POINTS = 8
"""The most positions at which a form is compared with its model."""


class EnclosedMamba2:
    """(Φ, G) of a stack of Mamba-2 cells, or G alone if it is run once, at T positions, on balls."""

    def __init__(self, model: SequenceModel, tokens: Tensor) -> None:
        stack = enclosable(model)
        implicit = stack.implicit
        self.latent_size = 0 if implicit is None else implicit.latent_size
        self.damping = 1.0 if implicit is None else implicit.solver.damping
        self.residual = stack.residual
        self.cells = [EnclosedCell(cell) for cell in stack.cells if isinstance(cell, Mamba2Cell)]
        self.blocks = tuple(f"ssm.{layer}" for layer in range(len(self.cells)))
        self._norms = [(exact(norm.weight), norm.epsilon) for norm in stack.norms]
        embedded = Dual.constant(exact(stack.embedding.weight[tokens]), 0)
        self._injections: list[Ball | None] = [None] * len(self.cells)
        if stack.embedding_norm is not None and stack.latent_norm is not None:
            norm = stack.embedding_norm
            normalised = rms_norm(embedded, exact(norm.weight), norm.epsilon)
            self._injections = [
                normalised.mapped(exact(injection.weight)).value
                for injection in stack.injections
                if isinstance(injection, nn.Linear)
            ]
            self._last_norm = (exact(stack.latent_norm.weight), stack.latent_norm.epsilon)
        else:
            self._embedded = embedded.value

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, list[Mamba2Update]]:
        """Return Φ, the empty vector for an explicit model, and the updates of all layers."""
        stream = latent if self.latent_size else Dual.constant(self._embedded, latent.columns)
        updates = []
        for layer, cell in enumerate(self.cells):
            block = self.blocks[layer]
            direction = (self.latent_size + layer, directions[block]) if directions else None
            output, update = cell.step(
                rms_norm(stream, *self._norms[layer]),
                self._injections[layer],
                state[f"conv.{layer}"],
                state[block],
                direction,
            )
            stream = stream + output if self.residual else output
            updates.append(update)
        return (rms_norm(stream, *self._last_norm) if self.latent_size else latent), updates


@torch.no_grad()
@np.errstate(all="ignore")
def compare_form(model: SequenceModel) -> None:
    """Refuse a model that computes otherwise than its weights say: something was exchanged in it.

    One drawn point a token is compared, and there one entry of each layer's h'.
    """
    tokens = torch.arange(min(model.config.vocabulary_size, POINTS))
    form, double = EnclosedMamba2(model, tokens), in_double_precision(model)
    drawn = np.random.default_rng(0)
    shapes = {name: (len(tokens), *part.shape[1:]) for name, part in double.init_state(1).items()}
    state = {name: drawn.standard_normal(shape) for name, shape in shapes.items()}
    latents = drawn.standard_normal((len(tokens), form.latent_size))
    balls = {name: Ball.exact(part) for name, part in state.items()}
    image, updates = form.advance(Dual.constant(Ball.exact(latents), 0), balls, {})
    transitions = double.transitions(tokens)
    for index in range(len(tokens)):
        z, s = torch.from_numpy(latents[index]), {n: torch.from_numpy(state[n][index]) for n in state}
        after = transitions[index].state_update(z, s)
        pairs = [(transitions[index].self_map(z, s), image)] if form.latent_size else []
        for block, update in zip(form.blocks, updates, strict=True):
            entry = index % s[block].numel()
            decay, drive = update.entries(np.full(len(tokens), entry))
            before = Ball.exact(float(s[block].flatten()[entry]))
            pairs.append((after[block].flatten()[entry : entry + 1], decay.scaled(before) + drive))
        for found, expected in pairs:
            value = expected.value.midpoint[index]
            # Nothing is proved where the form is not finite.
            if np.isfinite(value).all() and not np.allclose(found, value, rtol=1e-6, atol=1e-6):
                raise InputError(
                    f"model is {model.name}, and computes otherwise than its weights say; undo what was "
                    "exchanged in it, or make a class of the changed cell by implicit.implicit_model"
                )
