"""Pretraining on one process: what it learns, reads, measures and refuses."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from torch.nn import functional
from transformers import AutoModelForCausalLM, AutoTokenizer

from automata.errors import InputError
from implicit.language.pretrain import Phase, make_accelerator
from implicit.language.pretrain.__main__ import main
from implicit.language.pretrain.config import Evaluation, Source, read_config
from implicit.language.pretrain.loop import _tokenizer, make_optimizer
from implicit.language.pretrain.tokens import (
    ShuffledWindows,
    byte_tokenizer,
    documents,
    encoded,
    tokenizer_of,
)
from implicit.threads import threads_taken
from tests.implicit.language.pretrain.small_runs import lines_of, small_run, train


@pytest.fixture(autouse=True)
def _no_precision_is_left_behind() -> Iterator[None]:
    yield
    AcceleratorState._reset_state()


@pytest.mark.parametrize(("family", "implicit"), [("mamba2", True), ("llama", False), ("llama", True)])
def test_training_lowers_the_perplexity_and_stores_a_model(
    family: str, implicit: bool, tmp_path: Path
) -> None:
    optimizer = {"learning_rate": 0.01, "warmup_steps": 5}
    config = small_run(tmp_path, family, implicit, steps=20, optimizer=optimizer)
    result = train(config, tmp_path / "run")
    found = [line["perplexity"] for line in lines_of(tmp_path / "run") if "perplexity" in line]
    assert result["perplexity"] == found[-1] < 0.5 * found[0]
    assert (result["steps"], result["tokens"]) == (20, 20 * 8 * 16)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    assert result["parameters"] == sum(parameter.numel() for parameter in model.parameters())
    text = tokenizer("3 plus 4", return_tensors="pt")["input_ids"]
    assert model.generate(text, max_new_tokens=3, do_sample=False, eos_token_id=None).shape == (1, 11)
    if implicit:
        assert (model.config.training_max_iterations, model.config.phantom_steps) == (12, 2)
    assert model.config.eos_token_id == model.config.pad_token_id == tokenizer.eos_token_id == 256
    assert tokenizer.model_max_length == config.length  # of training


def test_a_step_is_that_of_a_plain_loop(tmp_path: Path) -> None:
    config = small_run(
        tmp_path,
        steps=4,
        accumulation=2,
        phases=(
            Phase(share=0.5, iterations=3, phantom_steps=1, rtol=0.0),
            Phase(share=0.5, iterations=6, phantom_steps=2, rtol=0.0),
        ),
        optimizer={"learning_rate": 0.01, "warmup_steps": 2, "gradient_clip": 0.5, "weight_decay": 0.3},
    )
    train(config, tmp_path / "run")
    torch.manual_seed(config.seed)
    tokenizer = byte_tokenizer()
    model: Any = AutoModelForCausalLM.from_config(config.model.build(257)).train()
    tokens, _ = encoded(config.train, tokenizer)
    count = (len(tokens) - 1) // 15
    order = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(0,))).permutation(count)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    plain = [p for p in model.parameters() if p.ndim == 1]
    optimizer = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.3}, {"params": plain, "weight_decay": 0.0}], betas=(0.9, 0.95)
    )
    expected = []
    for step in range(1, 5):
        rate = (
            0.01 * step / 2
            if step <= 2
            else 0.01 * (0.1 + 0.9 * (1 + math.cos(math.pi * (step - 2) / 2)) / 2)
        )
        windows = [
            tokens[15 * place : 15 * place + 16].astype(np.int64) for place in order[8 * step - 8 : 8 * step]
        ]
        batch = torch.from_numpy(np.stack(windows))
        layers = model.model.problem(batch).function
        latent = torch.zeros(8, 16, 16)
        for number in range(4 if step <= 2 else 8):  # 3 + 1 and 6 + 2: without gradient, and with
            with torch.set_grad_enabled(number >= (3 if step <= 2 else 6)):
                latent = 0.2 * latent + 0.8 * layers(latent)
        logits = model.lm_head(latent)[:, :-1].flatten(0, 1)
        loss = functional.cross_entropy(logits, batch[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        optimizer.zero_grad()
        expected.append(float(loss.detach()))
    assert [line["loss"] for line in lines_of(tmp_path / "run")] == pytest.approx(expected, rel=1e-5)
    found = load_file(tmp_path / "run" / "model" / "model.safetensors")
    for name, one in model.state_dict().items():
        if name in found:  # a tied head is stored once
            torch.testing.assert_close(found[name], one, rtol=0, atol=1e-4)


@pytest.mark.filterwarnings("ignore:rtol is 0.01, which bfloat16 cannot resolve:UserWarning")
def test_bfloat16_trains(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=3)
    train(config, tmp_path / "float32")
    AcceleratorState._reset_state()
    train(small_run(tmp_path, steps=3, precision="bf16"), tmp_path / "bf16")
    exact, rounded = ([line["loss"] for line in lines_of(tmp_path / name)] for name in ("float32", "bf16"))
    assert rounded != exact
    assert rounded == pytest.approx(exact, rel=0.02)  # 8 bits


def test_windows_of_a_pass_are_each_read_once_and_every_step_is_a_function_of_its_number() -> None:
    sampler = ShuffledWindows(10, sequences=4, parts=2, seed=3, first_step=1, steps=10)
    batches = list(sampler)
    assert len(batches) == len(sampler) == 20
    read = [place for batch in batches for place in batch]
    assert all(sorted(read[first : first + 10]) == list(range(10)) for first in range(0, 40, 10))
    assert read[:10] != read[10:20]
    later = ShuffledWindows(10, 4, 2, 3, first_step=6, steps=10)
    assert list(later) == batches[10:]
    assert list(ShuffledWindows(10, 4, 2, 4, 1, 10)) != batches


def test_other_algorithms_and_decay(tmp_path: Path) -> None:
    config = small_run(tmp_path, algorithm="SGD", optimizer={"weight_decay": 0.2, "betas": (0.8, 0.9)})
    optimizer = make_optimizer(torch.nn.Linear(2, 2), config)
    assert type(optimizer) is torch.optim.SGD
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.2, 0.0]
    assert optimizer.param_groups[0]["momentum"] == 0.8


YAML = """
model: {{family: mamba2, fields: {{hidden_size: 16, num_hidden_layers: 1, head_dim: 8, state_size: 4}}}}
train: {{files: [{folder}/train.txt]}}
validation: {{files: [{folder}/valid.txt]}}
length: 16
sequences: 4
steps: 2
"""


def test_the_command_trains_on_one_thread_and_says_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_run(tmp_path)
    (tmp_path / "config.yaml").write_text(YAML.format(folder=tmp_path))
    arguments = [str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run"), "--cpu", "--tensorboard"]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    with threads_taken(2):
        main([*arguments, "--set", "evaluation.tokens=100"])
    said = capsys.readouterr()
    assert "128 tokens, " in said.out
    assert said.err.startswith("threads: 1, enough for a small model; --threads takes more\n")
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))
    assert json.loads((tmp_path / "run" / "result.json").read_text())["validation_tokens"] == 90


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["train.files=[nowhere.txt]"], r"nowhere\.txt cannot be read \(No such file or directory\)"),
        (["train.files=[{folder}/empty.txt]"], r"empty\.txt holds no text; give files with some"),
        (["train.files=[{folder}/latin.txt]"], r"latin\.txt is not UTF-8"),
        (["train.files=[{folder}/bad.jsonl]"], r"line 1 of .*bad\.jsonl has no text under 'text'"),
        (["train.files=[{folder}/large.npy]"], r"large\.npy holds tokens from 0 to 999; the tokenizer has 0"),
        (["train.dataset=x"], "a source names files and a dataset; give one of them"),
        (["length=100000"], r"length is 100000 and the training text has \d+ tokens; give a smaller length"),
        (["tokenizer=nowhere/tokenizer.json"], r"tokenizer 'nowhere/tokenizer\.json' cannot be read"),
        (["tokenizer=100"], "tokenizer is 100; give at least 257 tokens"),
        (["model.fields.hidden_sise=3"], "unknown; did you mean 'model.fields.hidden_size'"),
        (["model.fields.vocab_size=3"], "vocab_size is 3 and the tokenizer has 257 tokens"),
        (["model.size=2b"], "size '2b' is unknown"),
        (["sequences=5", "accumulation=2"], "accumulation is 2; it must divide sequences = 5"),
        (["phases=[{{share: 0.5, iterations: 4}}]"], "the shares of phases sum to 0.5; give shares that sum"),
        (["stepz=3"], "field 'stepz' is unknown; did you mean 'steps'"),
        (["model.fields.vocab_size=abc"], "vocab_size is 'abc'"),
        (["model.fields.implicit=false"], "field 'model.fields.implicit' is unknown"),
        (["model.fields.dtype=float16"], "field 'model.fields.dtype' is unknown"),
        (['model.fields.tie_word_embeddings="no"'], "tie_word_embeddings is 'no'; give true or false"),
        (["train.files=[{folder}/surrogate.jsonl]"], r"line 1 of .*surrogate\.jsonl has no text"),
        (["train.files=[{folder}/deep.jsonl]"], r"line 1 of .*deep\.jsonl has no text"),
        (["train.files=[{folder}/empty.npy]"], r"empty\.npy cannot be read"),
        (["train.files=[{folder}/zip.npy]"], r"zip\.npy cannot be read"),
        (["train.files=[{folder}/header.npy]"], r"header\.npy cannot be read"),
        (["train.files=[{folder}/several.npy]"], r"several\.npy cannot be read"),
        (["train.files=[{folder}/large.npy]", "tokenizer=300"], "tokenizer is 300, and train"),
        (["evaluation.tokens=3"], r"length is 16 and validation \(evaluation.tokens of it\) has 3 tokens"),
        (["optimizer.average_steps=10"], "average_steps is 10"),
        (["steps"], "--set steps has no '='"),
        (["train.files=[{folder}/pipe.txt]"], r"pipe\.txt is not a regular file"),
        (["validation.files=[{folder}/pipe.jsonl]"], r"pipe\.jsonl is not a regular file"),
        (["train.files=[{folder}/pipe.npy]"], r"pipe\.npy is not a regular file"),
        (["train.files=[/dev/zero]"], "/dev/zero is not a regular file"),
        (["tokenizer=1000000000000"], "a tokenizer of 1000000000000 tokens needs at least"),
        (["model.fields.hidden_size=1000000000"], "the model in float32 needs at least"),
        (["sequences=1000000000000"], "a part of a step, of 16000000000000 tokens, needs at least"),
        (["steps=" + "9" * 400], "steps is 999.*it should be less than or equal to"),
        (["steps=!!bool x"], "has a value that is no YAML"),
        (["steps=!!int ''"], "has a value that is no YAML"),
    ],
)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    changes: list[str], sentence: str, tmp_path: Path
) -> None:
    small_run(tmp_path)
    (tmp_path / "config.yaml").write_text(YAML.format(folder=tmp_path))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "latin.txt").write_bytes(b"\xe9\xe8")
    (tmp_path / "bad.jsonl").write_text('{"other": 1}\n')
    np.save(tmp_path / "large.npy", np.arange(1000))
    (tmp_path / "surrogate.jsonl").write_text('{"text": "\\ud83d"}\n')
    (tmp_path / "deep.jsonl").write_text("[" * 100_000 + "\n")
    (tmp_path / "empty.npy").touch()
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04")
    (tmp_path / "header.npy").write_bytes(b"\x93NUMPY\x01\x00\x04\x00((((")
    for ending in ("txt", "jsonl", "npy"):
        os.mkfifo(tmp_path / f"pipe.{ending}")  # which nobody writes to
    with (tmp_path / "several.npy").open("wb") as file:
        np.savez(file, one=np.arange(3))
    given = [flag for change in changes for flag in ("--set", change.format(folder=tmp_path))]
    with pytest.raises(InputError, match=sentence):
        main([str(tmp_path / "config.yaml"), "--out", str(tmp_path / "run"), "--cpu", *given])
    assert not (tmp_path / "run").exists()


def test_a_launch_that_says_otherwise_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "2")
    with pytest.raises(InputError, match="accumulation is 1, and accelerate was launched with 2"):
        make_accelerator(small_run(tmp_path), cpu=True)


def test_a_text_that_spells_the_end_of_text_does_not_end(tmp_path: Path) -> None:
    (tmp_path / "one.txt").write_text("a<|endoftext|>b")
    tokens, ends = encoded(Source(files=(str(tmp_path / "one.txt"),)), byte_tokenizer())
    assert tokens.tolist() == [*b"a<|endoftext|>b", 256]
    assert ends.tolist() == [[0, 0], [16, 15]]


def test_code_in_the_folder_of_a_tokenizer_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transformers` asks on standard input, where ``yes |`` answers."""
    monkeypatch.setattr("builtins.input", lambda _: "y")
    byte_tokenizer().save_pretrained(tmp_path)
    named = {"tokenizer_class": "Evil", "auto_map": {"AutoTokenizer": ["evil.T", None]}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(named))
    (tmp_path / "evil.py").write_text("raise SystemExit(0)\n")
    with pytest.raises(InputError, match="contains custom code"):
        tokenizer_of(str(tmp_path), Source(files=("text.txt",)))
    begun: Any = SimpleNamespace(begun=True, tokenizer=tmp_path)
    with pytest.raises(InputError, match="contains custom code"):
        _tokenizer(small_run(tmp_path), begun)


