"""Finished pretraining runs whose models have drawn weights: nothing is trained, and all is quick."""

from pathlib import Path
from typing import Any

import torch

from implicit.language.pretrain import FinishedRun, train_tokenizer
from implicit.language.pretrain.tokens import documents, vocabulary_size
from tests.implicit.language.pretrain.small_runs import LINES, small_run
from tests.implicit.language.small_language_models import small_model

NAMES = {
    (family, implicit): f"{'Implicit' if implicit else 'Explicit'}{layers}ForCausalLM"
    for family, layers in (("mamba2", "Mamba2"), ("llama", "Llama"))
    for implicit in (True, False)
}
RESULT = {"perplexity": 31.5, "tokens": 40_960, "training_seconds": 12.5, "parameters": 7}
SHARPER = 16.0
"""By which weights of the head are multiplied: predictions then differ much, and depend on the latents."""


def write_text(folder: Path) -> str:
    """A text with words that the tokenizer has, and words that it has in pieces only."""
    path = folder / "test.txt"
    path.write_text("".join(LINES[:40]).replace("says line", "praises aisles"))
    return str(path)


def run_of(folder: Path, family: str, implicit: bool, **changes: Any) -> FinishedRun:
    config = small_run(folder, family, implicit, tokenizer=300, **changes)
    tokenizer = train_tokenizer(documents(config.train), 300)
    tells: dict[str, Any] = {"unconverged": "ignore"} if implicit else {}
    model = small_model(NAMES[family, implicit], 3.0, vocab_size=vocabulary_size(tokenizer), **tells)
    with torch.no_grad():
        model.lm_head.weight.mul_(SHARPER)
    return FinishedRun(folder, config, model, tokenizer, dict(RESULT), [])
