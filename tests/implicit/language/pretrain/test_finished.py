"""Reading a pretraining run that ended: the model that was trained, its tokens and numbers, and refusals."""

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from accelerate.state import AcceleratorState
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from automata.errors import InputError
from implicit.fixed_point import NotConvergedWarning, Stopping
from implicit.language.pretrain import FinishedRun, finished_run
from implicit.modes import Solve
from tests.implicit.language.pretrain.small_runs import lines_of, small_run, stop_at, train

STEPS = 4
TEXTS = {"words": "3 plus 4 is 7, says line 12\n", "bytes": "né\r\n\t→ 𝄞\x00 ", "special": "a<|endoftext|>b"}
"""Texts: one that the tokenizer was trained on, one it has in single bytes only, one that spells a token."""


@pytest.fixture(scope="module", params=[("mamba2", True), ("llama", False)], ids=["implicit", "explicit"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    family, implicit = request.param
    folder = tmp_path_factory.mktemp(family)
    train(small_run(folder, family, implicit, steps=STEPS, tokenizer=300, seed=7), folder / "run")
    AcceleratorState._reset_state()
    return folder / "run"


@pytest.fixture(scope="module")
def run(trained: Path) -> FinishedRun:
    return finished_run(str(trained))


def test_model_config_and_numbers_are_those_of_the_run(trained: Path, run: FinishedRun) -> None:
    assert not run.model.training
    found, stored = run.model.state_dict(), load_file(trained / "model" / "model.safetensors")
    assert all(torch.equal(found[name], one) for name, one in stored.items())
    assert found.keys() - stored.keys() <= {"lm_head.weight"}  # which is tied
    drawn = AutoModelForCausalLM.from_config(run.model.config)
    assert any(not torch.equal(found[name], one) for name, one in drawn.named_parameters())  # it was trained
    assert run.path == trained
    assert (run.config.steps, run.config.seed, run.config.tokenizer) == (STEPS, 7, 300)
    assert run.config.model.implicit == (trained.parent.name[:6] == "mamba2")
    assert run.result == json.loads((trained / "result.json").read_text())
    assert run.result["tokens"] == STEPS * 8 * 16
    assert run.metrics == lines_of(trained)
    assert [line["step"] for line in run.metrics] == [1, 2, 3, 4]


def write(folder: Path, name: str) -> str:
    path = folder / f"{name}.txt"
    path.write_bytes(TEXTS[name].encode())
    return str(path)


@pytest.mark.parametrize("name", TEXTS)
def test_tokens_are_those_of_the_tokenizer_and_spell_the_file(
    name: str, run: FinishedRun, tmp_path: Path
) -> None:
    tokens = run.tokens(write(tmp_path, name))
    assert tokens.dtype == torch.int64
    expected = run.tokenizer(TEXTS[name], add_special_tokens=False, split_special_tokens=True)["input_ids"]
    assert tokens.tolist() == [*expected, run.tokenizer.eos_token_id]
    assert run.tokenizer.decode(tokens[:-1].tolist()).encode() == TEXTS[name].encode()
    assert run.tokenizer.eos_token_id not in expected
    if name == "words":
        assert len(expected) < len(TEXTS[name])  # the pairs that were learned are used
    assert int(tokens.max()) < run.model.config.vocab_size


def test_every_file_is_a_document_and_tokens_are_taken_as_they_are(run: FinishedRun, tmp_path: Path) -> None:
    one, other = (write(tmp_path, name) for name in ("words", "bytes"))
    assert run.tokens(one, other).tolist() == [*run.tokens(one).tolist(), *run.tokens(other).tolist()]
    np.save(tmp_path / "some.npy", np.array([5, 0, 299], dtype=np.uint16))
    found = run.tokens(str(tmp_path / "some.npy"))
    assert (found.tolist(), found.dtype) == ([5, 0, 299], torch.int64)
    with pytest.raises(InputError, match=r"nowhere\.txt cannot be read \(No such file or directory\)"):
        run.tokens(str(tmp_path / "nowhere.txt"))


@pytest.mark.parametrize("trained", [("mamba2", True)], ids=["implicit"], indirect=True)
def test_the_model_says_nothing_of_tokens_without_a_fixed_point(trained: Path, run: FinishedRun) -> None:
    tokens = torch.arange(20).view(1, 20)
    solve = Solve("simultaneous", stopping=Stopping(rtol=1e-6, max_iterations=2))
    plain = AutoModelForCausalLM.from_pretrained(trained / "model").eval()
    with torch.no_grad():
        with pytest.warns(NotConvergedWarning):
            plain(tokens, use_cache=False, solve=solve)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert bool((run.model(tokens, use_cache=False, solve=solve).status != 0).any())


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as caught:
        finished_run(folder)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_folder_without_a_run_that_ended_is_refused(tmp_path: Path) -> None:
    ended = "holds no pretraining run that ended; finish it with python -m implicit.language.pretrain"
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("{}")
    for name in ("missing", "empty", "file"):
        assert refusal(tmp_path / name) == f"{tmp_path / name} {ended}"

    config = small_run(tmp_path, steps=STEPS, checkpoint_every=2)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "killed", watch=stop_at(3))
    AcceleratorState._reset_state()
    assert (tmp_path / "killed" / "checkpoint-2").is_dir()
    assert refusal(tmp_path / "killed") == f"{tmp_path / 'killed'} {ended}"


def drop(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: {key: value for key, value in values.items() if key != name}


FORM = (
    "{folder}/config.json is of no pretraining run of format version 1; "
    "give the folder of one, or train again"
)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda values: {"format_version": 2, "task": "parity", "model": "lstm"}, FORM),  # `implicit.train`
        (lambda values: [values], FORM),
        (lambda values: {**values, "format_version": 2}, FORM),
        (drop("format_version"), FORM),
        (drop("phases"), FORM),
        (lambda values: {**values, "steps": 0}, "steps is 0; it should be greater than 0"),
    ],
    ids=["training", "list", "newer", "no version", "no phases", "no steps"],
)
def test_a_configuration_of_something_else_is_refused(change: Any, sentence: str, tmp_path: Path) -> None:
    config = small_run(tmp_path)
    values = {"format_version": 1, **json.loads(config.model_dump_json()), "sha256": {}}
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result.json").write_text("{}")
    (folder / "config.json").write_text(json.dumps(change(values)))
    assert refusal(folder) == sentence.format(folder=folder)


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("config.json", b"{", "config.json is not valid JSON"),
        ("result.json", b"{", "result.json is not valid JSON"),
        ("metrics.jsonl", None, "metrics.jsonl is missing"),
        ("metrics.jsonl", b'{"step": 1}\n{"st', "metrics.jsonl: line 2 is not a JSON object with a step"),
        ("model", None, "model, which is no folder; give one that save_pretrained wrote"),
        ("model/config.json", None, "model, which has no config.json"),
        ("model/model.safetensors", None, "model cannot be read"),
        ("model/model.safetensors", b"half", "model cannot be read"),
    ],
)
def test_a_file_that_is_lost_or_damaged_is_named(
    name: str, content: bytes | None, sentence: str, trained: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    finished_run(folder)
    if content is not None:
        (folder / name).write_bytes(content)
    elif (folder / name).is_dir():
        shutil.rmtree(folder / name)
    else:
        (folder / name).unlink()
    assert f"{folder}/{sentence}" in refusal(folder)
