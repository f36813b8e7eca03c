"""Shared by the tests of the harness: a tokenizer of bytes, small models, where the sets may lie."""

import os
from pathlib import Path
from typing import Any

import pytest

from automata.data_files import DATA_VARIABLE
from implicit.language import LanguageModel
from implicit.language.harness import LOCAL_SETS
from tests.implicit.language.small_language_models import small_model

ROOT = Path(__file__).parents[4]
DATA = Path(os.environ.get(DATA_VARIABLE) or ROOT.parent / "shared" / "data")
HAS_DATA = all((DATA / file).is_file() for found in LOCAL_SETS.values() for file in found.files)
needs_data = pytest.mark.skipif(
    not HAS_DATA,
    reason=f"the seven sets do not lie beside the repository, and {DATA_VARIABLE} names no folder",
)

BYTES = 256
END = BYTES


def byte_tokenizer() -> Any:
    """A token for each byte, and one for the end of a text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>", pad_token="<end>")


def small_byte_model(name: str, **changes: Any) -> LanguageModel:
    sizes = {"vocab_size": BYTES + 1, "pad_token_id": END, "eos_token_id": END, "num_hidden_layers": 1}
    return small_model(name, **{**sizes, **changes})


def other_model() -> Any:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"vocab_size": BYTES + 1, "n_positions": 2048, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = GPT2Config(**sizes, bos_token_id=END, eos_token_id=END)
    return GPT2LMHeadModel(config).eval()


def write_model(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder
