"""Other libraries: the labels that `Trainer` shifts and counts, and adapters of `peft`.

`peft` and what trains are imported where they are used: it takes seconds, and every process collects all.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import big_modeling
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch import nn
from torch.nn import functional
from transformers import (
    DataCollatorForLanguageModeling,
    DataCollatorForSeq2Seq,
    DataCollatorWithFlattening,
    PreTrainedTokenizerFast,
)

from automata.errors import InputError
from implicit.language import ExplicitLlamaForCausalLM, ExplicitMamba2ForCausalLM
from tests.implicit.language.small_language_models import MODELS, config_of, small_model, tokens_of


class OfAUser(ExplicitMamba2ForCausalLM):
    pass


def assert_smoothed(model: Any, trained: Any, folder: Path) -> None:
    from transformers import Trainer, TrainingArguments

    options: dict[str, Any] = {"use_cpu": True, "report_to": [], "label_smoothing_factor": 0.1}
    trainer, tokens = Trainer(model, TrainingArguments(str(folder), **options)), tokens_of(2, 6)
    logits = model(tokens).logits[:, :-1].transpose(1, 2)
    expected = functional.cross_entropy(logits, tokens[:, 1:], label_smoothing=0.1)
    found = trainer.compute_loss(trained, {"input_ids": tokens, "labels": tokens.clone()})
    assert isinstance(found, torch.Tensor)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", [*MODELS, "OfAUser"])
def test_label_smoothing_is_of_the_next_token(name: str, tmp_path: Path) -> None:
    model = small_model(name) if name in MODELS else OfAUser(config_of("ExplicitMamba2ForCausalLM")).eval()
    assert_smoothed(model, model, tmp_path)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
def test_label_smoothing_of_a_compiled_model_is_of_the_next_token(tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    model = small_model("ExplicitMamba2ForCausalLM")
    lora = LoraConfig(target_modules="all-linear")
    for whole in (model, get_peft_model(small_model("ExplicitMamba2ForCausalLM"), lora)):
        wrapper: Any = torch.compile(whole, backend="eager")
        assert wrapper._get_name() == "ExplicitMamba2ForCausalLM"
    other: Any = torch.compile(nn.Linear(2, 2), backend="eager")
    assert other._get_name() == "OptimizedModule"
    compiled: Any = torch.compile(model, backend="eager")
    compiled.forward = model.forward  # the name is what is tested, and not the compiler
    assert_smoothed(model, compiled, tmp_path)


@pytest.mark.parametrize(
    "cut",
    [
        big_modeling._refuse_recurrent_layers_under_sequence_parallelism,
        big_modeling._attach_context_parallel_hooks,
    ],
)
def test_accelerate_knows_recurrent_layers_and_refuses_to_cut_sequences(cut: Any) -> None:
    with pytest.raises(ValueError, match="does not support attention layers of type"):
        cut(small_model("ImplicitMamba2ForCausalLM"))


TOKENIZER = PreTrainedTokenizerFast(
    tokenizer_object=Tokenizer(WordLevel({"<pad>": 0, "<end>": 1}, "<end>")), pad_token="<pad>"
)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "collate",
    [
        DataCollatorForLanguageModeling(TOKENIZER, mlm=False),
        DataCollatorForSeq2Seq(TOKENIZER),
        DataCollatorWithFlattening(),
    ],
    ids=lambda collate: type(collate).__name__,
)
def test_labels_that_are_counted_are_those_of_the_loss(
    collate: Any, side: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import Trainer, TrainingArguments

    model = small_model("ExplicitMamba2ForCausalLM")
    monkeypatch.setattr(TOKENIZER, "padding_side", side)
    trainer = Trainer(model, TrainingArguments(str(tmp_path), use_cpu=True, report_to=[]))
    rows = [tokens_of(1, length)[0].tolist() for length in (4, 20)]
    keys = ["input_ids", "labels"] if isinstance(collate, DataCollatorForSeq2Seq) else ["input_ids"]
    batch = collate([dict.fromkeys(keys, row) for row in rows])
    count = trainer._get_num_items_in_batch([batch], torch.device("cpu"))
    assert count is not None
    found = model(**batch, num_items_in_batch=count).loss
    padded = side == "left" and "attention_mask" in batch  # the first token behind it is counted
    assert int(count) == 22 + padded
    torch.testing.assert_close(found * count / 22, model(**batch).loss)
    with pytest.raises(InputError, match=r"labels holds .* num_items_in_batch counts .*; give -100 there"):
        model(**{**batch, "labels": batch["input_ids"]}, num_items_in_batch=count)


def test_arguments_of_save_pretrained_may_go_by_position(tmp_path: Path) -> None:
    model = small_model("ExplicitLlamaForCausalLM")
    changed = {name: part + 1 if "final_norm" in name else part for name, part in model.state_dict().items()}
    model.save_pretrained(tmp_path, True, changed)
    again = ExplicitLlamaForCausalLM.from_pretrained(tmp_path).state_dict()
    assert all(torch.equal(again[name], part) for name, part in changed.items())


@pytest.mark.parametrize("name", MODELS)
def test_a_part_on_the_disk_is_refused_in_a_sentence(name: str, tmp_path: Path) -> None:
    small_model(name).save_pretrained(tmp_path)
    for places in ({"model": "disk", "lm_head": "cpu"}, {"model": "cpu", "lm_head": "disk"}):
        with pytest.raises(InputError, match=r"weights lie on the disk or elsewhere|model has hooks"):
            MODELS[name].from_pretrained(tmp_path, device_map=places)(tokens_of(1, 3))


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
@pytest.mark.parametrize("name", MODELS)
def test_adapters_of_peft_are_applied_trained_and_merged(name: str) -> None:
    from peft import LoraConfig, get_peft_model

    torch.manual_seed(0)
    adapted = get_peft_model(
        small_model(name), LoraConfig(target_modules="all-linear", init_lora_weights=False)
    )
    tokens = tokens_of(2, 6)
    logits = adapted(tokens).logits
    logits.square().sum().backward()
    gradients = {name: part.grad for name, part in adapted.named_parameters() if "lora" in name}
    assert gradients
    assert [name for name, gradient in gradients.items() if gradient is None or not gradient.any()] == []
    merged = adapted.merge_and_unload()
    # single precision: the weights are added in another order
    torch.testing.assert_close(merged(tokens).logits, logits, rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")  # peft asks for it
@pytest.mark.filterwarnings("ignore:Model with `tie_word_embeddings:UserWarning")
@pytest.mark.filterwarnings("ignore:Setting `save_embedding_layers`:UserWarning")
@pytest.mark.parametrize("targets", [["embedding"], ["embedding", "lm_head"]], ids=str)
def test_tied_adapters_of_the_embedding_stay_tied_in_a_file(targets: list[str], tmp_path: Path) -> None:
    from peft import LoraConfig, PeftModel, get_peft_model

    torch.manual_seed(0)
    lora = LoraConfig(target_modules=targets, ensure_weight_tying=True, init_lora_weights=False)
    adapted = get_peft_model(small_model("ExplicitMamba2ForCausalLM"), lora)
    adapted.save_pretrained(str(tmp_path))
    again = PeftModel.from_pretrained(small_model("ExplicitMamba2ForCausalLM"), str(tmp_path)).eval()
    tokens = tokens_of(2, 6)
    assert torch.equal(again(tokens).logits, adapted.eval()(tokens).logits)


@pytest.mark.parametrize("name", MODELS)
def test_a_hook_of_the_stack_is_refused_and_those_around_it_fire(name: str) -> None:
    model = small_model(name)
    fired: set[str] = set()
    for part in (model, model.model.get_submodule("mixers.0"), model.lm_head):
        part.register_forward_hook(lambda module, *_: fired.add(type(module).__name__))
    model(tokens_of(1, 3))
    assert len(fired) == 3
    handle = model.model.register_forward_hook(lambda *_: None)
    with pytest.raises(InputError, match="model has hooks, and its stack is run rather than called"):
        model(tokens_of(1, 3))
    handle.remove()
    model(tokens_of(1, 3))
    model.model.forward = model.model.forward  # type: ignore[method-assign]  # as accelerate replaces it
    with pytest.raises(InputError, match="model has hooks"):
        model(tokens_of(1, 3))
