"""The base of explicit and implicit models: a stack of cells between embedding and head.

The stream is ``[batch, length, d_model]``; the state has the names ``<part>.<layer>``.
"""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar, cast

import torch
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from automata.checks import check_integer
from implicit.cells import Cell, RMSNorm, SwiGLU
from implicit.cells.contract import changes_step, check_cell, check_derived, evaluating, is_checked
from implicit.cells.interface import for_code_of, has_hooks, step_of
from implicit.cells.parts import NormedMLP
from implicit.models.interface import MOST_LAYERS, ModelConfig, SequenceModel
from implicit.ops.hand_written_passes import not_finite_sequences
from theory.transition import State, TokenInputs, TransitionBatch

Injections = Sequence[Tensor | None]
"""One per layer, ``[batch, length, injection_size]`` or ``[batch, injection_size]``; None for none."""


class StackConfig(ModelConfig):
    """Sizes of a stack of cells; those of the cell come on top."""

    d_model: PositiveInt = Field(default=32, description="features of the residual stream or of the latent")
    layers: PositiveInt = Field(
        default=1,
        le=MOST_LAYERS,
        description="number of layers; in an implicit model all of them lie inside the fixed point",
    )
    mlp_size: NonNegativeInt = Field(
        default=0, description="hidden features of a SwiGLU MLP after every cell; 0 for no MLP"
    )


