"""The explicit model: a stack of cells run once, an ordinary language model with recurrent layers."""

import inspect
import sys
from typing import Any, TypeVar, cast

import torch
from pydantic import create_model
from torch import Tensor, nn

from automata.checks import shown
from automata.errors import InputError
from implicit.cells import Cell, CellSizes, RMSNorm
from implicit.cells.interface import check_methods
from implicit.models.interface import ModelOutput
from implicit.models.stack import CellStack, StackConfig, mlps_of
from implicit.modes import Solve
from theory.transition import State, TransitionBatch


class ExplicitModel(CellStack):
    """Embedding → layers of stream + cell(norm(stream)) → norm → head.

    The block of Dao & Gu 2024, arXiv 2405.21060, with any cell in the place of Mamba-2.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "cell_class" in cls.__dict__:
            cls.linear_in_state = cls.cell_class.linear_in_state

    def __init__(self, config: StackConfig) -> None:
        super().__init__(config)
        self.residual, self.embedding_norm, self.latent_norm = True, None, None
        self.embedding = nn.Embedding(config.vocabulary_size, config.d_model)
        self.mixers = self._make_cells()
        self.injections = nn.ModuleList()
        self.mixer_norms = nn.ModuleList(RMSNorm(config.d_model) for _ in range(config.layers))
        self.mlps = mlps_of(config.d_model, config.layers, config.mlp_size)
        self.final_norm = RMSNorm(config.d_model)
        self.head = nn.Linear(config.d_model, config.output_size)

    def run(
        self,
        tokens: Tensor,
        state: State | None = None,
        solve: Solve | None = None,
        *,
        lengths: Tensor | None = None,
    ) -> ModelOutput:
        """Read whole sequences, one pass through the layers."""
        tokens, state, mask = self.begin(tokens, state, lengths)
        stream, after = self.sweep(self.embedding(tokens), [None] * self.config.layers, state, mask)
        logits = self.head(self.final_norm(stream))
        return ModelOutput(logits if mask is None else logits.masked_fill(~mask[..., None], 0), after)

    def step(self, state: State, token: Tensor) -> tuple[State, Tensor]:
        """Read one token."""
        self.check_step(state, token)
        stream, following = self.advance(self.embedding(token), [None] * self.config.layers, state)
        return following, self.head(self.final_norm(stream))

    @torch.no_grad()
    def states(self, tokens: Tensor, state: State | None = None) -> State:
        """Return the state before every token and after the last, from one pass."""
        self.require_constant_state()
        tokens, state, _ = self.begin(tokens, state, None)
        return self.visited(self.embedding(tokens), [None] * self.config.layers, state)

    def transitions(self, tokens: Tensor) -> TransitionBatch:
        """Return (Φ, G) without a latent at every one of the tokens: G is the whole transition."""
        self.require_constant_state()
        self.check_positions(tokens)
        return self.updates(self.embedding(tokens.flatten()))


def explicit_model(
    name: str, cell: type[Cell], description: str, base: type[StackConfig] = StackConfig
) -> type[ExplicitModel]:
    """Return the class of the explicit model of a cell, by the name that commands know it by.

    ``base`` has the sizes of the stack, with their defaults; the description is one line.

    Example:
        >>> from implicit.cells import Mamba2Cell
        >>> explicit_model("mamba2", Mamba2Cell, "Mamba-2").config_class.__name__
        'Mamba2CellConfig'
    """
    return model_of(ExplicitModel, name, cell, description, base)


def config_class(cell: type[Cell], base: type[StackConfig]) -> type[StackConfig]:
    """Return a configuration that holds the sizes of a stack and those of its cell."""
    if not (isinstance(cell, type) and issubclass(cell, Cell)):
        raise InputError(f"cell is {shown(cell)}; give a subclass of Cell, such as Mamba2Cell")
    check_methods(cell)
    sizes = getattr(cell, "sizes_class", None)
    if not (isinstance(sizes, type) and issubclass(sizes, CellSizes)):
        raise InputError(
            f"sizes_class of {cell.__name__} is {shown(sizes)}; "
            "give the CellSizes whose fields are the keyword arguments of its constructor"
        )
    for size in sizes.model_fields:
        if size not in inspect.signature(cell).parameters:
            raise InputError(
                f"sizes_class of {cell.__name__} has {size}, which its constructor does not take"
            )
    bases: Any = (base, sizes)
    return cast("type[StackConfig]", create_model(f"{cell.__name__}Config", __base__=bases))


Stack = TypeVar("Stack", bound=CellStack)
_EXAMPLE = """

    Example:
        >>> {}(vocabulary_size=2, output_size=3, layers=2).config.layers
        2
    """


def model_of(
    kind: type[Stack], name: str, cell: type[Cell], description: str, base: type[StackConfig]
) -> type[Stack]:
    """Make the class of a model of a cell for the caller's caller; its Python name follows its cell's."""
    config = config_class(cell, base)
    make: Any = type(kind)
    model: type[Stack] = make("Model", (kind,), {"cell_class": cell})
    model.name, model.description, model.config_class = name, description, config
    # As for a named tuple: the class is found under the module that makes it, and can be imported from there.
    module = sys._getframe(2).f_globals.get("__name__", __name__)
    model.__name__ = model.__qualname__ = _class_name(name, cell)
    model.__module__ = config.__module__ = module
    config.__qualname__ = f"{model.__name__}.config_class"  # where pickle finds it
    config.__doc__ = f"Sizes of a `{model.__name__}`."
    model.__doc__ = f"{description[0].upper()}{description[1:]}."
    if module.startswith("implicit."):  # a class of a user's may have another name there
        model.__doc__ += _EXAMPLE.format(model.__name__)
    return model


def _class_name(name: str, cell: type[Cell]) -> str:
    """The name in capitals, with those of the cell's name where its letters are the last ones."""
    known = cell.__name__.removesuffix("Cell")
    capitalised = "".join(part.capitalize() for part in name.split("-"))
    if capitalised.lower().endswith(known.lower()):
        return capitalised[: len(capitalised) - len(known)] + known
    return capitalised
