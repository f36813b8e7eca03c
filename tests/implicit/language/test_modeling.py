"""The language models as `transformers` uses them: storage, the loss, initial weights, the account."""

import json
import math
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch.nn import functional
from transformers import AutoConfig, AutoModelForCausalLM

from automata.errors import InputError
from implicit.enclosed.mamba2 import enclosable
from implicit.fixed_point import FixedPointError, NotConvergedWarning
from implicit.runs.files import write_hashes
from tests.implicit.language.small_language_models import (
    IMPLICIT,
    MODELS,
    TIGHT,
    VOCABULARY,
    config_of,
    small_model,
    tokens_of,
)


@pytest.mark.parametrize("name", MODELS)
def test_a_stored_model_is_found_by_its_folder(name: str, tmp_path: Path) -> None:
    model, tokens = small_model(name, damping=0.7) if name in IMPLICIT else small_model(name), tokens_of(2, 5)
    model.save_pretrained(tmp_path)
    assert (tmp_path / "model.safetensors").is_file()
    read = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(read) is MODELS[name]
    assert not read.training
    assert {**read.config.to_dict(), "_name_or_path": ""} == {**model.config.to_dict(), "_name_or_path": ""}
    assert AutoConfig.from_pretrained(tmp_path).model_type == MODELS[name].config_class.model_type
    assert read.lm_head.weight is read.model.embedding.weight
    for key, part in model.state_dict().items():
        assert torch.equal(read.state_dict()[key], part)
    options = {"max_new_tokens": 6, "do_sample": False}
    assert torch.equal(read.generate(tokens, **options), model.generate(tokens, **options))


@pytest.mark.parametrize("shard", ["50GB", "2KB"])
def test_a_model_with_hashes_is_checked_and_stored_anew(shard: str, tmp_path: Path) -> None:
    """As pretraining writes it; also in several files, of which one is no more after a change."""
    small_model(IMPLICIT[0]).save_pretrained(tmp_path, max_shard_size=shard)
    assert not (tmp_path / "sha256.json").exists()
    write_hashes(tmp_path, "*.safetensors")
    model = AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    for size in ("2KB", "50GB", shard):  # shards beside a whole file, which would be read, and back
        model.save_pretrained(tmp_path, max_shard_size=size)
        assert not AutoModelForCausalLM.from_pretrained(tmp_path).lm_head.weight.any()
        small_model(IMPLICIT[0]).save_pretrained(tmp_path, max_shard_size=size, variant="fp16")  # beside it
        assert not AutoModelForCausalLM.from_pretrained(tmp_path).lm_head.weight.any()
    for file in tmp_path.glob("*fp16*"):
        file.unlink()
    weights = max(tmp_path.glob("*.safetensors"))
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    for read in (AutoModelForCausalLM, MODELS[IMPLICIT[0]]):
        with pytest.raises(InputError, match=f"{weights.name} is not as it was written"):
            read.from_pretrained(tmp_path)
    other = tmp_path / "checkpoint-2"  # of somebody else, and gone again
    other.mkdir()
    (other / "model.safetensors").write_bytes(content)
    model.save_pretrained(tmp_path, max_shard_size=shard)
    shutil.rmtree(other)
    assert not AutoModelForCausalLM.from_pretrained(tmp_path).lm_head.weight.any()
    MODELS[IMPLICIT[0]].from_pretrained(None, config=model.config, state_dict=model.state_dict())
    model.save_pretrained(tmp_path)
    assert not AutoModelForCausalLM.from_pretrained(tmp_path).lm_head.weight.any()


