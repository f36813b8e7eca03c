"""Language models small enough for tests."""

from typing import Any

import torch

from implicit.fixed_point import Stopping
from implicit.language import (
    ExplicitLlamaForCausalLM,
    ExplicitMamba2ForCausalLM,
    ImplicitLlamaForCausalLM,
    ImplicitMamba2ForCausalLM,
    LanguageModel,
)
from implicit.modes import Solve

MODELS: dict[str, type[LanguageModel]] = {
    model.__name__: model
    for model in (
        ImplicitMamba2ForCausalLM,
        ImplicitLlamaForCausalLM,
        ExplicitMamba2ForCausalLM,
        ExplicitLlamaForCausalLM,
    )
}
IMPLICIT = [name for name in MODELS if name.startswith("Implicit")]
VOCABULARY = 23
PAD, END = 0, 1
TIGHT = Solve("sequential", stopping=Stopping(rtol=1e-11, max_iterations=5000))


def config_of(name: str, **changes: Any) -> Any:
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
    if "Mamba2" in name:
        sizes |= {"head_dim": 8, "state_size": 4, "conv_kernel": 3}
    else:
        sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 12}
    if name in IMPLICIT:
        sizes["rtol"] = 1e-3
    return MODELS[name].config_class(**{**sizes, "pad_token_id": PAD, "eos_token_id": END, **changes})


def small_model(name: str, injection: float = 6.0, **changes: Any) -> LanguageModel:
    """A model in evaluation mode; a strong injection makes fixed points unique, and soon found."""
    torch.manual_seed(0)
    model = MODELS[name](config_of(name, **changes)).eval()
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1 and "norm" in key:
                parameter.add_(0.1 * torch.randn(parameter.shape))
        if name in IMPLICIT:
            model.get_parameter("model.injections.0.weight").mul_(injection)
            model.get_parameter("model.injections.0.bias").normal_()
    return model


def tokens_of(batch: int, length: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(2, VOCABULARY, (batch, length), generator=generator)
