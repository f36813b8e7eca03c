"""The models that commands and run folders know by name, those that are stacks of one cell defined here."""

import importlib
from collections.abc import Mapping
from copy import copy
from typing import Any, ClassVar

import torch
from pydantic import Field, NonNegativeInt
from pydantic.fields import FieldInfo

from automata.checks import check_memory, check_type
from automata.errors import InputError, unknown_name
from automata.tasks.interface import Task
from implicit.cells import (
    AttentionCell,
    Cell,
    DeltaNetCell,
    GatedDeltaNetCell,
    GatedDeltaProductCell,
    Mamba2Cell,
    Mamba3Cell,
    PDSSMCell,
)
from implicit.cells.mamba2 import Mamba2Sizes
from implicit.checked_config import validated
from implicit.models.explicit import ExplicitModel, explicit_model
from implicit.models.implicit_model import ImplicitConfig, ImplicitModel, implicit_model
from implicit.models.interface import ALPHABETS, ModelConfig, SequenceModel
from implicit.models.stack import StackConfig
from implicit.models.torch_rnn import GRU, LSTM, SLSTM, Elman
from implicit.seeded import Undrawn
from implicit_ssm import find_own_code


class Mamba2Config(StackConfig, Mamba2Sizes):
    """Sizes of a `Mamba2`.

    Example:
        >>> Mamba2Config(vocabulary_size=2, output_size=2).d_state
        16
    """


class Mamba2(ExplicitModel):
    """Mamba-2 layers run once: an ordinary Mamba-2 language model (Dao & Gu 2024, arXiv 2405.21060).

    Example:
        >>> import torch
        >>> model = Mamba2(Mamba2Config(vocabulary_size=3, output_size=5, d_model=8, head_size=8))
        >>> model(torch.tensor([[0, 1, 2, 0]])).shape
        torch.Size([1, 4, 5])
    """

    name: ClassVar[str] = "mamba2"
    description: ClassVar[str] = "the explicit control: the same layers, run once"
    config_class: ClassVar[type[ModelConfig]] = Mamba2Config
    cell_class: ClassVar[type[Cell]] = Mamba2Cell


class ImplicitMamba2Config(ImplicitConfig, Mamba2Sizes):
    """Sizes of an `ImplicitMamba2` and how it finds its fixed point outside of training.

    Example:
        >>> ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=32).layers
        1
    """


class ImplicitMamba2(ImplicitModel):
    """Mamba-2 layers iterated to a fixed point at every token (Schöne et al. 2025, arXiv 2502.07827).

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> config = ImplicitMamba2Config(vocabulary_size=2, output_size=2, d_model=8, head_size=8)
        >>> model = ImplicitMamba2(config)
        >>> model(torch.tensor([[0, 1, 1, 0]])).shape
        torch.Size([1, 4, 2])
    """

    name: ClassVar[str] = "implicit-mamba2"
    description: ClassVar[str] = "Mamba-2 layers iterated to a fixed point at every token"
    config_class: ClassVar[type[ModelConfig]] = ImplicitMamba2Config
    cell_class: ClassVar[type[Cell]] = Mamba2Cell


Mamba3 = explicit_model("mamba3", Mamba3Cell, "Mamba-2 whose state is also turned, in pairs of entries")
ImplicitMamba3 = implicit_model(
    "implicit-mamba3", Mamba3Cell, "Mamba-3 layers iterated to a fixed point at every token"
)
DeltaNet = explicit_model("deltanet", DeltaNetCell, "linear, not diagonal: one Householder step per token")
GatedDeltaNet = explicit_model("gated-deltanet", GatedDeltaNetCell, "DeltaNet whose memory also decays")
GatedDeltaProduct = explicit_model(
    "gated-deltaproduct", GatedDeltaProductCell, "several Householder steps per token, with decay"
)
ImplicitDeltaNet = implicit_model(
    "implicit-deltanet", DeltaNetCell, "DeltaNet layers iterated to a fixed point at every token"
)
ImplicitGatedDeltaNet = implicit_model(
    "implicit-gated-deltanet", GatedDeltaNetCell, "gated DeltaNet layers iterated to a fixed point"
)
ImplicitGatedDeltaProduct = implicit_model(
    "implicit-gated-deltaproduct",
    GatedDeltaProductCell,
    "gated DeltaProduct layers iterated to a fixed point",
)
# No implicit twin: its self-map would jump where the latent changes the choice of P, and there need not be a
# fixed point.
PDSSM = explicit_model(
    "pd-ssm",
    PDSSMCell,
    "linear, not diagonal: entries of the state are moved, as the token says, and multiplied",
)


