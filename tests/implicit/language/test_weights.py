"""Weights from elsewhere: published ones against a loop over the formulas, others against `transformers`."""

import json
import math
import re
from typing import Any, cast

import numpy as np
import pytest
import torch
import transformers
from torch import Tensor

from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.fixed_point import Stopping
from implicit.language import LanguageModel
from implicit.language.weights import load_weights
from implicit.modes import Mode, Solve
from tests.implicit.cells.conftest import silu
from tests.implicit.cells.test_each_cell import mamba2 as mamba2_in_numpy
from tests.implicit.language.small_language_models import MODELS, config_of, small_model, tokens_of

Arrays = dict[str, np.ndarray[Any, np.dtype[np.float64]]]
WIDTH, HEADS, HEAD, STATES, TAPS, INNER, VOCABULARY = 8, 4, 4, 3, 4, 6, 11
"""Sizes of the made-up published models: 4 heads of 4 channels in Mamba-2, 4 heads of 2 in Llama."""
GAIN = 0.35
"""The norm of the rows of matrices, with which the self-map contracts."""


def rms(x: Any, weight: Any) -> Any:
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5) * weight


def published(family: str, layers: int, *, implicit: bool, seed: int = 0) -> dict[str, Tensor]:
    """A state dict as the public code has it; implicit models have directions and lengths of matrices."""
    rng = np.random.default_rng(seed)
    found: dict[str, Tensor] = {}

    def add(name: str, *shape: int) -> None:
        value = torch.from_numpy(rng.normal(size=shape))
        if "norm" in name.split(".")[-2]:
            value = 1 + 0.2 * value
        if implicit and name.startswith("backbone") and len(shape) > 1:
            found[f"{name}_v"] = value
            found[f"{name}_g"] = GAIN * torch.from_numpy(
                0.5 + rng.random((shape[0], *[1] * (len(shape) - 1)))
            )
        else:
            found[name] = value * (GAIN if len(shape) > 1 and name.startswith("backbone") else 1)

    add("word_emb.emb.weight", VOCABULARY, WIDTH)
    channels = HEADS * HEAD + 2 * STATES
    projected = {"mamba2": HEADS * HEAD + channels + HEADS, "llama": 3 * WIDTH}[family]
    for layer in range(layers):
        at = f"backbone.layers.{layer}"
        add(f"{at}.norm.weight", WIDTH)
        if family == "mamba2":
            add(f"{at}.mixer.in_proj.weight", projected, WIDTH)
            add(f"{at}.mixer.conv1d.weight", channels, 1, TAPS)
            add(f"{at}.mixer.conv1d.bias", channels)
            for name in ("dt_bias", "A_log", "D"):
                add(f"{at}.mixer.{name}", HEADS)
            add(f"{at}.mixer.norm.weight", HEADS * HEAD)
            add(f"{at}.mixer.out_proj.weight", WIDTH, HEADS * HEAD)
        else:
            for name in ("wq", "wk", "wv", "out_proj"):
                add(f"{at}.mixer.{name}.weight", WIDTH, WIDTH)
            found[f"{at}.mixer.rotary_emb.inv_freq"] = torch.ones(1)
            add(f"{at}.norm2.weight", WIDTH)
            for name, shape in (("w1", (INNER, WIDTH)), ("w3", (INNER, WIDTH)), ("fc2", (WIDTH, INNER))):
                add(f"{at}.mlp.{name}.weight", *shape)
    add("backbone.norm_f.weight", WIDTH)
    if implicit:
        add("backbone.injection.weight", projected, WIDTH)
        add("backbone.injection.bias", projected)
        add("backbone.injection_norm.weight", WIDTH)
    found["criterion.decoder.weight"] = found["word_emb.emb.weight"]
    return found


def plain(weights: dict[str, Tensor]) -> Arrays:
    """The matrices that directions and lengths stand for."""
    found = {name: part.numpy() for name, part in weights.items()}
    for name in [name for name in found if name.endswith("_v")]:
        direction, length = found.pop(name), found.pop(name.replace("weight_v", "weight_g"))
        norms = np.sqrt((direction.reshape(len(direction), -1) ** 2).sum(1)).reshape(length.shape)
        found[name.removesuffix("_v")] = direction / norms * length
    return found


