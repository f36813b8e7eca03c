"""Implicit language models, at home in `transformers`; whose Auto classes they register with."""

from transformers import AutoConfig, AutoModelForCausalLM

from implicit.language.padding import SequenceState
from implicit.language.configuration import (
    ExplicitLlamaLMConfig,
    ExplicitMamba2LMConfig,
    ImplicitLlamaLMConfig,
    ImplicitMamba2LMConfig,
    LanguageModelConfig,
)
from implicit.language.evaluation import ModeAgreement, TextEvaluation, evaluate_text, mode_agreement
from implicit.language.modeling import (
    ExplicitLlamaForCausalLM,
    ExplicitMamba2ForCausalLM,
    ImplicitLlamaForCausalLM,
    ImplicitMamba2ForCausalLM,
    LanguageModel,
    LanguageModelOutput,
)
from implicit.language.sizes import parameter_count, published_config
from implicit.language.weights import load_weights

for _model in (
    ImplicitMamba2ForCausalLM,
    ImplicitLlamaForCausalLM,
    ExplicitMamba2ForCausalLM,
    ExplicitLlamaForCausalLM,
):
    AutoConfig.register(_model.config_class.model_type, _model.config_class, exist_ok=True)
    AutoModelForCausalLM.register(_model.config_class, _model, exist_ok=True)

__all__ = [
    "ExplicitLlamaForCausalLM",
    "ExplicitLlamaLMConfig",
    "ExplicitMamba2ForCausalLM",
    "ExplicitMamba2LMConfig",
    "ImplicitLlamaForCausalLM",
    "ImplicitLlamaLMConfig",
    "ImplicitMamba2ForCausalLM",
    "ImplicitMamba2LMConfig",
    "LanguageModel",
    "LanguageModelConfig",
    "LanguageModelOutput",
    "ModeAgreement",
    "SequenceState",
    "TextEvaluation",
    "evaluate_text",
    "load_weights",
    "mode_agreement",
    "parameter_count",
    "published_config",
]