@pytest.mark.parametrize("content", ['{"model.safetensors": "0123"}', '{"files": ["a"]}', "[1]"])
def test_a_users_own_file_of_hashes_stays(content: str, tmp_path: Path) -> None:
    model = small_model(IMPLICIT[0])
    (tmp_path / "sha256.json").write_text(content)
    model.save_pretrained(tmp_path)
    AutoModelForCausalLM.from_pretrained(tmp_path)
    assert (tmp_path / "sha256.json").read_text() == content
    with pytest.raises(InputError, match=r"sha256.json holds something else than the hashes of .*; move it"):
        write_hashes(tmp_path, "*.safetensors")
    assert (tmp_path / "sha256.json").read_text() == content


@pytest.mark.parametrize("content", [b"", b"0123  model.safetensors\n", b"\xff", b"{"])
def test_hashes_that_are_no_json_are_refused_and_left(content: bytes, tmp_path: Path) -> None:
    """A damaged file of ours is no reason to trust the weights; that of a user says how to go on."""
    model, file = small_model(IMPLICIT[0]), tmp_path / "sha256.json"
    model.save_pretrained(tmp_path)
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"is not valid JSON .*; restore it, or delete it if"):
        AutoModelForCausalLM.from_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"is not valid JSON .*; move it away"):
        write_hashes(tmp_path, "*.safetensors")
    model.save_pretrained(tmp_path)
    assert file.read_bytes() == content


DAMAGES: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "NaN": (lambda weight: weight * torch.nan, "holds NaN or infinity; restore it"),
    "infinity": (lambda weight: weight / 0, "holds NaN or infinity; restore it"),
    "integers": (lambda weight: weight.long(), "is torch.int64; restore it"),
    "truth values": (lambda weight: weight > 0, "is torch.bool; restore it"),
    "complex numbers": (lambda weight: weight + 1j, "is torch.complex64; restore it"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_weights_that_are_no_finite_numbers_are_refused_without_hashes(damage: str, tmp_path: Path) -> None:
    change, sentence = DAMAGES[damage]
    small_model(IMPLICIT[0]).save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    name = next(name for name in weights if "in_proj" in name)
    save_file({**weights, name: change(weights[name])}, tmp_path / "model.safetensors", {"format": "pt"})
    for read in (AutoModelForCausalLM, MODELS[IMPLICIT[0]]):
        with pytest.raises(InputError, match=f"{name.removeprefix('model.')}' .*{sentence}"):
            read.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["config.json", "additional_chat_templates/x.jinja"])
def test_a_file_of_gigabytes_is_refused_unread(name: str, tmp_path: Path) -> None:
    small_model(IMPLICIT[0]).save_pretrained(tmp_path)
    (tmp_path / name).parent.mkdir(exist_ok=True)
    with (tmp_path / name).open("ab") as file:
        file.truncate(2**33)
    with pytest.raises(InputError, match=f"{name} is too large; give a file of at most"):
        MODELS[IMPLICIT[0]].from_pretrained(tmp_path)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by peft
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")  # by torch
@pytest.mark.parametrize("method", ["LoraConfig", "ShiraConfig"])  # which looks at numbers
def test_a_folder_of_an_adapter_is_read_with_the_base_that_it_names(method: str, tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    model, tokens = small_model(IMPLICIT[0]), tokens_of(2, 5)
    model.save_pretrained(tmp_path / "base" / "part")
    adapted = peft.get_peft_model(model, getattr(peft, method)(r=2, target_modules=["out_proj"])).eval()
    adapted.save_pretrained(tmp_path / "adapter" / "part")
    file = tmp_path / "adapter" / "part" / "adapter_config.json"
    named = json.loads(file.read_text("utf-8")) | {"base_model_name_or_path": str(tmp_path / "base")}
    file.write_text(json.dumps(named), "utf-8")
    read = MODELS[IMPLICIT[0]].from_pretrained(tmp_path / "adapter", subfolder="part")
    assert torch.equal(read(tokens).logits, adapted(tokens).logits)


@pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by peft
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("config.json", {"num_labels": 10**8}),
        ("config.json", {"vocab_size": 10**8}),
        ("adapter_config.json", {"r": 10**7}),
    ],
)
@pytest.mark.parametrize("apart", [False, True])
def test_a_folder_that_asks_for_more_than_it_holds_is_refused(
    name: str, fields: dict[str, Any], apart: bool, tmp_path: Path
) -> None:
    """The adapter lies beside its model, or names the folder of one."""
    peft = pytest.importorskip("peft")
    base = tmp_path / "base" if apart else tmp_path
    peft.get_peft_model(
        small_model(IMPLICIT[0]), peft.LoraConfig(r=1, target_modules=["out_proj"])
    ).save_pretrained(tmp_path)
    small_model(IMPLICIT[0]).save_pretrained(base)
    for file, more in (("adapter_config.json", {"base_model_name_or_path": str(base)}), (name, fields)):
        path = (base if file == "config.json" else tmp_path) / file
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | more), "utf-8")
    with pytest.raises(InputError, match=rf"{name} asks for .*restore it"):
        MODELS[IMPLICIT[0]].from_pretrained(tmp_path)


