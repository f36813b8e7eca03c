"""Other libraries that go by the names of classes: the labels that `Trainer` shifts."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn import functional
from transformers import Trainer, TrainingArguments

from implicit.language import ExplicitMamba2ForCausalLM
from tests.implicit.language.small_language_models import MODELS, config_of, small_model, tokens_of


class OfAUser(ExplicitMamba2ForCausalLM):
    pass


@pytest.mark.parametrize("name", [*MODELS, "OfAUser"])
def test_label_smoothing_is_of_the_next_token(name: str, tmp_path: Path) -> None:
    model = small_model(name) if name in MODELS else OfAUser(config_of("ExplicitMamba2ForCausalLM")).eval()
    options: dict[str, Any] = {"use_cpu": True, "report_to": [], "label_smoothing_factor": 0.1}
    trainer = Trainer(model, TrainingArguments(str(tmp_path), **options))
    tokens = tokens_of(2, 6)
    logits = model(tokens).logits[:, :-1].transpose(1, 2)
    expected = functional.cross_entropy(logits, tokens[:, 1:], label_smoothing=0.1)
    found = trainer.compute_loss(model, {"input_ids": tokens, "labels": tokens.clone()})
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected)
