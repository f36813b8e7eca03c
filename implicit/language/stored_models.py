"""Models and tokenizers from a folder that `save_pretrained` wrote, read without a request to anywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel
from transformers.utils import logging

from automata.errors import InputError
from implicit.language.stored_size import check_texts
from implicit.training.train import available_device

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
    `transformers`. One that lacks weights, or whose tokenizer has more tokens than the model, is refused.
    """
    check_model_folder(folder)
    place = available_device(device)
    try:
        with _no_progress_bar():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
            model, told = AutoModelForCausalLM.from_pretrained(
                folder, local_files_only=True, output_loading_info=True
            )
    except Exception as error:  # of a configuration, transformers raises what its first use raises
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        raise InputError(f"model {folder} cannot be read ({reason}); write it again") from None
    if told["missing_keys"]:
        lacking = min(told["missing_keys"])
        raise InputError(
            f"model {folder} lacks weights, {lacking} for one, and would be random; write it again"
        )
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
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
