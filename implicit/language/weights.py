"""Weights from elsewhere, under the names of the models here.

| naming        | whose                                                                              |
|---------------|------------------------------------------------------------------------------------|
| ``published`` | Schöne et al. 2025: ``word_emb.emb``, ``backbone.injection``, one for all layers,  |
|               | and matrices of implicit models as a direction ``weight_v`` and, for each of its   |
|               | rows, a length ``weight_g``                                                        |
| ``mamba2``    | `transformers` (``backbone.embeddings``) and mamba_ssm (``backbone.embedding``)    |
| ``llama``     | `transformers`: ``model.embed_tokens``                                             |
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, PreTrainedConfig

from automata.checks import check_type
from automata.errors import InputError, printable, warn_caller
from implicit.language.configuration import (
    ELSEWHERE,
    EPSILONS,
    FIXED,
    STEP_LIMITS,
    LanguageModelConfig,
    LlamaLayers,
    Mamba2Layers,
)
from implicit.language.modeling import LanguageModel
from implicit.models.implicit_model import ImplicitModel

Weights = Mapping[str, Tensor]

_MIXER = r"(conv1d\.weight|conv1d\.bias|in_proj\.weight|dt_bias|A_log|D|norm\.weight|out_proj\.weight)"
_SAME: dict[str, dict[str, str]] = {
    "published": {
        r"word_emb\.emb\.weight": "embedding.weight",
        r"backbone\.injection\.(weight|bias)": r"injections.0.\1",
        r"backbone\.injection_norm\.weight": "embedding_norm.weight",
        r"backbone\.norm_f\.weight": "last_norm.weight",
        r"backbone\.layers\.(\d+)\.norm\.weight": r"mixer_norms.\1.weight",
        r"backbone\.layers\.(\d+)\.norm2\.weight": r"mlps.\1.0.weight",
        r"backbone\.layers\.(\d+)\.mlp\.fc2\.weight": r"mlps.\1.1.out_proj.weight",
        rf"backbone\.layers\.(\d+)\.mixer\.{_MIXER}": r"mixers.\1.\2",
    },
    "mamba2": {
        r"backbone\.embeddings?\.weight": "embedding.weight",
        r"backbone\.norm_f\.weight": "last_norm.weight",
        r"backbone\.layers\.(\d+)\.norm\.weight": r"mixer_norms.\1.weight",
        rf"backbone\.layers\.(\d+)\.mixer\.{_MIXER}": r"mixers.\1.\2",
    },
    "llama": {
        r"model\.embed_tokens\.weight": "embedding.weight",
        r"model\.norm\.weight": "last_norm.weight",
        r"model\.layers\.(\d+)\.input_layernorm\.weight": r"mixer_norms.\1.weight",
        r"model\.layers\.(\d+)\.post_attention_layernorm\.weight": r"mlps.\1.0.weight",
        r"model\.layers\.(\d+)\.self_attn\.o_proj\.weight": r"mixers.\1.out_proj.weight",
        r"model\.layers\.(\d+)\.mlp\.down_proj\.weight": r"mlps.\1.1.out_proj.weight",
    },
}
"""By naming, patterns of their names and ours, of tensors that are taken as they are."""

_STACKED: dict[str, dict[str, tuple[str, tuple[str, ...]]]] = {
    "published": {
        "mixers.{}.in_proj.weight": ("backbone.layers.{}.mixer.{}.weight", ("wq", "wk", "wv")),
        "mlps.{}.1.in_proj.weight": ("backbone.layers.{}.mlp.{}.weight", ("w1", "w3")),
    },
    "mamba2": {},
    "llama": {
        "mixers.{}.in_proj.weight": ("model.layers.{}.self_attn.{}.weight", ("q_proj", "k_proj", "v_proj")),
        "mlps.{}.1.in_proj.weight": ("model.layers.{}.mlp.{}.weight", ("gate_proj", "up_proj")),
    },
}
"""By naming, our matrices whose rows are those of several of theirs, one below the other."""

_DECIDING: dict[type[LanguageModelConfig], dict[str, tuple[str, ...]]] = {
    LlamaLayers: {
        "the epsilon of norms": EPSILONS,
        "the base of positions": ("rope_theta", "rope_parameters"),
    },
    Mamba2Layers: {"the epsilon of norms": EPSILONS, "the limit of time steps": STEP_LIMITS},
}
"""By layers, what weights do not show and decides of the answers, by the names that tell it."""

_HEADS = ("lm_head.weight", "criterion.decoder.weight")
_COMPUTED = re.compile(r".*rotary_emb\.inv_freq")
"""Tensors that follow from the configuration."""


def naming_of(weights: Weights) -> str:
    """Return under which of the namings weights are stored."""
    embeddings = {
        "published": ("word_emb.emb.weight",),
        "mamba2": ("backbone.embeddings.weight", "backbone.embedding.weight"),
        "llama": ("model.embed_tokens.weight",),
    }
    for naming, names in embeddings.items():
        if any(name in weights for name in names):
            return naming
    known = ", ".join(name for names in embeddings.values() for name in names)
    raise InputError(f"the weights hold no embedding under a known name; known: {known}")


def normalised_weights(weights: Weights) -> dict[str, Tensor]:
    """Return weights whose rows are g v / ‖v‖ (Salimans & Kingma 2016, arXiv 1602.07868)."""
    factored = [name for name in weights if name.endswith(("weight_g", "weight_v"))]
    joined = {name: part for name, part in weights.items() if name not in factored}
    for name in factored:
        base = name[:-2]
        for part in (f"{base}_g", f"{base}_v"):
            if part not in weights:
                raise InputError(f"{part} is missing beside {name}; give the whole state dict")
        length, direction = weights[f"{base}_g"], weights[f"{base}_v"]
        if length.numel() != len(direction):
            raise InputError(
                f"{base}_g holds {length.numel()} lengths for {len(direction)} rows; give one for each"
            )
        factors = length.flatten() / direction.flatten(1).norm(dim=1)
        joined[base] = direction * factors.view(-1, *[1] * (direction.ndim - 1))
    return joined


def renamed(weights: Weights, layers: int) -> dict[str, Tensor]:
    """Return weights under the names of a stack here, ``last_norm`` being the norm after its last layer."""
    check_type("weights", weights, Mapping, "give a state dict")
    for name, part in weights.items():
        if not isinstance(part, Tensor) or not part.is_floating_point():
            raise InputError(f"{name} is no tensor of floating-point numbers; give a state dict")
    naming, given = naming_of(weights), normalised_weights(weights)
    for name, part in given.items():
        if not bool(part.isfinite().all()):
            raise InputError(f"{name} holds a number that is not finite; give weights of finite numbers")
    found: dict[str, Tensor] = {}
    for ours, (theirs, parts) in _STACKED[naming].items():
        for layer in range(layers):
            names = [theirs.format(layer, part) for part in parts]
            if any(name in given for name in names):
                found[ours.format(layer)] = torch.cat([_taken(given, name) for name in names])
    for name in list(given):
        for theirs, ours in _SAME[naming].items():
            if re.fullmatch(theirs, name):
                found[re.sub(theirs, ours, name)] = given.pop(name)
                break
    for name in _HEADS:
        if name in given:
            found["lm_head.weight"] = given.pop(name)
    unknown = sorted(name for name in given if not _COMPUTED.fullmatch(name))
    if unknown:
        raise InputError(f"{unknown[0]} is no weight of a model of {layers} layers here; {len(unknown)} such")
    return found


def _taken(given: dict[str, Tensor], name: str) -> Tensor:
    if name not in given:
        raise InputError(f"{name} is missing; give the whole state dict")
    return given.pop(name)


def load_weights(
    model: LanguageModel, weights: Weights, config: PreTrainedConfig | Mapping[str, Any] | None = None
) -> LanguageModel:
    """Give a model weights from elsewhere, in the model's own dtype; return the model itself.

    Explicit weights make of an implicit model a beginning for its training ("upcycling"): the injection is
    then W_in RMSNorm(embedding) with the norm and the matrix of the first layer, so that the cell of that
    layer computes in the first self-iteration, from z = 0, what it does in the explicit model.

    The configuration that the weights were trained with, of `transformers` or from ``config.json``, is
    compared: weights do not tell the epsilon of norms, limits of time steps, activations or scaled positions.
    A warning says where it is needed and not given. InputError if a tensor is missing, unknown, of another
    shape, or not finite, or the configuration is of another model; the model stays as it was.

    Example:
        >>> from transformers import LlamaConfig, LlamaForCausalLM
        >>> from implicit.language import ExplicitLlamaForCausalLM, ExplicitLlamaLMConfig
        >>> sizes = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
        >>> sizes |= {"intermediate_size": 8, "tie_word_embeddings": False}
        >>> rope = {"rope_type": "default", "rope_theta": 10_000.0}
        >>> theirs = LlamaForCausalLM(LlamaConfig(**sizes, rope_parameters=rope, rms_norm_eps=1e-5))
        >>> ours = ExplicitLlamaForCausalLM(ExplicitLlamaLMConfig(**sizes, rope_theta=10_000.0))
        >>> tokens = torch.tensor([[1, 2, 3]])
        >>> torch.allclose(
        ...     load_weights(ours, theirs.state_dict(), theirs.config)(tokens).logits,
        ...     theirs(tokens).logits,
        ...     atol=1e-5,
        ... )
        True
    """
    check_type("model", model, LanguageModel, "give a model of implicit.language")
    stack = model.model
    implicit = isinstance(stack, ImplicitModel)
    found = renamed(weights, model.config.num_hidden_layers)
    told = None
    if config is not None:
        told = _check_config(model.config, config)
    elif naming_of(weights) != "published":
        warn_caller(
            "weights do not tell the epsilon of norms, the limit of time steps and the base of rotary "
            "positions; give their config to load_weights, which compares it",
            UserWarning,
        )
    if implicit and not any(name.startswith("injections.") for name in found):
        found.update(_injection_of_the_first_layer(found))
    head = found.pop("lm_head.weight", None)
    last = "latent_norm" if implicit else "final_norm"
    named = {f"model.{name.replace('last_norm', last, 1)}": part for name, part in found.items()}
    embedding = named["model.embedding.weight"]
    tied = model.config.tie_word_embeddings
    if tied and head is not None and not torch.equal(head, embedding):
        raise InputError(
            "lm_head.weight differs from the embedding; give a model with tie_word_embeddings=False"
        )
    if head is None and not (tied if told is None else told):
        raise InputError("lm_head.weight is missing; give all weights, or the config of tied ones")
    named["lm_head.weight"] = embedding if head is None else head
    own = model.state_dict()
    _check(named, own)
    cast = {name: part.to(own[name]) for name, part in named.items()}
    for name, part in cast.items():
        if not bool(part.isfinite().all()):
            raise InputError(f"{name} is beyond {part.dtype}; give a model of a wider type")
    model.load_state_dict(cast)
    return model


def _check_config(ours: LanguageModelConfig, config: PreTrainedConfig | Mapping[str, Any]) -> bool | None:
    """Refuse the configuration of a model that computes something else of the same weights.

    Returned is whether it ties the head to the embedding, if it says so.
    """
    check_type("config", config, (PreTrainedConfig, Mapping), "give the configuration of the weights")
    if isinstance(config, Mapping):
        config = dict(_with_floats(config))
        kind = config.get("model_type")
        if kind in ("llama", "mistral", "mamba2"):  # what is left out has its defaults
            config = AutoConfig.for_model(**config)
    given = config if isinstance(config, dict) else config.to_dict()
    of_mamba_ssm = given.get("ssm_cfg") or {}
    check_type("ssm_cfg", of_mamba_ssm, Mapping, "give named values, as mamba_ssm stores them")
    given |= of_mamba_ssm
    layers = Mamba2Layers if isinstance(ours, Mamba2Layers) else LlamaLayers
    known = {"llama", "mistral"} if layers is LlamaLayers else {"mamba2"}
    name = given.get("model_type", ours.model_type)
    if name not in (*known, ours.model_type):
        raise InputError(f"config has model_type {name!r}; give weights of {' or '.join(sorted(known))}")
    read = {*layers.declared(), "rope_parameters", "head_dim", *ELSEWHERE, *FIXED}
    told = {name: value for name, value in given.items() if name in read}
    classes = [PreTrainedConfig(), *map(AutoConfig.for_model, known), ours]
    strange = sorted(set(given) - read - {name for each in classes for name in each.to_dict()})
    if strange and "ssm_cfg" not in given:  # whose other names are of the first weights
        named = ", ".join(map(printable, strange))[:200]
        warn_caller(f"config has {named}; what that does to a model is not compared", UserWarning)
    renamed = {ELSEWHERE.get(name, name) for name in told}
    own = {name: getattr(ours, name) for name in layers.declared() if name not in renamed}
    theirs = layers(**own | told)
    base = "rope_theta" in (told.get("rope_parameters") or ())
    decided = {name for name in told if base or name != "rope_parameters"}
    silent = [
        what
        for what, names in _DECIDING[layers].items()
        # mamba_ssm has the defaults that are fixed here
        if not (decided & {*names} or "ssm_cfg" in given or given.get("model_type") == ours.model_type)
    ]
    if silent:
        warn_caller(f"config does not tell {' and '.join(silent)}; what the model has is taken", UserWarning)
    for name, value in theirs.layer_sizes.items():
        if value != ours.layer_sizes[name]:
            raise InputError(f"config has {name} {value}, the model {ours.layer_sizes[name]}; give the same")
    usual = True if "ssm_cfg" in given else None  # of mamba_ssm
    tied: bool | None = given.get("tie_word_embeddings", given.get("tie_embeddings", usual))
    return tied


def _with_floats(stored: Any) -> Any:
    """Read what `transformers` writes for numbers that JSON lacks, such as ``{"__float__": "Infinity"}``."""
    if isinstance(stored, Mapping):
        if stored.keys() == {"__float__"} and stored["__float__"] in ("Infinity", "-Infinity", "NaN"):
            return float(stored["__float__"])
        return {name: _with_floats(part) for name, part in stored.items()}
    if isinstance(stored, list | tuple):
        return type(stored)(map(_with_floats, stored))
    return stored


def _injection_of_the_first_layer(found: dict[str, Tensor]) -> dict[str, Tensor]:
    for name in ("mixers.0.in_proj.weight", "mixer_norms.0.weight"):
        if name not in found:
            raise InputError(f"{name} is missing; give the whole state dict")
    matrix = found["mixers.0.in_proj.weight"]
    return {
        "injections.0.weight": matrix,
        "injections.0.bias": matrix.new_zeros(len(matrix)),
        "embedding_norm.weight": found["mixer_norms.0.weight"],
    }


def _check(named: Weights, own: Weights) -> None:
    """Refuse weights that do not fit."""
    for name in own:
        if name not in named:
            raise InputError(f"{name} is missing; give weights of the same kind and of as many layers")
        if named[name].shape != own[name].shape:
            theirs, ours = tuple(named[name].shape), tuple(own[name].shape)
            raise InputError(f"{name} has shape {theirs}, in the model {ours}; give a model of its sizes")
    for name in named:
        if name not in own:
            raise InputError(f"{name} is in no model of this kind; give one with as many layers")
