"""How large the files of a stored model are, and which weights they hold, before memory is taken for them."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from automata.errors import InputError
from implicit.models.registry import SURELY_SMALL
from implicit.runs.files import declared_tensors

LARGEST_TEXT = 2**28
"""Bytes of a configuration or of the tokenizer."""
_READ_WHOLE = (".json", ".txt", ".model", ".jinja")


def check_texts(folder: Path) -> None:
    """Refuse configurations and tokenizers that are too large to be read whole."""
    for file in folder.iterdir():
        if file.suffix in _READ_WHOLE and file.is_file() and file.stat().st_size > LARGEST_TEXT:
            raise InputError(f"{file} is too large; give a file of at most {LARGEST_TEXT} bytes")


def check_stored_size(model: type[PreTrainedModel], folder: Path, config: Any = None) -> None:
    """Refuse a configuration of weights that no file holds, or that files hold as integers or the like.

    Some may be missing, such as a head that is about to be trained: as many as there are, or a small model.
    Folders in other formats than safetensors are left to `transformers`. The configuration is read if not
    given.
    """
    files = list(folder.glob("*.safetensors"))
    config_file = folder / "config.json"
    if not files or not config_file.is_file():
        return
    found = {
        _own_name(model, name): tensor for file in files for name, tensor in declared_tensors(file)[0].items()
    }
    try:
        with torch.device("meta"):  # shapes without memory
            given = isinstance(config, PreTrainedConfig)
            own = model(deepcopy(config) if given else model.config_class.from_pretrained(config or folder))
    except RuntimeError:  # of sizes whose product has no 64 bits
        raise InputError(f"{config_file} asks for more weights than files hold; restore it") from None
    sizes = {name: weight.numel() for name, weight in own.named_parameters()}  # tied ones once
    stored = {name: found[_own_name(model, name)] for name in sizes if _own_name(model, name) in found}
    for name, tensor in stored.items() if not hasattr(own.config, "quantization_config") else ():
        if not tensor.is_floating_point():
            raise InputError(
                f"weight {name!r} in {folder} is {tensor.dtype}; restore it, or give floating-point numbers"
            )
    held = sum(
        sizes[name] for name, tensor in stored.items() if tensor.shape == own.get_parameter(name).shape
    )
    if (asked := sum(sizes.values())) - held > max(held, SURELY_SMALL):
        raise InputError(
            f"{config_file} asks for {asked} weights, and the files hold {held} of them; restore it"
        )


def _own_name(model: type[PreTrainedModel], name: str) -> str:
    """The name of a weight, which files of the stack alone have without the prefix."""
    return name.removeprefix(f"{model.base_model_prefix}.")