def test_hashes_are_those_of_the_variant_that_is_read(tmp_path: Path) -> None:
    model = small_model(IMPLICIT[0])
    for variant in (None, "fp16"):
        model.save_pretrained(tmp_path, variant=variant)
    write_hashes(tmp_path, "*.safetensors")
    (tmp_path / "model.safetensors").unlink()
    AutoModelForCausalLM.from_pretrained(tmp_path, variant="fp16")
    with pytest.raises(InputError, match=r"model\.safetensors is missing"):
        AutoModelForCausalLM.from_pretrained(tmp_path)
    weights = tmp_path / "model.fp16.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=r"model\.fp16\.safetensors is not as it was written"):
        AutoModelForCausalLM.from_pretrained(tmp_path, variant="fp16")


def test_a_stored_model_of_many_weights_that_no_file_holds(tmp_path: Path) -> None:
    small_model(IMPLICIT[0]).save_pretrained(tmp_path)
    file = tmp_path / "config.json"
    config = json.loads(file.read_text())
    for size in (10**7, 10**13):
        file.write_text(json.dumps({**config, "hidden_size": size}))
        with pytest.raises(InputError, match=r"config\.json asks for .*weights.*; restore it"):
            AutoModelForCausalLM.from_pretrained(tmp_path)
    file.write_text(json.dumps({**config, "tie_word_embeddings": False}))
    AutoModelForCausalLM.from_pretrained(tmp_path)  # with a head that is to be trained


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_is_that_of_the_next_tokens(name: str) -> None:
    model, tokens = small_model(name).double(), tokens_of(2, 6)
    labels = tokens.clone()
    labels[0, 3] = -100
    output = model(tokens, labels=labels)
    targets = labels[:, 1:].flatten()
    logits = output.logits[:, :-1].flatten(0, 1).float()
    expected = functional.cross_entropy(logits, targets, ignore_index=-100)
    assert output.loss.item() == pytest.approx(expected.item(), rel=1e-6)  # in float32, as transformers
    total = model(tokens, labels=labels, num_items_in_batch=1).loss  # a sum in place of a mean
    assert total.item() == pytest.approx(9 * expected.item(), rel=1e-6)
    padded = {"attention_mask": torch.ones_like(tokens), "labels": tokens}
    ignored = model(tokens, **padded, ignore_index=int(tokens[0, 3])).loss
    assert ignored == model(tokens, labels=tokens.masked_fill(tokens == tokens[0, 3], -100)).loss
    assert model(tokens, labels=tokens.to(torch.uint8)).loss == model(tokens, labels=tokens).loss
    assert model(tokens).loss is None


