"""Published sizes, and the formula of the number of parameters against the models themselves."""

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
def test_small_ones_too(name: str) -> None:
    for changes in ({}, {"tie_word_embeddings": False}, {"num_hidden_layers": 3}):
        config = config_of(name, **changes)
        count = sum(parameter.numel() for parameter in MODELS[name](config).parameters())
        assert parameter_count(config) == count


def test_unknown_sizes_and_fields_are_refused() -> None:
    for family, size, sentence in (
        ("mamba", "130m", "family 'mamba' is"),
        ("llama", "350m", "size '350m' is"),
    ):
        with pytest.raises(InputError, match=sentence):
            published_config(family, size)
    assert published_config("llama", "130m", hidden_size=64, num_attention_heads=4).hidden_size == 64
    with pytest.raises(InputError, match="field 'hiden_size' is unknown"):
        published_config("llama", "130m", hiden_size=64)