class Layers(nn.Module):
    """Cells with a norm before each, and an MLP after each or none; they read features, not tokens.

    With gradient checkpointing `sweep` keeps only what enters each layer.
    """

    residual: bool  # whether a layer adds its input
    mixers: nn.ModuleList  # the cells
    mixer_norms: nn.ModuleList
    mlps: nn.ModuleList  # an MLP with its norm after each cell, or none
    gradient_checkpointing: bool = False

    @property
    def cells(self) -> list[Cell]:
        """The cells, first layer first."""
        return cast("list[Cell]", list(self.mixers))

    @property
    def norms(self) -> list[RMSNorm]:
        """The norm before each cell."""
        return cast("list[RMSNorm]", list(self.mixer_norms))

    @property
    def layer_states(self) -> tuple[tuple[str, ...], ...]:
        """For each layer the names of the state parts that Theorem 1 speaks of."""
        return tuple(
            tuple(f"{part}.{layer}" for part in cell.recurrent_parts) for layer, cell in enumerate(self.cells)
        )

    def init_state(self, batch_size: int) -> State:
        """Return the initial states of all cells, ``<part>.<layer>``."""
        check_integer("batch_size", batch_size, 0)
        return {
            f"{part}.{layer}": tensor
            for layer, cell in enumerate(self.cells)
            for part, tensor in cell.init_state(batch_size).items()
        }

    def sweep(
        self, stream: Tensor, injections: Injections, state: State, mask: Tensor | None = None
    ) -> tuple[Tensor, State]:
        """Run all layers once over whole sequences; return the stream and the state after the last token."""
        following: State = {}
        checkpointed = self.gradient_checkpointing and torch.is_grad_enabled()
        for layer in range(len(self.mixers)):
            given = layer, stream, of_layer(state, layer), injections[layer], mask
            if checkpointed:
                stream, after = checkpoint(self._sweep_layer, *given, use_reentrant=False)
            else:
                stream, after = self._sweep_layer(*given)
            following.update(in_layer(after, layer))
        return stream, following

    def _sweep_layer(
        self, layer: int, stream: Tensor, state: State, injection: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, State]:
        output, after = _causal(self.cells[layer], self.norms[layer](stream), state, injection, mask)
        return self._after_cell(stream, output, layer), after

    def advance(self, stream: Tensor, injections: Injections, state: State) -> tuple[Tensor, State]:
        """Run all layers once over one token; the stream is ``[batch, d_model]``."""
        following: State = {}
        for layer, (cell, norm) in enumerate(zip(self.cells, self.norms, strict=True)):
            output, after = step_of(cell, norm(stream), of_layer(state, layer), injections[layer])
            stream = self._after_cell(stream, output, layer)
            following.update(in_layer(after, layer))
        return stream, following

    def visited(
        self, stream: Tensor, injections: Injections, state: State, mask: Tensor | None = None
    ) -> State:
        """Return the state before every token and after the last, each part ``[batch, length + 1, …]``."""
        states: State = {}
        for layer, (cell, norm) in enumerate(zip(self.cells, self.norms, strict=True)):
            before = of_layer(state, layer)
            given = norm(stream), *for_code_of(cell, before, injections[layer]), mask
            # What hooks do to the state shows where the cell is called.
            found = Cell.states(cell, *given) if has_hooks(cell) else cell.states(*given)
            states.update(in_layer(found, layer))
            if layer + 1 < len(self.mixers):
                given = given[0], *for_code_of(cell, before, injections[layer]), mask
                output = cell(*given)[0]
                stream = self._after_cell(stream, output, layer)
        return states

    def updates(self, stream: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent of layers that are run once, at inputs ``[positions, d_model]``."""
        return TransitionBatch.without_latent(
            self._update_one, {"stream": stream.detach()}, self.layer_states
        )

    def _update_one(self, state: State, inputs: TokenInputs) -> State:
        """G without an axis of sequences."""
        batched = {name: tensor[None] for name, tensor in state.items()}
        following = self.advance(inputs["stream"][None], [None] * len(self.mixers), batched)[1]
        return {name: tensor[0] for name, tensor in following.items()}

    def _after_cell(self, stream: Tensor, output: Tensor, layer: int) -> Tensor:
        """Add the output of a cell to the stream, and that of the MLP after it, if there is one."""
        stream = stream + output if self.residual else output
        return stream + self.mlps[layer](stream) if self.mlps else stream


class CellStack(Layers, SequenceModel):
    """Embedding, cells with their norms, and head; the parameter names are those of every stack."""

    cell_class: ClassVar[type[Cell]]  # of all cells
    config: StackConfig
    embedding: nn.Embedding
    embedding_norm: RMSNorm | None  # before the injections; None in an explicit model
    injections: nn.ModuleList  # of the embedding into every layer; none in an explicit model
    latent_norm: RMSNorm | None  # after the last layer of an implicit model; None in an explicit one
    head: nn.Linear

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "cell_class" in cls.__dict__:
            cls.state_grows = cls.cell_class.state_grows

    def check_made(self) -> None:
        """Refuse a user's subclass with another step, whose transition or states are those of this class."""
        if changes_step(self) and is_checked(self) and not self.state_grows:
            with evaluating(self), torch.random.fork_rng([]):
                check_derived(self)

    def _make_cells(self) -> nn.ModuleList:
        sizes = {name: getattr(self.config, name) for name in self.cell_class.sizes_class.model_fields}
        cells = [self.cell_class(self.config.d_model, **sizes) for _ in range(self.config.layers)]
        check_cell(cells[0], self.config.d_model, iterated=self.implicit is not None)
        return nn.ModuleList(cells)


def mlps_of(width: int, layers: int, mlp_size: int) -> nn.ModuleList:
    """Make an MLP with its norm per layer, or none."""
    if not mlp_size:
        return nn.ModuleList()
    return nn.ModuleList(NormedMLP(RMSNorm(width), SwiGLU(width, mlp_size)) for _ in range(layers))


def _causal(
    cell: Cell, inputs: Tensor, state: State, injection: Tensor | None, mask: Tensor | None
) -> tuple[Tensor, State]:
    """Run a cell over whole sequences, and by halves over those that do not stay finite, down to one token.

    Behind such a token nothing is finite, so that halves which begin there are not divided.
    """
    output, after = cell(inputs, *for_code_of(cell, state, injection), mask)
    rows = not_finite_sequences(output)
    if rows is None:
        return output, after
    for part in state.values():
        rows = rows[part[rows, ..., None].isfinite().flatten(1).all(1)]
    own, outputs, half = {name: part[rows] for name, part in state.items()}, [], inputs.shape[1] // 2
    for tokens in (slice(half), slice(half, None)) if len(rows) else ():
        parts = (None if part is None else part[rows, tokens] for part in (injection, mask))
        part, own = _causal(cell, inputs[rows, tokens], own, *parts)
        outputs.append(part)
    if outputs:
        output = output.index_copy(0, rows, torch.cat(outputs, dim=1))
        after = {name: part.index_copy(0, rows, own[name]) for name, part in after.items()}
    return output, after


def of_layer(state: State, layer: int) -> State:
    """Return the state of one layer's cell under its own names."""
    suffix = f".{layer}"
    return {name.removesuffix(suffix): part for name, part in state.items() if name.endswith(suffix)}


def in_layer(state: State, layer: int) -> State:
    """Undo `of_layer`."""
    return {f"{name}.{layer}": part for name, part in state.items()}


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