@pytest.mark.parametrize("name", MODELS)
def test_only_the_logits_that_are_wanted_are_computed(name: str) -> None:
    model, tokens = small_model(name), tokens_of(2, 6)
    whole = model(tokens).logits
    assert torch.equal(model(tokens, logits_to_keep=2).logits, whole[:, -2:])
    places = torch.tensor([0, 3])
    assert torch.equal(model(tokens, logits_to_keep=places).logits, whole[:, places])
    assert isinstance(model(tokens, return_dict=False), tuple)
    assert model(tokens, output_latents=True).latents.shape == (2, 6, 16)


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_has_a_gradient_and_checkpointing_the_same(name: str) -> None:
    model, tokens, gradients = small_model(name).train(), tokens_of(2, 8), []
    for checkpointing in (False, True):
        if checkpointing:
            model.activation_checkpointing_enable()
        model.zero_grad()
        output = model(tokens, labels=tokens)
        assert output.cache is None
        output.loss.backward()
        gradients.append([parameter.grad.clone() for parameter in model.parameters()])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)  # float32, another order of sums


@pytest.mark.parametrize("name", IMPLICIT)
def test_the_output_gives_an_account_of_every_token(name: str) -> None:
    model, tokens = small_model(name), tokens_of(2, 5)
    output = model(tokens)
    assert output.iterations.shape == output.residual.shape == output.status.shape == (2, 5)
    assert bool((output.status == 0).all())
    assert int(output.iterations.min()) > 1
    exact = model.double()(tokens, solve=TIGHT)
    assert int(exact.iterations.min()) > int(output.iterations.min())
    assert float(exact.residual.max()) < 1e-9
    # an explicit one has nothing to tell
    twin = small_model(name.replace("Implicit", "Explicit"))(tokens)
    assert (twin.iterations, twin.residual, twin.status) == (None, None, None)


@pytest.mark.parametrize("name", IMPLICIT)
def test_an_unconverged_token_is_told_of_as_configured(name: str) -> None:
    tokens = tokens_of(1, 4)
    with pytest.warns(NotConvergedWarning, match="outputs without a fixed point at 4 of 4 tokens"):
        output = small_model(name, max_iterations=1)(tokens)
    assert bool((output.status == 1).all())
    with pytest.raises(FixedPointError, match="no fixed point at 4 of 4 tokens"):
        small_model(name, max_iterations=1, unconverged="raise")(tokens)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quiet = small_model(name, max_iterations=1, unconverged="ignore")(tokens)
    assert torch.equal(quiet.logits, output.logits)


@pytest.mark.parametrize("name", MODELS)
def test_the_vocabulary_can_grow(name: str) -> None:
    model = small_model(name)
    model.resize_token_embeddings(VOCABULARY + 3)
    assert model.lm_head.weight is model.model.embedding.weight
    assert model(torch.tensor([[VOCABULARY + 2, 2]])).logits.shape == (1, 2, VOCABULARY + 3)


def test_what_transformers_has_of_attention_is_taken_or_said_not_to_be() -> None:
    with pytest.warns(UserWarning, match="output_attentions is True"):
        small_model("ExplicitLlamaForCausalLM")(tokens_of(1, 2), output_attentions=True)
    rope = {"rope_type": "default", "rope_theta": 10.0}
    assert config_of("ExplicitLlamaForCausalLM", rope_parameters=rope).rope_theta == 10.0


@pytest.mark.parametrize("name", MODELS)
def test_initial_weights_are_drawn_by_module_and_by_seed(name: str) -> None:
    models = []
    for _ in range(2):
        torch.manual_seed(5)
        models.append(MODELS[name](config_of(name, hidden_size=64, num_hidden_layers=4, vocab_size=500)))
    model, again = models
    assert all(map(torch.equal, model.parameters(), again.parameters()))
    assert float(model.model.embedding.weight.detach().std()) == pytest.approx(0.02, rel=0.05)
    branches = 4 * (1 if "Mamba2" in name else 2)
    for layer in range(4):
        matrix = model.get_parameter(f"model.mixers.{layer}.out_proj.weight")
        bound = 1 / math.sqrt(matrix.shape[1] * branches)
        assert 0.95 * bound < float(matrix.detach().abs().max()) <= bound
    assert float(model.get_parameter("model.mixers.0.in_proj.weight").detach().abs().max()) <= 1 / 64**0.5