def mamba2(w: Arrays, at: str, u: Any, injection: Any) -> Any:
    cell = Mamba2Cell(WIDTH, d_state=STATES, head_size=HEAD, d_conv=TAPS).double()
    cell.load_state_dict({name: torch.from_numpy(w[f"{at}.{name}"]) for name in cell.state_dict()})
    return mamba2_in_numpy(cell, {}, u, injection)


def attention(w: Arrays, at: str, u: Any, injection: Any) -> Any:
    """Causal attention with rotary positions, pairs of features (i, i + half), base 500,000."""
    matrix = np.concatenate([w[f"{at}.{name}.weight"] for name in ("wq", "wk", "wv")])
    q, k, v = ((u @ matrix.T + injection).reshape(len(u), 3, HEADS, -1)).transpose(1, 2, 0, 3)
    half = q.shape[-1] // 2
    angle = np.arange(len(u))[:, None] * 500_000.0 ** (-np.arange(half) / half)

    def turned(x: Any) -> Any:
        one, two = x[..., :half], x[..., half:]
        return np.concatenate(
            [one * np.cos(angle) - two * np.sin(angle), two * np.cos(angle) + one * np.sin(angle)], -1
        )

    scores = turned(q) @ turned(k).swapaxes(1, 2) / math.sqrt(2 * half)
    scores[:, *np.triu_indices(len(u), 1)] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    y = (shares / shares.sum(-1, keepdims=True)) @ v
    return y.transpose(1, 0, 2).reshape(len(u), -1) @ w[f"{at}.out_proj.weight"].T


def self_map(w: Arrays, family: str, layers: int, z: Any, injection: Any) -> Any:
    for layer in range(layers):
        at = f"backbone.layers.{layer}"
        mixer = mamba2 if family == "mamba2" else attention
        z = z + mixer(w, f"{at}.mixer", rms(z, w[f"{at}.norm.weight"]), injection)
        if family == "llama":
            u = rms(z, w[f"{at}.norm2.weight"])
            gated = silu(u @ w[f"{at}.mlp.w1.weight"].T) * (u @ w[f"{at}.mlp.w3.weight"].T)
            z = z + gated @ w[f"{at}.mlp.fc2.weight"].T
    return rms(z, w["backbone.norm_f.weight"])


def of_family(family: str, *, implicit: bool, layers: int, **changes: Any) -> Any:
    name = f"{'Implicit' if implicit else 'Explicit'}{family.capitalize()}ForCausalLM"
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": layers}
    sizes |= (
        {"head_dim": HEAD, "state_size": STATES, "conv_kernel": TAPS}
        if family == "mamba2"
        else {"num_attention_heads": HEADS, "num_key_value_heads": HEADS, "intermediate_size": INNER}
    )
    return MODELS[name](config_of(name, **sizes, **changes)).double().eval()


@pytest.mark.parametrize("family", ["mamba2", "llama"])
@torch.no_grad()
def test_published_weights_give_the_fixed_point_of_a_plain_loop(family: str) -> None:
    layers = 2
    weights = published(family, layers, implicit=True)
    w, tokens = plain(weights), np.array([3, 1, 4, 1, 5])
    embedded = rms(w["word_emb.emb.weight"][tokens], w["backbone.injection_norm.weight"])
    injection = embedded @ w["backbone.injection.weight"].T + w["backbone.injection.bias"]
    z = np.zeros((len(tokens), WIDTH))
    for _ in range(5000):
        z, before = 0.2 * z + 0.8 * self_map(w, family, layers, z, injection), z
        if np.abs(z - before).max() < 1e-14:
            break
    assert np.abs(self_map(w, family, layers, z, injection) - z).max() < 1e-12
    model = load_weights(of_family(family, implicit=True, layers=layers), weights)
    for mode in cast("tuple[Mode, ...]", ("simultaneous", "sequential")):
        solve = Solve(mode, stopping=Stopping(rtol=1e-12, max_iterations=5000))
        output = model(torch.from_numpy(tokens)[None], solve=solve, output_latents=True)
        assert bool((output.status == 0).all())
        assert np.abs(output.latents[0].numpy() - z).max() < 1e-8
        expected = z @ w["word_emb.emb.weight"].T
        assert np.abs(output.logits[0].numpy() - expected).max() < 1e-7  # eight products of order one


