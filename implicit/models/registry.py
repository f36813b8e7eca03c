"""The models that commands and run folders know by name."""

from collections.abc import Mapping
from copy import copy
from typing import Any

from pydantic.fields import FieldInfo

from automata.errors import InputError, unknown_name
from automata.tasks.word_problem import WordProblem
from implicit.checked_config import validated
from implicit.models.baselines import LSTM, Mamba2
from implicit.models.implicit_mamba2 import ImplicitMamba2
from implicit.models.interface import ModelConfig, SequenceModel

Sizes = dict[str, Any]
"""The fields of a model's configuration without its alphabets, which follow from the task."""

MODELS: dict[str, type[SequenceModel]] = {model.name: model for model in (ImplicitMamba2, Mamba2, LSTM)}

MODEL_DESCRIPTIONS = {
    "implicit-mamba2": "Mamba-2 layers iterated to a fixed point at every token",
    "mamba2": "the explicit control: the same layers, run once",
    "lstm": "the non-linear recurrent control",
}

SIZE_DESCRIPTIONS = {
    "d_model": "features of the latent, of the residual stream, or of the LSTM's state",
    "layers": "number of layers; in an implicit model all of them lie inside the fixed point",
    "expand": "inner width as a multiple of d_model",
    "d_state": "SSM state size per channel",
    "head_size": "channels a head; divides expand * d_model",
    "d_conv": "width of the short convolution; 1 for none",
    "groups": "groups of heads that share B and C",
    "residual": "whether the self-map adds its input before the norm, as in the paper",
    "damping": "damping of the fixed-point iteration, above 0 and at most 1",
    "rtol": "relative tolerance of the fixed point outside of training",
    "max_iterations": "the most self-iterations outside of training",
}

_ALPHABETS = frozenset(ModelConfig.model_fields)


def model_class(name: str) -> type[SequenceModel]:
    """Return the class of a model.

    Raises:
        InputError: for an unknown name, with the nearest known one.

    Example:
        >>> model_class("lstm").__name__
        'LSTM'
        >>> model_class("mamba3")
        Traceback (most recent call last):
        automata.errors.InputError: model 'mamba3' is unknown; did you mean 'mamba2'? Known: ...
    """
    if name not in MODELS:
        raise unknown_name("model", name, MODELS)
    return MODELS[name]


def size_names(name: str) -> tuple[str, ...]:
    """Return the names of the sizes that a model has.

    Example:
        >>> size_names("lstm")
        ('d_model', 'layers')
    """
    return tuple(field for field in model_class(name).config_class.model_fields if field not in _ALPHABETS)


def complete_sizes(name: str, sizes: Mapping[str, Any]) -> Sizes:
    """Check a model's sizes and fill in those left out.

    Raises:
        InputError: for an unknown model, a size that the model does not have, or a bad value.

    Example:
        >>> complete_sizes("lstm", {"d_model": 16})
        {'d_model': 16, 'layers': 1}
    """
    config = _model_config(name, sizes, vocabulary_size=1, output_size=1)
    return config.model_dump(exclude=set(_ALPHABETS))


def build_model(name: str, sizes: Mapping[str, Any], task: WordProblem) -> SequenceModel:
    """Build a model for a task: its tokens are the input alphabet, its states the output classes.

    The initial weights come from torch's global generator.

    Args:
        name: one of `MODELS`.
        sizes: fields of the model's configuration; those left out take their defaults.
        task: the word problem.

    Raises:
        InputError: for an unknown model, unknown or bad sizes, or sizes that do not divide.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> build_model("lstm", {"d_model": 4}, make_task("parity")).config
        LSTMConfig(vocabulary_size=2, output_size=2, d_model=4, layers=1)
        >>> build_model("mamba2", {"d_model": 10}, make_task("parity"))
        Traceback (most recent call last):
        automata.errors.InputError: head_size is 16; it must divide expand * d_model = 20
    """
    config = _model_config(name, sizes, vocabulary_size=task.vocabulary_size, output_size=task.state_count)
    return MODELS[name](config)


def _model_config(name: str, sizes: Mapping[str, Any], vocabulary_size: int, output_size: int) -> ModelConfig:
    known = size_names(name)
    for field in sizes:
        if field in _ALPHABETS:
            raise InputError(f"{field} is {sizes[field]}; leave it out, for it follows from the task")
    alphabets = {"vocabulary_size": vocabulary_size, "output_size": output_size}
    return validated(
        model_class(name).config_class, {**sizes, **alphabets}, field=f"size of {name}", known=known
    )


def size_fields() -> dict[str, FieldInfo]:
    """Return the sizes of all models with a description that says which models have them.

    Example:
        >>> size_fields()["d_conv"].description
        'width of the short convolution; 1 for none (implicit-mamba2, mamba2)'
    """
    fields: dict[str, FieldInfo] = {}
    for name, description in SIZE_DESCRIPTIONS.items():
        owners = [model for model in MODELS if name in size_names(model)]
        fields[name] = copy(MODELS[owners[0]].config_class.model_fields[name])
        fields[name].description = f"{description} ({', '.join(owners)})"
    return fields