TWO = torch.tensor([[2, 3]])
BAD_CALLS: list[tuple[dict[str, Any], str]] = [
    ({"input_ids": torch.tensor([[VOCABULARY]])}, "is outside the vocabulary"),
    ({"input_ids": None}, "input_ids is None; give tokens"),
    ({"inputs_embeds": torch.zeros(1, 1, 16)}, "input_ids is None; give tokens"),
    ({"input_ids": TWO, "attention_mask": torch.ones(1, 3)}, r"attention_mask has shape \(1, 3\); give one"),
    ({"input_ids": TWO, "attention_mask": torch.tensor([[0.0, -math.inf]])}, "attention_mask holds other"),
    ({"input_ids": TWO, "attention_mask": [[1, 1]]}, "attention_mask is .*; give a tensor"),
    ({"input_ids": TWO, "attention_mask": torch.zeros(1, 2)}, "attention_mask has no real token in sequence"),
    ({"input_ids": TWO, "lables": TWO}, "argument 'lables' is unknown"),
    ({"input_ids": TWO, "cache": ()}, "cache is .*; give the cache"),
    ({"input_ids": TWO, "labels": torch.tensor([[2]])}, r"labels has shape \(1, 1\)"),
    ({"input_ids": TWO, "labels": torch.tensor([[2, 99]])}, "labels holds 99; give tokens"),
    ({"input_ids": TWO, "labels": torch.tensor([[2.7, 1.0]])}, r"labels is torch\.float32; give the numbers"),
    ({"input_ids": TWO, "labels": TWO.bool()}, r"labels is torch\.bool; give the numbers of tokens"),
    ({"input_ids": TWO, "labels": TWO, "logits_to_keep": 1}, "leave logits_to_keep out"),
]


@pytest.mark.parametrize("name", ["ImplicitMamba2ForCausalLM", "ExplicitLlamaForCausalLM"])
def test_bad_input_is_one_sentence(name: str) -> None:
    model = small_model(name)
    for call, sentence in BAD_CALLS:
        with pytest.raises(InputError, match=sentence):
            model(**call)


BAD_FIELDS: list[dict[str, Any]] = [
    {"damping": 0, "rtol": -1, "mode": "parallel", "time_step_limit": [0.0, 0.1]},
    {"unconverged": "stop", "phantom_steps": 0, "mode": "windowed"},
    {"state_size": 0, "head_dim": 5, "n_groups": 3, "initializer_range": -1},
    {"num_attention_heads": 3, "num_key_value_heads": 3, "rms_norm_eps": 1e-6, "hidden_act": "gelu"},
]


@pytest.mark.parametrize(("name", "fields"), list(zip(MODELS, BAD_FIELDS, strict=True)))
def test_bad_configurations_are_refused(name: str, fields: dict[str, Any]) -> None:
    for field, value in fields.items():
        with pytest.raises(InputError, match=rf"^{field} "):
            config_of(name, **{field: value})


@pytest.mark.parametrize("name", IMPLICIT)
def test_training_takes_as_many_steps_as_configured_and_then_those_with_gradient(name: str) -> None:
    model = small_model(name, training_rtol=0, training_max_iterations=3, phantom_steps=2).train()
    evaluations: list[bool] = []
    assert model.model.latent_norm is not None
    model.model.latent_norm.register_forward_hook(lambda *_: evaluations.append(torch.is_grad_enabled()))
    model(tokens_of(1, 4))
    # 3 and 2 steps and what measures the residual, then the gradient of the last 2
    assert evaluations == [False] * (3 + 2 + 1) + [True] * 2