def test_datasets_are_read_by_split(tmp_path: Path) -> None:
    import datasets

    rows = datasets.Dataset.from_dict({"text": ["one", "two"]})
    rows.save_to_disk(tmp_path / "plain")
    datasets.DatasetDict({"test": rows}).save_to_disk(tmp_path / "splits")
    tokens, _ = encoded(Source(dataset=str(tmp_path / "plain")), byte_tokenizer())
    again, _ = encoded(Source(dataset=str(tmp_path / "splits"), split="test"), byte_tokenizer())
    assert tokens.tolist() == again.tolist() == [*b"one", 256, *b"two", 256]
    with pytest.raises(InputError, match=r"split is 'valid', and dataset .* has train only, being one table"):
        encoded(Source(dataset=str(tmp_path / "plain"), split="valid"), byte_tokenizer())
    with pytest.raises(InputError, match=r"split is 'train', and dataset .* has test; give one of these"):
        encoded(Source(dataset=str(tmp_path / "splits")), byte_tokenizer())
    with pytest.raises(InputError, match="has no text under 'words'; its fields are text"):
        encoded(Source(dataset=str(tmp_path / "plain"), field="words"), byte_tokenizer())


def test_yaml_reads_no_as_a_word_and_refuses_a_key_twice_and_aliases(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(YAML.format(folder=tmp_path) + "precision: no\n")
    assert read_config(path).precision == "no"
    for text, fault in (
        (YAML.format(folder=tmp_path) + "steps: 3\n", r"is no YAML \('steps' is twice in one mapping"),
        ("a: &a [x, x]\ntrain: {files: *a}", r"it holds the alias \*a; write out what it stands for"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=fault):
            read_config(path)


def test_one_field_of_a_section_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(YAML.format(folder=tmp_path))
    whole = read_config(path)
    assert read_config(path, (f"optimizer.learning_rate={whole.optimizer.learning_rate}",)) == whole


def test_yaml_keeps_a_name_of_digits_as_given(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(YAML.format(folder=tmp_path))
    for text in ("010", "1:30", "2024-01-01", "00812"):
        config = read_config(path, (f"train.files=[{text}]", "train.field=" + text, "steps=010"))
        assert (config.train.files, config.train.field, config.steps) == ((text,), text, 10)
    with pytest.raises(InputError, match="value that is no YAML"):
        read_config(path, ("train={files: [a], files: [b]}",))


def test_documents_skip_blank_lines_and_refuse_a_text_twice(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('\ufeff{"text": "one", "share": NaN}\n\n{"text": "two"}\n\n', encoding="utf-8")
    assert list(documents(Source(files=(str(path),)))) == ["one", "two"]
    path.write_text('{"text": "one", "text": "two"}\n')
    with pytest.raises(InputError, match=r"line 1 of .* twice"):
        list(documents(Source(files=(str(path),))))


def test_the_perplexity_is_that_of_evaluate_text(tmp_path: Path) -> None:
    from implicit.language import evaluate_text

    config = small_run(tmp_path, implicit=False, evaluation=Evaluation(every=4, tokens=100, sequences=3))
    result = train(config, tmp_path / "run")
    model: Any = AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model")
    tokens, ends = encoded(config.validation, byte_tokenizer())
    whole = (100 - 1) // 15 * 15 + 1
    assert whole < len(tokens)
    text = torch.from_numpy(tokens[:whole].astype(np.int64))
    found = evaluate_text(model, text, context=16)
    assert result["validation_loss"] == pytest.approx(found.nats, rel=1e-5)
    read = np.interp(whole, *ends.T)
    assert read == pytest.approx((tokens[:whole] != 256).sum(), abs=1)  # of the bytes that were measured
    assert result["bits_per_byte"] == pytest.approx(found.nats / math.log(2) * whole / read, rel=1e-5)