@pytest.mark.parametrize("family", ["mamba2", "llama"])
@torch.no_grad()
def test_published_explicit_weights_give_the_outputs_of_the_formulas(family: str) -> None:
    weights = published(family, 2, implicit=False)
    w, tokens = plain(weights), np.array([3, 1, 4, 1, 5, 9, 2])
    features = self_map(w, family, 2, w["word_emb.emb.weight"][tokens], 0.0)
    model = load_weights(of_family(family, implicit=False, layers=2), weights)
    logits = model(torch.from_numpy(tokens)[None]).logits[0].numpy()
    assert np.abs(logits - features @ w["word_emb.emb.weight"].T).max() < 1e-12


def theirs_of(family: str, key_value_heads: int = 2) -> tuple[Any, dict[str, Any]]:
    """A model of `transformers`, and the fields of the explicit one of ours that computes the same."""
    torch.manual_seed(1)
    sizes: dict[str, Any] = {"vocab_size": VOCABULARY, "hidden_size": 16, "num_hidden_layers": 2}
    if family == "mamba2":
        given = {**sizes, "head_dim": 8, "state_size": 4, "n_groups": 2, "conv_kernel": 3}
        config = transformers.Mamba2Config(**given, num_heads=4, tie_word_embeddings=True)
        return transformers.Mamba2ForCausalLM(config).eval(), given
    given = {**sizes, "num_attention_heads": 4, "num_key_value_heads": key_value_heads}
    given |= {"intermediate_size": 12}
    rope = {"rope_type": "default", "rope_theta": 500.0}
    config = transformers.LlamaConfig(
        **given, rope_parameters=rope, tie_word_embeddings=False, rms_norm_eps=1e-5
    )
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # at the initial ones attention would hardly count
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model, {**given, "rope_theta": 500.0, "tie_word_embeddings": False}


def ours_of(family: str, sizes: dict[str, Any], kind: str = "Explicit") -> LanguageModel:
    return small_model(f"{kind}{family.capitalize()}ForCausalLM", **sizes)


@pytest.mark.parametrize(
    ("family", "key_value_heads"), [("mamba2", 0), ("llama", 1), ("llama", 2), ("llama", 4)]
)
@torch.no_grad()
def test_weights_of_transformers_give_its_logits_and_its_generation(
    family: str, key_value_heads: int
) -> None:
    theirs, sizes = theirs_of(family, key_value_heads)
    ours = load_weights(ours_of(family, sizes), theirs.state_dict(), theirs.config)
    tokens = tokens_of(2, 9) % VOCABULARY
    expected = theirs(tokens).logits
    # float32: 80 roundings of the largest entry, as for the layers
    atol = 80 * torch.finfo(torch.float32).eps * float(expected.abs().max())
    torch.testing.assert_close(ours(tokens).logits, expected, rtol=0, atol=atol)
    if family == "llama":
        options: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False, "eos_token_id": None}
        options["attention_mask"] = torch.ones_like(tokens)  # token 0 is no padding here
        assert torch.equal(ours.generate(tokens, **options), theirs.generate(tokens, **options))


