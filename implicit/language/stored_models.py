"""Models and tokenizers from a folder that `save_pretrained` wrote, read without a request to anywhere."""

import json
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedConfig, PreTrainedModel
from transformers.utils import is_peft_available
from transformers.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

from automata.checks import shown
from automata.errors import InputError, printable, warn_caller
from implicit.runs.files import declared_tensors
from implicit.training.train import available_device


@contextmanager
def only_errors_of(logger: str) -> Iterator[None]:
    """Let a logger tell errors only, until the block ends."""
    named = logging.getLogger(logger)
    before = named.level
    named.setLevel(logging.ERROR)
    try:
        yield
    finally:
        named.setLevel(before)


SURELY_SMALL = 2 * 10**7
"""Weights that every machine has memory for."""
LARGEST_TEXT = 2**28
"""Bytes of a configuration or of the tokenizer."""
_WEIGHTS = (".safetensors", ".bin")
_READ_WHOLE = (".json", ".txt", ".model", ".jinja")
HERE: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
"""How folders of strangers are read: without a request, and without the code that may lie there."""


def check_texts(folder: Path) -> None:
    """Refuse configurations and tokenizers that are too large to be read whole, or never read to the end."""
    for file in [*folder.iterdir(), *folder.glob("additional_chat_templates/*")]:
        if file.suffix in _READ_WHOLE and file.is_file() and file.stat().st_size > LARGEST_TEXT:
            raise InputError(f"{file} is too large; give a file of at most {LARGEST_TEXT} bytes")
    _check_patterns_and_kernels(folder)


_MOST_REPETITIONS = 5
"""In one pattern: to fail on a name of 100 letters, five, as in `.*.*.*.*.*x`, may take 10⁸ steps."""

_MOST_WAYS = 10**5
"""Choices of one alternative in every group of a pattern."""

_MOST_STEPS = 10**4
"""Of all patterns of a file. A repetition is a factor of four: with five of them a pattern takes some 6 ms to
fail on a module (by hand)."""


def _check_patterns_and_kernels(folder: Path) -> None:
    """Refuse patterns that may take for ever to match names of modules, and code from elsewhere.

    `peft` and `transformers` match the patterns; the latter fetches a kernel named by a repository.
    """
    for name, field in (("config.json", "quantization_config"), ("adapter_config.json", None)):
        file = folder / name
        try:
            stored = json.loads(file.read_bytes()) if file.is_file() else None
        except (OSError, ValueError, RecursionError):  # told by those who read it
            continue
        if kernels := [name for name in _implementations(stored) if isinstance(name, str) and "/" in name]:
            raise InputError(
                f"{file} asks for code from elsewhere, {shown(kernels[0])}; give an implementation of "
                "transformers itself, such as 'sdpa'"
            )
        own = stored if field is None or not isinstance(stored, dict) else stored.get(field)
        steps = 0
        for text in (leaf for leaf in _leaves(own) if isinstance(leaf, str)):
            repetitions = len(re.findall(r"(?<!\()[*+?{]", text))
            ways = prod(group.count("|") + 1 for group in text.split("("))
            steps += 4**repetitions
            repeats = repetitions > _MOST_REPETITIONS or re.search(r"\)[*+{]", text)
            if repeats or ways > _MOST_WAYS or steps > _MOST_STEPS:
                raise InputError(
                    f"{file}: the pattern {printable(text[:40])} repeats too much; give names of modules"
                )


def _implementations(value: Any) -> Iterator[Any]:
    """The implementations of attention and the like that a configuration names, also those of its parts."""
    parts = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list) else {}
    for name, part in parts.items():
        yield from _leaves(part) if "_implementation" in str(name) else _implementations(part)


def _leaves(value: Any) -> Iterator[Any]:
    """All names, texts and numbers of a JSON value."""
    if isinstance(value, list | dict):
        for part in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _leaves(part)
    else:
        yield value


def model_and_adapter(folder: Path, subfolder: str) -> tuple[Path, Path | None]:
    """Return the folders of a model and of its adapter, which one folder may be, or may name the other.

    The base model of an adapter lies in a subfolder of that name, too.
    """
    file = folder / "adapter_config.json"
    if not file.is_file() or not is_peft_available():
        return folder, None
    try:
        stored = json.loads(file.read_bytes())
    except (ValueError, RecursionError):  # told by those who read it
        return folder, None
    named = stored.get("base_model_name_or_path") if isinstance(stored, dict) else None
    base = Path(named) / subfolder if isinstance(named, str) else folder
    elsewhere = not (folder / "config.json").is_file() and base.is_dir()
    return (base if elsewhere else folder), folder


def check_stored_size(
    model: type[PreTrainedModel], folder: Path, config: Any = None, adapter: Path | None = None
) -> None:
    """Refuse a configuration of weights that no file holds, or that files hold as integers or the like.

    Some may be missing, such as a new head: as many as there are, or a small model. Folders in other formats
    than safetensors are left to `transformers`.
    """
    files = list(folder.glob("*.safetensors"))
    config_file = folder / "config.json"
    if not files or not config_file.is_file():
        return
    if _longest_list(folder) > _most_parts(folder):
        raise InputError(f"{config_file} asks for more layers or labels than files hold; restore it")
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
    if adapter is not None:
        # some methods look at numbers while they are made, and prompts are no part of the model
        with suppress(RuntimeError, ValueError), torch.device("meta"):
            _inject(adapter, own)
        added = sum(weight.numel() for weight in own.parameters()) - asked
        if added > SURELY_SMALL + 2 * _size_of_weights(adapter):
            raise InputError(
                f"{adapter / 'adapter_config.json'} asks for {added} weights, which no file holds; restore it"
            )