class LlamaStackConfig(StackConfig):
    """Sizes of a stack of Llama blocks: attention, then a SwiGLU MLP."""

    mlp_size: NonNegativeInt = Field(
        default=128, description="hidden features of a SwiGLU MLP after every cell; 0 for no MLP"
    )


Transformer = explicit_model(
    "transformer",
    AttentionCell,
    "Llama blocks: rotary attention with grouped heads, SwiGLU",
    base=LlamaStackConfig,
)


# The latent of a token is solved for with the keys and values of the tokens before it, at their fixed points,
# and its own, which change with the latent.
class ImplicitLlamaStackConfig(LlamaStackConfig, ImplicitConfig):
    """Sizes of a stack of Llama blocks that is iterated, and how it finds its fixed point."""


ImplicitTransformer = implicit_model(
    "implicit-transformer",
    AttentionCell,
    "Llama blocks iterated to a fixed point at every token",
    base=ImplicitLlamaStackConfig,
)


Sizes = dict[str, Any]
"""The fields of a model's configuration without its alphabets, which follow from the task."""


def joined_sizes(sizes: Any, named: Sizes) -> Sizes:
    """Return the sizes with those that were given by name; InputError if one of them is in both."""
    check_type("sizes", sizes, Mapping, "give the sizes by name, in a dictionary")
    for name in named.keys() & sizes.keys():
        raise InputError(f"{name} is {named[name]}, and {sizes[name]} in sizes; leave one of them out")
    return {**sizes, **named}


MODELS: dict[str, type[SequenceModel]] = {
    model.name: model
    for model in (
        ImplicitMamba2,
        ImplicitMamba3,
        ImplicitDeltaNet,
        ImplicitGatedDeltaNet,
        ImplicitGatedDeltaProduct,
        ImplicitTransformer,
        Mamba2,
        Mamba3,
        DeltaNet,
        GatedDeltaNet,
        GatedDeltaProduct,
        PDSSM,
        Transformer,
        LSTM,
        SLSTM,
        GRU,
        Elman,
    )
}
"""A row for each model; what is said of it stands on the class."""
A_MODEL = (
    "SequenceModel; implicit.explicit_model or implicit_model(name, cell, description) makes one of a cell"
)
"""The remedy where something else is given than a model."""


def model_names() -> list[str]:
    """Return the names of all models, as `build_model` and ``python -m implicit.train --model`` take them.

    Example:
        >>> model_names()[:3]
        ['implicit-mamba2', 'implicit-mamba3', 'implicit-deltanet']
    """
    return list(MODELS)


def model_class(name: str) -> type[SequenceModel]:
    """Return the class of a model: one of `MODELS`, or ``module:name`` of a `SequenceModel` of one's own.

    InputError for an unknown name, or what cannot be imported or is no `SequenceModel`.

    Example:
        >>> model_class("lstm").__name__, model_class("implicit.models.torch_rnn:LSTM").__name__
        ('LSTM', 'LSTM')
        >>> model_class("mamab2")
        Traceback (most recent call last):
        automata.errors.InputError: model 'mamab2' is unknown; did you mean 'mamba2'? Known: ...
    """
    check_type("model", name, str, "give a name, such as 'lstm', or module:name of your own")
    if ":" in name:
        return _imported(name)
    if name not in MODELS:
        if "." in name:
            raise InputError(f"model {name!r} is unknown; did you mean {':'.join(name.rsplit('.', 1))!r}?")
        raise unknown_name("model", name, (*MODELS, "module:name of yours"))
    return MODELS[name]


def _imported(name: str) -> type[SequenceModel]:
    """The model class that ``module:name`` stands for."""
    module, _, attribute = name.partition(":")
    find_own_code()
    try:
        imported = importlib.import_module(module)
    except InputError as error:
        raise InputError(f"model is {name!r}, whose module is refused: {error}") from None
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise InputError(
            f"model is {name!r}, which cannot be imported ({reason}); "
            "give module:name, and install the module or put its folder on PYTHONPATH"
        ) from None
    models = {
        key: value
        for key, value in vars(imported).items()
        if isinstance(value, type) and issubclass(value, SequenceModel)
    }
    if attribute in models:
        return models[attribute]
    if models and not hasattr(imported, attribute):
        raise unknown_name(f"model of {module}", attribute, models)
    raise InputError(f"model is {name!r}; give a subclass of {A_MODEL}")


