"""The published sizes of the language models, and how many parameters any of them has."""

from typing import Any

from automata.errors import unknown_name
from implicit.language.configuration import (
    ExplicitLlamaLMConfig,
    ExplicitMamba2LMConfig,
    FixedPoints,
    ImplicitLlamaLMConfig,
    ImplicitMamba2LMConfig,
    LanguageModelConfig,
    LlamaLayers,
    Mamba2Layers,
)

_VOCABULARY = 50_277
"""Tokens of the GPT-NeoX tokenizer."""
_PADDED = 50_288
"""The same up to a multiple of 16, which the published implicit Mamba-2 has."""

_MAMBA2: dict[str, dict[str, Any]] = {
    "130m": {"hidden_size": 768, "num_hidden_layers": 24},
    "370m": {"hidden_size": 1024, "num_hidden_layers": 48},
    "760m": {"hidden_size": 1536, "num_hidden_layers": 48},
    "1.3b": {"hidden_size": 2048, "num_hidden_layers": 48},
}


def _llama(hidden: int, layers: int, heads: int, inner: int) -> dict[str, Any]:
    """The MLP of the public code has two thirds of the inner width that its configurations name."""
    return {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 2 * inner // 3,
        "vocab_size": _VOCABULARY,
    }


_LLAMA: dict[str, dict[str, Any]] = {
    "130m": _llama(768, 12, 12, 3072),
    "370m": _llama(1024, 24, 16, 4096),
    "760m": _llama(1536, 24, 16, 6144),
    "1.3b": _llama(2048, 24, 32, 8192),
}

PUBLISHED = {"mamba2": _MAMBA2, "llama": _LLAMA}
"""By family and size; the deck calls 370m 350M."""

_CONFIGS: dict[tuple[str, bool], type[LanguageModelConfig]] = {
    ("mamba2", True): ImplicitMamba2LMConfig,
    ("mamba2", False): ExplicitMamba2LMConfig,
    ("llama", True): ImplicitLlamaLMConfig,
    ("llama", False): ExplicitLlamaLMConfig,
}


def published_config(family: str, size: str, *, implicit: bool = True, **changes: Any) -> LanguageModelConfig:
    """Return the configuration of a size in the public code of Schöne et al. 2025, arXiv 2502.07827.

    The family is ``"mamba2"`` or ``"llama"``, the size ``"130m"``, ``"370m"``, ``"760m"`` or ``"1.3b"``;
    changes are other fields. InputError if the family, the size or a field is unknown.

    Example:
        >>> config = published_config("mamba2", "1.3b")
        >>> config.hidden_size, config.num_hidden_layers, parameter_count(config)
        (2048, 48, 1361200448)
    """
    if not isinstance(family, str) or family not in PUBLISHED:
        raise unknown_name("family", str(family), tuple(PUBLISHED))
    if not isinstance(size, str) or size not in PUBLISHED[family]:
        raise unknown_name("size", str(size), tuple(PUBLISHED[family]))
    vocabulary = {"vocab_size": _PADDED if implicit else _VOCABULARY} if family == "mamba2" else {}
    return language_config(family, implicit=implicit, **{**vocabulary, **PUBLISHED[family][size], **changes})


def language_config(family: str, *, implicit: bool = True, **fields: Any) -> LanguageModelConfig:
    """Return the configuration of a family with the given fields; the others keep their defaults."""
    if not isinstance(family, str) or family not in PUBLISHED:
        raise unknown_name("family", str(family), tuple(PUBLISHED))
    config = _CONFIGS[family, implicit]
    for field in fields:
        if not hasattr(config, field):
            raise unknown_name("field", field, tuple(config.__dataclass_fields__))
    return config(**fields)


def parameter_count(config: LanguageModelConfig) -> int:
    """Return the number of parameters, tied ones once, without building the model.

    Example:
        >>> parameter_count(published_config("llama", "130m", implicit=False))
        123566592
    """
    width, layers, vocabulary = config.hidden_size, config.num_hidden_layers, config.vocab_size
    embeddings = vocabulary * width * (1 if config.tie_word_embeddings else 2)
    injection = (width + 1) * injection_size(config) + width if isinstance(config, FixedPoints) else 0
    return embeddings + layers * _of_layer(config) + injection + width


def injection_size(config: LanguageModelConfig) -> int:
    """Return the width of the input projection of a layer, which is that of the injection."""
    if isinstance(config, Mamba2Layers):
        inner = config.expand * config.hidden_size
        return 2 * (inner + config.n_groups * config.state_size) + inner // config.head_dim
    assert isinstance(config, LlamaLayers)
    assert config.num_key_value_heads is not None
    size = config.hidden_size // config.num_attention_heads
    return (config.num_attention_heads + 2 * config.num_key_value_heads) * size


def _of_layer(config: LanguageModelConfig) -> int:
    """The parameters of a layer with its norms."""
    width, projected = config.hidden_size, injection_size(config)
    if isinstance(config, Mamba2Layers):
        inner = config.expand * width
        heads, channels = inner // config.head_dim, inner + 2 * config.n_groups * config.state_size
        convolution = channels * (config.conv_kernel + 1)
        return width * (projected + inner + 1) + convolution + 3 * heads + inner
    assert isinstance(config, LlamaLayers)
    return width * (projected + width + 3 * config.intermediate_size + 2)
