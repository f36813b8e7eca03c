"""Configurations of the language models, in the terms of `transformers`, with how fixed points are sought."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, get_args

from transformers import GenerationConfig, PreTrainedConfig

from automata.checks import check_integer, check_number, shown
from automata.errors import InputError, unknown_name, warn_caller
from implicit.fixed_point.solvers import check_damping
from implicit.modes import MODES

EPSILONS = ("rms_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")
STEP_LIMITS = ("time_step_limit", "dt_limit")
FIXED: dict[str, Any] = {
    **dict.fromkeys(EPSILONS, 1e-5),
    **dict.fromkeys(STEP_LIMITS, (0.0, math.inf)),
    **dict.fromkeys(("use_bias", "attention_bias", "mlp_bias"), False),
    **dict.fromkeys(("use_conv_bias", "rms_norm"), True),
    **dict.fromkeys(("rope_scaling", "sliding_window", "per_layer_config", "no_rope_layers"), None),
    **dict.fromkeys(("final_logit_softcapping", "attn_logit_softcapping"), None),
    **dict.fromkeys(("logit_scale", "logits_scaling", "residual_multiplier", "embedding_multiplier"), 1.0),
    **dict.fromkeys(("attention_dropout", "resid_pdrop", "embd_pdrop", "attn_pdrop"), 0.0),
    **dict.fromkeys(("D_has_hdim", "norm_before_gate"), False),
    **dict.fromkeys(("hidden_act", "activation"), "silu"),
    "partial_rotary_factor": 1.0,
    "attn_layer_idx": (),
    "attn_cfg": {},
    "rmsnorm": True,
    "layer": "Mamba2",
}
"""Choices of other configurations that all layers here make alike, by the names elsewhere."""
INITIAL: dict[str, Any] = {
    **dict.fromkeys(("time_step_min", "dt_min"), 1e-3),
    **dict.fromkeys(("time_step_max", "dt_max"), 0.1),
    **dict.fromkeys(("time_step_floor", "dt_init_floor"), 1e-4),
    "A_init_range": (1, 16),
    "conv_init": None,
}
"""Likewise, what decides of initial weights alone."""
ELSEWHERE = {
    **dict.fromkeys(("d_model", "n_embd"), "hidden_size"),
    **dict.fromkeys(("n_layer", "n_layers"), "num_hidden_layers"),
    **dict.fromkeys(("n_head", "n_heads"), "num_attention_heads"),
    **dict.fromkeys(("d_intermediate", "n_inner"), "intermediate_size"),
    "tie_embeddings": "tie_word_embeddings",
    "d_state": "state_size",
    "headdim": "head_dim",
    "d_conv": "conv_kernel",
    "ngroups": "n_groups",
    "bias": "use_bias",
    "conv_bias": "use_conv_bias",
    "dt_limit": "time_step_limit",
}
"""Names of mamba_ssm and GPT-2, and the same in `transformers`."""
UNREAD = frozenset(
    [
        "chunk_size",
        "fused_add_norm",
        "head_dim",
        "layer_types",
        "max_position_embeddings",
        "model_type",
        "n_positions",
        "num_heads",
        "num_labels",
        "pretraining_tp",
        "rescale_prenorm_residual",
        "residual_in_fp32",
        "rope_theta",
        "time_step_rank",
        "use_associative_scan",
        "use_mambapy",
        "use_mem_eff_path",
    ]
)
"""Names elsewhere that change no value here, or are compared with the sizes."""
OF_TRANSFORMERS = frozenset(
    [
        "attn_implementation",
        "auto_map",
        "experts_implementation",
        "is_decoder",
        "name_or_path",
        "output_attentions",
        "quantization_config",
        "tie_encoder_decoder",
        "torch_dtype",
        "torchscript",
        "use_return_dict",
    ]
) | frozenset(GenerationConfig._get_default_generation_params())
"""Names that `transformers` reads itself."""
Unconverged = Literal["warn", "raise", "ignore"]
"""The response to a token without a fixed point within the limit."""


class LanguageModelConfig(PreTrainedConfig):
    """The configuration that all four language models share; InputError if a number is out of its range.

    All layers of an implicit model lie inside one fixed point, whose latent has ``hidden_size`` features.
    ``initializer_range`` is the standard deviation of the initial embedding.
    """

    keys_to_ignore_at_inference: ClassVar[list[str]] = [
        "cache",
        "iterations",
        "residual",
        "status",
        "latents",
    ]

    vocab_size: int = 50_288
    hidden_size: int = 768
    num_hidden_layers: int = 24
    initializer_range: float = 0.02
    use_cache: bool = True
    tie_word_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None

    def __post_init__(self, **others: Any) -> None:
        others = self._renamed(others)
        for name in self.sizes:
            if check_integer(name, getattr(self, name), 1) >= 2**63:
                raise InputError(f"{name} is {shown(getattr(self, name))}; give a number of 64 bits")
        if not check_number("initializer_range", self.initializer_range) >= 0:
            raise InputError(f"initializer_range is {self.initializer_range}; give a number of at least 0")
        fixed = FIXED | INITIAL
        for name in sorted(fixed.keys() & others.keys()):
            value = tuple(others[name]) if isinstance(others[name], list) else others[name]
            value = "silu" if value == "swish" else value  # two names of one function
            if value != fixed[name]:
                raise InputError(f"{name} is {shown(value)}; the layers here have {fixed[name]}, give that")
        for name in others.keys() - fixed.keys() - UNREAD - OF_TRANSFORMERS:
            if not name.startswith("_"):
                kind = type(self).__name__
                warn_caller(
                    f"{shown(name)} is no field of {kind}, and its value changes nothing", UserWarning
                )
        super().__post_init__(**others)

    def _renamed(self, others: dict[str, Any]) -> dict[str, Any]:
        """Enter the fields that are given by a name of mamba_ssm or GPT-2; return what else was given."""
        others = dict(others)
        of_the_mixer = others.pop("ssm_cfg", None) or {}
        if not isinstance(of_the_mixer, Mapping):
            raise InputError(f"ssm_cfg is {shown(of_the_mixer)}; give a mapping, as mamba_ssm has it")
        others |= of_the_mixer
        multiple = check_integer("pad_vocab_size_multiple", others.pop("pad_vocab_size_multiple", 1), 1)
        self.vocab_size += -check_integer("vocab_size", self.vocab_size) % multiple
        declared = self.declared()
        for name in [name for name in others if ELSEWHERE.get(name, name) in (*declared, *FIXED)]:
            value, here = others.pop(name), ELSEWHERE.get(name, name)
            if here not in declared:
                others[here] = value
                continue
            if getattr(self, here) not in (value, getattr(type(self), here)):
                raise InputError(
                    f"{name} is {shown(value)} and {here} {getattr(self, here)}; give one of them"
                )
            setattr(self, here, value)
        if others.get("intermediate_size", others.pop("d_intermediate", 0)):
            raise InputError("d_intermediate is not 0; the layers here have no MLP, give 0")
        return others

    sizes: ClassVar[tuple[str, ...]] = ("vocab_size", "hidden_size", "num_hidden_layers")
    """The fields that hold sizes."""

    @classmethod
    def declared(cls) -> tuple[str, ...]:
        """Return the names of the fields that these classes declare, without those of `transformers` itself.

        Example:
            >>> "hidden_size" in ImplicitMamba2LMConfig.declared(), "id2label" in LlamaLayers.declared()
            (True, False)
        """
        own = [ancestor for ancestor in cls.__mro__ if issubclass(ancestor, LanguageModelConfig)]
        names = {name: None for ancestor in own for name in vars(ancestor).get("__annotations__", {})}
        return tuple(
            name for name in names if name not in ("sizes", "keys_to_ignore_at_inference", "model_type")
        )


class Mamba2Layers(LanguageModelConfig):
    """Sizes of Mamba-2 layers, named as in `transformers`."""

    state_size: int = 128
    head_dim: int = 64
    expand: int = 2
    conv_kernel: int = 4
    n_groups: int = 1

    sizes: ClassVar[tuple[str, ...]] = (
        *LanguageModelConfig.sizes,
        "state_size",
        "head_dim",
        "expand",
        "conv_kernel",
        "n_groups",
    )

    def __post_init__(self, **others: Any) -> None:
        others.pop("layer_types", None)
        super().__post_init__(**others)
        inner = self.expand * self.hidden_size
        heads = others.get("num_heads")
        if heads is not None and heads * self.head_dim != inner:
            raise InputError(f"num_heads is {shown(heads)}; times head_dim it must be {inner}")
        if inner % self.head_dim:
            raise InputError(f"head_dim is {self.head_dim}; it must divide expand * hidden_size = {inner}")
        if inner // self.head_dim % self.n_groups:
            heads = inner // self.head_dim
            raise InputError(f"n_groups is {self.n_groups}; it must divide the number of heads, {heads}")

    @property
    def layer_types(self) -> list[str]:
        """The name of recurrent layers in `transformers`, by which `accelerate` refuses to cut sequences."""
        return ["linear_attention"] * self.num_hidden_layers

    @property
    def layer_sizes(self) -> dict[str, Any]:
        """The same under the names that cells know."""
        return {
            "d_state": self.state_size,
            "head_size": self.head_dim,
            "expand": self.expand,
            "d_conv": self.conv_kernel,
            "groups": self.n_groups,
        }


class LlamaLayers(LanguageModelConfig):
    """Sizes of Llama blocks, named as in `transformers`."""

    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    num_key_value_heads: int | None = None
    intermediate_size: int = 2048
    rope_theta: float = 500_000.0

    sizes: ClassVar[tuple[str, ...]] = (
        *LanguageModelConfig.sizes,
        "num_attention_heads",
        "num_key_value_heads",
        "intermediate_size",
    )

    def __post_init__(self, **others: Any) -> None:
        others = self._renamed(others)
        if self.num_key_value_heads is None:
            self.num_key_value_heads = self.num_attention_heads
        rope = others.pop("rope_parameters", None)
        if rope is not None:
            self.rope_theta = _rope_theta(rope, self.rope_theta, type(self).rope_theta)
        super().__post_init__(**others)
        heads, width = self.num_attention_heads, self.hidden_size
        size = others.get("head_dim")
        if size is not None and size * heads != width:
            raise InputError(f"head_dim is {shown(size)}; it must be hidden_size / heads = {width / heads:g}")
        if width % heads or width // heads % 2:
            raise InputError(
                f"num_attention_heads is {heads}; it must divide hidden_size = {width} into even parts"
            )
        if heads % self.num_key_value_heads:
            raise InputError(
                f"num_key_value_heads is {self.num_key_value_heads}; it must divide {heads} heads"
            )
        if not check_number("rope_theta", self.rope_theta) > 0:
            raise InputError(f"rope_theta is {self.rope_theta}; give a number above 0")

    @property
    def layer_sizes(self) -> dict[str, Any]:
        """The same under the names that cells know."""
        return {
            "heads": self.num_attention_heads,
            "key_value_heads": self.num_key_value_heads,
            "head_size": self.hidden_size // self.num_attention_heads,
            "mlp_size": self.intermediate_size,
            "rope_base": self.rope_theta,
        }


def _rope_theta(rope: Any, given: float, usual: float) -> float:
    """Return the base of rotary positions; refuse all but the usual ones, alike in all layers."""
    if not isinstance(rope, Mapping) or any(isinstance(part, Mapping) for part in rope.values()):
        raise InputError(
            f"rope_parameters is {shown(rope)}; give one mapping for all layers, such as "
            "{'rope_type': 'default', 'rope_theta': 10000.0}"
        )
    expected = {"rope_type": "default", "type": "default", "partial_rotary_factor": 1.0, "factor": 1.0}
    for name, value in rope.items():
        if name != "rope_theta" and value != expected.get(name):
            raise InputError(f"{name} is {shown(value)}; only 'default' positions are known here")
    theta: float = rope.get("rope_theta", given)
    if given not in (usual, theta):
        raise InputError(f"rope_theta is {given}, and {shown(theta)} in rope_parameters; give one of them")
    return theta


class FixedPoints(LanguageModelConfig):
    """The search for fixed points of an implicit language model.

    ``mode``, ``rtol`` and ``max_iterations`` hold outside of training, as in `implicit.modes.Solve` and
    `Stopping`; ``unconverged`` says what is done there where a token has no fixed point: ``"warn"``,
    ``"raise"`` or ``"ignore"``. In training all tokens have one tolerance together, and
    ``training_max_iterations`` steps without gradient come before the ``phantom_steps`` with it.
    """

    damping: float = 0.8
    rtol: float = 1e-4
    max_iterations: int = 1000
    mode: str = "auto"
    unconverged: str = "warn"
    training_rtol: float = 0.05
    training_max_iterations: int = 24
    phantom_steps: int = 4

    def __post_init__(self, **others: Any) -> None:
        super().__post_init__(**others)
        check_damping(self.damping)
        for name in ("rtol", "training_rtol"):
            if not 0 <= check_number(name, getattr(self, name)) < 1:
                raise InputError(f"{name} is {getattr(self, name)}; give a number from 0 to below 1")
        for name in ("max_iterations", "training_max_iterations", "phantom_steps"):
            check_integer(name, getattr(self, name), 1)
        if self.mode not in MODES:
            raise unknown_name("mode", str(self.mode), MODES)
        if self.unconverged not in get_args(Unconverged):
            raise unknown_name("unconverged", str(self.unconverged), get_args(Unconverged))

    @property
    def solving(self) -> dict[str, Any]:
        """The damping, tolerance and limit under the names that implicit models know."""
        return {"damping": self.damping, "rtol": self.rtol, "max_iterations": self.max_iterations}


class ImplicitMamba2LMConfig(FixedPoints, Mamba2Layers):
    """Configuration of `ImplicitMamba2ForCausalLM`; the defaults are those of 130 million parameters.

    Example:
        >>> config = ImplicitMamba2LMConfig(vocab_size=100, hidden_size=32, num_hidden_layers=2)
        >>> config.model_type, config.damping, config.layer_sizes["d_state"]
        ('implicit_ssm_mamba2', 0.8, 128)
        >>> ImplicitMamba2LMConfig(damping=2)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: damping is 2; give a number above 0 and at most 1
    """

    model_type = "implicit_ssm_mamba2"


class ImplicitLlamaLMConfig(FixedPoints, LlamaLayers):
    """Configuration of `ImplicitLlamaForCausalLM`; the defaults are those of 130 million parameters.

    Example:
        >>> ImplicitLlamaLMConfig(hidden_size=64, num_attention_heads=4).layer_sizes["head_size"]
        16
    """

    model_type = "implicit_ssm_llama"

    training_max_iterations: int = 32

    def __post_init__(self, **others: Any) -> None:
        super().__post_init__(**others)
        if self.mode == "windowed":
            raise InputError("mode is 'windowed', which needs a state of constant size; give another one")


class ExplicitMamba2LMConfig(Mamba2Layers):
    """Configuration of `ExplicitMamba2ForCausalLM`; the defaults are those of 130 million parameters."""

    model_type = "implicit_ssm_explicit_mamba2"


class ExplicitLlamaLMConfig(LlamaLayers):
    """Configuration of `ExplicitLlamaForCausalLM`; the defaults are those of 130 million parameters."""

    model_type = "implicit_ssm_explicit_llama"