def _inject(folder: Path, model: PreTrainedModel) -> None:
    """Put the adapter of a folder into a model of shapes alone."""
    from peft import PeftConfig, inject_adapter_in_model

    adapter = PeftConfig.from_pretrained(str(folder))
    vars(adapter).update(init_lora_weights=False)  # which may need numbers
    inject_adapter_in_model(adapter, model)


def _size_of_weights(folder: Path) -> int:
    return sum(part.stat().st_size for part in folder.iterdir() if part.suffix in _WEIGHTS)


def _most_parts(folder: Path) -> int:
    """The most modules and weights that files of a folder may hold: as many bytes take a name and a shape."""
    return 10**4 + _size_of_weights(folder) // 32


def _own_name(model: type[PreTrainedModel], name: str) -> str:
    """The name of a weight, which files of the stack alone have without the prefix."""
    return name.removeprefix(f"{model.base_model_prefix}.")


def _longest_list(folder: Path) -> int:
    """The most layers or labels that a configuration asks for, of which `transformers` makes lists."""
    longest = 0

    def look(fields: dict[str, Any]) -> None:
        nonlocal longest
        for name, value in fields.items():
            if "layer" in name or name in ("num_labels", "attention_types"):
                longest = max([longest, *(one for one in _leaves(value) if isinstance(one, int))])

    json.loads((folder / "config.json").read_bytes(), object_hook=look)
    return longest


def _check_asked(folder: Path) -> None:
    """Raise ValueError for a model, of any kind, that asks for many more weights than its files can hold.

    The model is made of shapes alone, as far as the files allow. Layers and labels are looked at before:
    configurations make lists of them.
    """
    refusal = ValueError("it asks for many more weights than its files hold")
    most_parts = _most_parts(folder)
    if _longest_list(folder) > most_parts:
        raise refusal
    config = AutoConfig.from_pretrained(folder, **HERE)
    # A tied weight is counted up to three times; it has two bytes, where others may have one, or a bit.
    per_byte = 8 if hasattr(config, "quantization_config") else 2
    most_weights = SURELY_SMALL + per_byte * _size_of_weights(folder)
    weights = parts = 0

    def count(_module: nn.Module, _name: str, weight: Tensor | None) -> None:
        nonlocal weights, parts
        weights, parts = weights + (0 if weight is None else weight.numel()), parts + 1
        if weights > most_weights or parts > most_parts:
            raise refusal

    hooks = register_module_parameter_registration_hook, register_module_buffer_registration_hook
    with torch.device("meta"), hooks[0](count), hooks[1](count):
        model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
        if (folder / "adapter_config.json").is_file() and is_peft_available():
            _inject(folder, model)


_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "vocab.txt")


def check_model_folder(folder: Path) -> None:
    """Refuse a folder that lacks a model or a tokenizer, before anything of it is read."""
    if not folder.is_dir():
        raise InputError(f"model is {folder}, which is no folder; give one that save_pretrained wrote")
    if not (folder / "config.json").is_file():
        raise InputError(
            f"model is {folder}, which has no config.json; give a folder that save_pretrained wrote"
        )
    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise InputError(
            f"model is {folder}, which has no tokenizer; write one there with tokenizer.save_pretrained"
        )
    check_texts(folder)


def load_model(folder: Path, device: str = "cpu") -> tuple[PreTrainedModel, Any]:
    """Return the causal language model of a folder, ready to be evaluated, and its tokenizer.

    The folder was written by ``save_pretrained``, of a model of this toolkit or of any other in
    `transformers`. One that lacks weights, or whose tokenizer has more tokens than the model, is refused; a
    warning tells of weights that no module takes.
    """
    check_model_folder(folder)
    place = available_device(device)
    try:
        with _no_progress_bar(), only_errors_of("transformers"):
            _check_asked(folder)  # before the tokenizer, with which the configuration is read
            tokenizer = AutoTokenizer.from_pretrained(folder, **HERE)
            model, told = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, **HERE)
    except Exception as error:  # of a configuration, transformers raises what its first use raises
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        if "ignore_mismatched_sizes" in reason:  # and which weights these are, in a report that is not shown
            reason = "its weights are of other sizes than config.json says"
        raise InputError(f"model {folder} cannot be read ({reason}); write it again") from None
    if told["missing_keys"]:
        lacking = min(told["missing_keys"])
        raise InputError(
            f"model {folder} lacks weights, {lacking} for one, and would be random; write it again"
        )
    if told["unexpected_keys"]:
        left_out = printable(min(told["unexpected_keys"]))
        warn_caller(f"model {folder} leaves out weights of its files, {left_out} for one", UserWarning)
    most = max(tokenizer.get_vocab().values(), default=0)
    if most >= model.config.vocab_size:
        raise InputError(
            f"tokenizer of {folder} has a token {most}, and the model only {model.config.vocab_size}; "
            "write the tokenizer that the model was trained with"
        )
    return model.to(place).eval(), tokenizer


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Without the bar of `transformers`, which would stand on the line of an error."""
    shown = is_progress_bar_enabled()
    disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            enable_progress_bar()
