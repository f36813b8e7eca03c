"""Published sizes, and the formula of the number of parameters against the models themselves."""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from automata.errors import InputError
from implicit.language.sizes import PUBLISHED, parameter_count, published_config
from tests.implicit.language.small_language_models import MODELS, config_of


@pytest.mark.parametrize("implicit", [True, False])
@pytest.mark.parametrize(
    ("family", "size"), [(family, size) for family in PUBLISHED for size in PUBLISHED[family]]
)
def test_published_sizes_have_as_many_parameters_as_counted(family: str, size: str, implicit: bool) -> None:
    config = published_config(family, size, implicit=implicit)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    count = sum(parameter.numel() for parameter in model.parameters())
    assert parameter_count(config) == count
    nominal = {"130m": 130e6, "370m": 370e6, "760m": 760e6, "1.3b": 1.3e9}[size]
    assert count == pytest.approx(nominal, rel=0.06)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("changes", [{}, {"tie_word_embeddings": False}, {"num_hidden_layers": 3}])
def test_small_ones_too(name: str, changes: dict[str, Any]) -> None:
    config = config_of(name, **changes)
    assert parameter_count(config) == sum(
        parameter.numel() for parameter in MODELS[name](config).parameters()
    )


@pytest.mark.parametrize(
    ("family", "size", "sentence"),
    [("mamba", "130m", "family 'mamba' is unknown"), ("llama", "350m", "size '350m' is unknown")],
)
def test_unknown_sizes_are_refused(family: str, size: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        published_config(family, size)


def test_an_unknown_field_is_refused() -> None:
    assert published_config("llama", "130m", hidden_size=64, num_attention_heads=4).hidden_size == 64
    with pytest.raises(InputError, match="field 'hiden_size' is unknown"):
        published_config("llama", "130m", hiden_size=64)