@pytest.mark.parametrize("name", MODELS)
@torch.no_grad()
def test_the_streams_are_those_of_the_layers(name: str) -> None:
    model, tokens = small_model(name).double(), tokens_of(2, 6)
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    found = model(tokens, attention_mask=mask, output_hidden_states=True, output_latents=True)
    stack, streams = model.model, found.hidden_states
    assert torch.equal(streams[-1], found.latents)
    expected = stack.embedding(tokens[1:, 2:]) if found.status is None else found.latents[1:, 2:]
    assert torch.equal(streams[0][1:, 2:], expected)
    injections = [None, None] if found.status is None else stack._inject(tokens[1:, 2:])
    after = stack.sweep(expected, injections, stack.init_state(1))[0]
    norm = stack.final_norm if found.status is None else stack.latent_norm
    # a relative tolerance of 0.001 is between z and its image
    torch.testing.assert_close(
        norm(after), streams[-1][1:, 2:], rtol=0, atol=1e-10 if found.status is None else 0.01
    )
    assert len(streams) == 3
    assert bool((streams[1][1, :2] == 0).all())
    options = {"max_new_tokens": 2, "return_dict_in_generate": True, "output_hidden_states": True}
    assert len(model.generate(tokens, do_sample=False, **options).hidden_states[0]) == 3
    model.config.output_hidden_states = True
    assert len(model(tokens).hidden_states) == 3


def test_theorem_1_is_asked_of_the_stack_inside() -> None:
    stack = small_model("ImplicitMamba2ForCausalLM").double().model
    tokens = torch.tensor([[5, 7, 3]])
    states = stack.states(tokens)
    output = stack.run(tokens, solve=TIGHT)
    before = {name: part[0, 2] for name, part in states.items()}
    transition = stack.transition(3)
    # the default tolerance of the states before, and the tight one of the latent
    image = transition.self_map(output.logits[0, 2], before)
    assert float((image - output.logits[0, 2]).detach().abs().max()) < 1e-2
    with pytest.raises(InputError, match="with injections that layers share or that have a bias"):
        enclosable(stack)


@pytest.mark.parametrize(("name", "inside"), list(zip(MODELS, (True, False, False, True), strict=True)))
def test_bfloat16_autocast_has_nearly_the_same_gradient_and_answer(name: str, inside: bool) -> None:
    tokens = tokens_of(2, 40)
    gradients: list[torch.Tensor] = []
    for enabled in (True, False):
        model = small_model(name).train()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            loss = model(tokens, labels=tokens).loss
            if inside:
                loss.backward()
        if not inside:
            loss.backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    # bfloat16 has 8 bits: directions agree to some 1%
    assert float(torch.cosine_similarity(gradients[0], gradients[1], dim=0)) > 0.99
    model = small_model(name, injection=3.0, **({"rtol": 0.02} if name in IMPLICIT else {}))
    exact = model(tokens[:, :12]).logits.detach()
    for grad in (True, False):
        with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(grad):
            found = model(tokens[:, :12]).logits.detach()
        assert float((found - exact).abs().max()) < 0.1 * float(exact.abs().max())


@pytest.mark.parametrize("autocast", [True, False])
@torch.no_grad()
def test_evaluation_in_bfloat16_raises_a_tolerance_out_of_reach_and_says_so(autocast: bool) -> None:
    model = small_model("ImplicitMamba2ForCausalLM")  # to 1e-3, and without a fixed point it would warn
    if not autocast:
        model.bfloat16()
    with (
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
        pytest.warns(UserWarning, match=r"rtol is 0\.001, which bfloat16 cannot resolve; 0\.02 is taken"),
    ):
        output = model(tokens_of(4, 32))
    assert bool((output.status == 0).all())
    assert int(output.iterations.max()) < 100


def test_packed_documents_in_half_precision_warn_once() -> None:
    model = small_model("ImplicitLlamaForCausalLM").to(torch.bfloat16)
    places = torch.tensor([[0, 1, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1]])
    with pytest.warns(UserWarning, match="bfloat16 cannot resolve") as told:
        model(tokens_of(1, 12), position_ids=places)
    assert len(told) == 1