@pytest.mark.parametrize("family", ["mamba2", "llama"])
@torch.no_grad()
def test_explicit_weights_begin_an_implicit_model(family: str) -> None:
    """From z = 0 the cell of the first layer computes what it does in the explicit model."""
    theirs, sizes = theirs_of(family)
    model, twin = (
        load_weights(ours_of(family, sizes, kind), theirs.state_dict(), theirs.config)
        for kind in ("Implicit", "Explicit")
    )
    stack, tokens = model.model, tokens_of(2, 6) % VOCABULARY
    state = stack.init_state(2)
    first = {part: state[f"{part}.0"] for part in {key.split(".")[0] for key in state}}
    assert stack.embedding_norm is not None
    injection = stack.injections[0](stack.embedding_norm(stack.embedding(tokens)))
    ours, _ = stack.cells[0](torch.zeros(2, 6, 16), first, injection)
    embedded = twin.model.embedding(tokens)
    expected, _ = twin.model.cells[0](twin.model.norms[0](embedded), first)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w.pop("word_emb.emb.weight"), "the weights hold no embedding under a known name"),
        (lambda w: w.pop("backbone.norm_f.weight"), "model.latent_norm.weight is missing"),
        (lambda w: w.pop("backbone.layers.0.mixer.in_proj.weight_g"), "weight_g is missing beside"),
        (lambda w: w.pop("backbone.layers.0.mixer.in_proj.weight_v"), "weight_v is missing beside"),
        (
            lambda w: w.update({"backbone.layers.0.mixer.in_proj.weight_g": torch.ones(3)}),
            "weight_g holds 3 lengths for 42 rows",
        ),
        (
            lambda w: w.update({"backbone.norm_f.weight": torch.ones(8).int()}),
            "is no tensor of floating-point",
        ),
        (lambda w: w.update({"backbone.extra": torch.zeros(1)}), "backbone.extra is no weight of a model"),
        (
            lambda w: w.update({"backbone.norm_f.weight": torch.full((WIDTH,), math.nan)}),
            "backbone.norm_f.weight holds a number that is not finite",
        ),
        (
            lambda w: w.update({"word_emb.emb.weight": torch.zeros(VOCABULARY + 1, WIDTH)}),
            "lm_head.weight differs from the embedding",
        ),
        (
            lambda w: w.update({"backbone.norm_f.weight": torch.zeros(9)}),
            r"has shape \(9,\), in the model \(8,\)",
        ),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(change: Any, sentence: str) -> None:
    weights = published("mamba2", 1, implicit=True)
    change(weights)
    model = of_family("mamba2", implicit=True, layers=1)
    before = {name: part.clone() for name, part in model.state_dict().items()}
    with pytest.raises(InputError, match=sentence):
        load_weights(model, weights)
    assert all(torch.equal(part, before[name]) for name, part in model.state_dict().items())


@pytest.mark.parametrize(
    ("family", "field", "value"),
    [
        ("mamba2", "layer_norm_epsilon", 1e-6),
        ("mamba2", "time_step_limit", (0.0, 0.1)),
        ("mamba2", "n_groups", 1),
        ("mamba2", "ssm_cfg", {"dt_limit": (0.001, 0.1)}),
        ("mamba2", "hidden_act", "gelu"),
        ("llama", "rms_norm_eps", 1e-6),
        ("llama", "final_logit_softcapping", 30.0),
        ("mamba2", "norm_epsilon", 1e-6),
        ("llama", "rope_parameters", {"rope_type": "default", "rope_theta": 5.0}),
        ("llama", "rope_parameters", {"rope_type": "linear", "rope_theta": 10_000.0, "factor": 2.0}),
        ("llama", "rope_parameters", {"type": "linear", "rope_theta": 10_000.0, "factor": 2.0}),
        ("llama", "model_type", "gemma"),
    ],
)
def test_weights_of_a_model_that_computes_something_else_are_refused(
    family: str, field: str, value: Any
) -> None:
    theirs, sizes = theirs_of(family)
    model, config = ours_of(family, sizes), theirs.config.to_dict()
    with pytest.raises(InputError):
        load_weights(model, theirs.state_dict(), {**config, field: value})
    with pytest.warns(UserWarning, match="give their config"):
        load_weights(model, theirs.state_dict())
    with pytest.warns(UserWarning, match="config does not tell the epsilon of norms and the"):
        load_weights(model, theirs.state_dict(), {})
    with pytest.warns(UserWarning, match="config has qk_norm; what that does"):
        load_weights(model, theirs.state_dict(), {**config, "qk_norm": True})


