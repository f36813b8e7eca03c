"""Implicit language models, at home in `transformers`; whose Auto classes they register with."""

from transformers import AutoConfig as _AutoConfig, AutoModelForCausalLM as _AutoModelForCausalLM

from implicit.language.padding import SequenceState as SequenceState
from implicit.language.configuration import (
    ExplicitLlamaLMConfig as ExplicitLlamaLMConfig,
    ExplicitMamba2LMConfig as ExplicitMamba2LMConfig,
    ImplicitLlamaLMConfig as ImplicitLlamaLMConfig,
    ImplicitMamba2LMConfig as ImplicitMamba2LMConfig,
    LanguageModelConfig as LanguageModelConfig,
)
from implicit.language.evaluation import (
    ModeAgreement as ModeAgreement,
    TextEvaluation as TextEvaluation,
    evaluate_text as evaluate_text,
    mode_agreement as mode_agreement,
)
from implicit.language.modeling import (
    ExplicitLlamaForCausalLM as ExplicitLlamaForCausalLM,
    ExplicitMamba2ForCausalLM as ExplicitMamba2ForCausalLM,
    ImplicitLlamaForCausalLM as ImplicitLlamaForCausalLM,
    ImplicitMamba2ForCausalLM as ImplicitMamba2ForCausalLM,
    LanguageModel as LanguageModel,
    LanguageModelOutput as LanguageModelOutput,
)
from implicit.language.sizes import parameter_count as parameter_count, published_config as published_config
from implicit.language.weights import load_weights as load_weights

for _model in (
    ImplicitMamba2ForCausalLM,
    ImplicitLlamaForCausalLM,
    ExplicitMamba2ForCausalLM,
    ExplicitLlamaForCausalLM,
):
    _AutoConfig.register(_model.config_class.model_type, _model.config_class, exist_ok=True)
    _AutoModelForCausalLM.register(_model.config_class, _model, exist_ok=True)