def size_names(name: str) -> tuple[str, ...]:
    """Return the names of the sizes that a model has."""
    return tuple(model_class(name).config_class.size_fields())


def complete_sizes(name: str, sizes: Mapping[str, Any]) -> Sizes:
    """Check a model's sizes and fill in those left out."""
    config = _model_config(name, sizes, vocabulary_size=1, output_size=1)
    return config.model_dump(exclude=set(ALPHABETS))


def build_model(name: str, sizes: Mapping[str, Any], task: Task) -> SequenceModel:
    """Build a model for a task: its tokens are the input alphabet, its targets the output classes.

    Sizes that are left out take their defaults. The initial weights come from torch's global generator.
    InputError for an unknown model, unknown or bad sizes, sizes that do not divide, or too large ones.

    Example:
        >>> from automata.tasks import make_task
        >>> build_model("lstm", {"d_model": 4}, make_task("parity")).config.d_model
        4
        >>> build_model("mamba2", {"d_model": 10}, make_task("parity"))
        Traceback (most recent call last):
        automata.errors.InputError: head_size is 16; it must divide expand * d_model = 20
    """
    config = _config_for(name, sizes, task)
    _check_memory(name, config)
    return model_class(name)(config)


def build_shapes(name: str, sizes: Mapping[str, Any], task: Task) -> SequenceModel:
    """Build a model of `MODELS` whose weights have shapes alone: nothing is drawn, no memory is touched."""
    try:
        return _shapes(name, _config_for(name, sizes, task))
    except (RuntimeError, TypeError):  # of sizes or products of them beyond 64 bits
        raise InputError(
            f"the sizes of {name} ask for more weights than a file holds; correct them"
        ) from None


def _shapes(name: str, config: ModelConfig) -> SequenceModel:
    try:
        with Undrawn():
            return MODELS[name](config)
    except RuntimeError:  # too large; without any memory, PyTorch imports its compiler, which takes seconds
        with torch.device("meta"):
            return MODELS[name](config)


def _config_for(name: str, sizes: Mapping[str, Any], task: Task) -> ModelConfig:
    check_type("task", task, Task, "give a task, such as automata.task_from('parity')")
    return _model_config(name, sizes, vocabulary_size=task.vocabulary_size, output_size=task.output_size)


def _check_memory(name: str, config: ModelConfig) -> None:
    """Refuse weights that are too large, before memory is taken; a user's own model is left alone."""
    if name not in MODELS:
        return
    try:
        weights = _shapes(name, config).state_dict().values()
        needed = sum(tensor.numel() * tensor.element_size() for tensor in weights)
    except (RuntimeError, TypeError):  # of sizes or products of them beyond 64 bits
        needed = 2**63
    check_memory(f"a {name} of these sizes", needed, "give smaller sizes")


def _model_config(name: str, sizes: Mapping[str, Any], vocabulary_size: int, output_size: int) -> ModelConfig:
    known = size_names(name)
    check_type("sizes", sizes, Mapping, "give a dictionary, such as {'d_model': 32}")
    for field in sizes:
        if field in ALPHABETS:
            raise InputError(f"{field} is {sizes[field]}; leave it out, for it follows from the task")
    alphabets = {"vocabulary_size": vocabulary_size, "output_size": output_size}
    return validated(
        model_class(name).config_class, {**sizes, **alphabets}, field=f"size of {name}", known=known
    )


def size_fields() -> dict[str, FieldInfo]:
    """Return the sizes of all models with a description that says which models have them."""
    owners: dict[str, list[str]] = {}
    fields: dict[str, FieldInfo] = {}
    for model in MODELS.values():
        for name, field in model.config_class.size_fields().items():
            owners.setdefault(name, []).append(model.name)
            fields.setdefault(name, copy(field))
    for name, field in fields.items():
        field.description = f"{field.description} ({', '.join(owners[name])})"
    return fields