def test_a_written_configuration_is_read_and_what_it_leaves_out_has_the_defaults_of_its_class() -> None:
    """`transformers` writes the limit of time steps, which is infinite, as ``{"__float__": "Infinity"}``."""
    for family, without, sentence in (("llama", "rms_norm_eps", "1e-06"), ("mamba2", None, "(-inf, inf)")):
        theirs, sizes = theirs_of(family)
        model, content = ours_of(family, sizes), json.loads(theirs.config.to_json_string(False))
        load_weights(model, theirs.state_dict(), content)
        if without is None:
            assert content["time_step_limit"] == [0.0, {"__float__": "Infinity"}]
            content["time_step_limit"][0] = {"__float__": "-Infinity"}
        else:
            del content[without]
        with pytest.raises(InputError, match=re.escape(sentence)):
            load_weights(model, theirs.state_dict(), content)


def test_a_head_that_is_missing_is_refused_and_two_names_of_a_function_are_one() -> None:
    theirs, sizes = theirs_of("llama")
    model, config, weights = ours_of("llama", sizes), theirs.config.to_dict(), theirs.state_dict()
    load_weights(model, weights, {**config, "hidden_act": "swish"})
    rope = {"rope_type": "default"}
    silent = {name: part for name, part in config.items() if name not in ("model_type", "rope_theta")}
    with pytest.warns(UserWarning, match="config does not tell the base of positions"):
        load_weights(model, weights, {**silent, "rope_parameters": rope})
    with pytest.raises(InputError, match=r"rope_theta is 5\.0, and 7\.0 in rope_parameters"):
        load_weights(model, weights, {**silent, "rope_theta": 5.0, "rope_parameters": {"rope_theta": 7.0}})
    del weights["lm_head.weight"]
    with pytest.raises(InputError, match=r"lm_head\.weight is missing"):
        load_weights(model, weights, config)


def test_a_model_of_another_depth_is_told() -> None:
    weights = published("mamba2", 2, implicit=True)
    with pytest.raises(InputError, match=r"model.mixers.1.* is in no model of this kind|mixer_norms.1"):
        load_weights(of_family("mamba2", implicit=True, layers=1), weights)
    with pytest.raises(InputError, match="is missing; give weights of the same kind and of as many layers"):
        load_weights(of_family("mamba2", implicit=True, layers=3), weights)


def test_weights_without_a_first_layer_and_beyond_a_type_are_refused() -> None:
    model = of_family("mamba2", implicit=True, layers=1)
    with pytest.raises(InputError, match=r"mixers\.0\.in_proj\.weight is missing"):
        load_weights(model, {"backbone.embeddings.weight": torch.zeros(VOCABULARY, WIDTH)}, model.config)
    weights = published("mamba2", 1, implicit=True)
    weights["backbone.norm_f.weight"] = torch.full((WIDTH,), 1e6)
    with pytest.raises(InputError, match=r"model\.latent_norm\.weight is beyond torch\.float16"):
        load_weights(model.half(), weights)
    nothing: tuple[Any, ...] = ([], {"word_emb.emb.weight": None})
    for given in nothing:
        with pytest.raises(InputError, match="give a state dict"):
            load_weights(model, given)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("family", ["mamba2", "llama"])
def test_norms_in_float16_are_those_of_transformers(family: str, scale: float) -> None:
    theirs, sizes = theirs_of(family)
    with torch.no_grad():
        theirs.get_input_embeddings().weight.mul_(scale)
    ours = load_weights(ours_of(family, sizes), theirs.state_dict(), theirs.config)
    tokens = tokens_of(2, 6) % VOCABULARY
    exact = theirs(tokens).logits.detach()
    ours.half()
    output = ours(tokens, labels=tokens)
    # features of 2e-5 are multiples of 6e-8 in float16: rounded by up to 3e-3, layer by layer
    torch.testing.assert_close(output.logits.float(), exact, rtol=0.0, atol=1e-2 * float(exact.abs().max()))
    output.loss.backward()
    assert all(bool(part.grad.isfinite().all()) for part in ours.parameters() if part.grad is not None)
