"""Configurations: names of others are read, refused or told; sizes have as many parameters as counted.

No name is ignored where it changes a model.
"""

from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Mamba2Config

from automata.errors import InputError
from implicit.language import ExplicitLlamaLMConfig, ExplicitMamba2LMConfig, ImplicitMamba2LMConfig
from implicit.language.sizes import PUBLISHED, parameter_count, published_config
from tests.implicit.language.small_language_models import MODELS, config_of
from tests.refusals import refusals


def test_a_configuration_of_mamba_ssm_is_read() -> None:
    mixer = {"layer": "Mamba2", "d_state": 16, "headdim": 32, "d_conv": 3, "ngroups": 2}
    options: dict[str, Any] = {"attn_layer_idx": [], "attn_cfg": {}, "d_intermediate": 0, "rms_norm": True}
    config = ImplicitMamba2LMConfig(
        d_model=64, n_layer=3, vocab_size=50277, pad_vocab_size_multiple=8, ssm_cfg=mixer, **options
    )
    assert (config.hidden_size, config.num_hidden_layers, config.vocab_size) == (64, 3, 50280)
    assert (config.state_size, config.head_dim, config.conv_kernel, config.n_groups) == (16, 32, 3, 2)
    again = ImplicitMamba2LMConfig.from_dict(config.to_dict())
    assert again.layer_sizes == config.layer_sizes


def test_configurations_of_transformers_are_read() -> None:
    sizes = {"hidden_size": 512, "num_hidden_layers": 3}
    assert ExplicitMamba2LMConfig(**Mamba2Config(**sizes, num_heads=16).to_dict()).hidden_size == 512
    theirs = LlamaConfig(hidden_size=512, num_attention_heads=8, rms_norm_eps=1e-5)
    assert ExplicitLlamaLMConfig(**theirs.to_dict()).rope_theta == 10_000


@pytest.mark.parametrize(
    ("config", "fields", "sentence"),
    [
        (ExplicitMamba2LMConfig, {"ssm_cfg": {"layer": "Mamba1"}}, "layer is 'Mamba1'"),
        (ExplicitMamba2LMConfig, {"ssm_cfg": 3}, "ssm_cfg is 3; give a mapping"),
        (ExplicitMamba2LMConfig, {"ssm_cfg": {"D_has_hdim": True}}, "D_has_hdim is True"),
        (ExplicitMamba2LMConfig, {"attn_layer_idx": [2]}, "attn_layer_idx is"),
        (ExplicitMamba2LMConfig, {"d_intermediate": 8}, "d_intermediate is not 0"),
        (ExplicitMamba2LMConfig, {"d_model": 64, "hidden_size": 128}, "give one of them"),
        (ExplicitMamba2LMConfig, {"num_heads": 5}, "num_heads is 5"),
        (ExplicitMamba2LMConfig, {"time_step_min": 0.5}, "time_step_min is 0.5"),
        (ExplicitMamba2LMConfig, {"pad_vocab_size_multiple": 0}, "pad_vocab_size_multiple is 0"),
        (ExplicitLlamaLMConfig, {"head_dim": 32}, "head_dim is 32; it must be"),
        (ExplicitLlamaLMConfig, {"rope_parameters": "x"}, "rope_parameters is 'x'; give one mapping"),
        (ExplicitLlamaLMConfig, {"rope_parameters": {"full_attention": {}}}, "one mapping for all layers"),
        (ExplicitLlamaLMConfig, {"rope_parameters": {"rope_type": "linear"}}, "'default' positions"),
        (ExplicitLlamaLMConfig, {"rope_parameters": {"factor": 2.0}}, "factor is 2.0"),
        (ExplicitLlamaLMConfig, {"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5"),
    ],
)
def test_what_would_be_another_model_is_refused(config: Any, fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        config(**fields)


@pytest.mark.parametrize("name", ["hiden_size", "num_experts"])
def test_an_unknown_name_is_told(name: str) -> None:
    with pytest.warns(UserWarning, match=f"'{name}' is no field of ExplicitMamba2LMConfig"):
        ExplicitMamba2LMConfig(**{name: 3})


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
    assert published_config("llama", "130m", hidden_size=64, num_attention_heads=4).hidden_size == 64
    for changes in ({}, {"tie_word_embeddings": False}, {"num_hidden_layers": 3}):
        config = config_of(name, **changes)
        count = sum(parameter.numel() for parameter in MODELS[name](config).parameters())
        assert parameter_count(config) == count


test_unknown_sizes_and_fields_are_refused = refusals(
    (lambda: published_config("mamba", "130m"), "family 'mamba' is"),
    (lambda: published_config("llama", "350m"), "size '350m' is"),
    (lambda: published_config("llama", "130m", hiden_size=64), "field 'hiden_size' is unknown"),
)
