"""Pretraining that is killed, started again, or ended by what is not finite."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import ByT5Tokenizer

from automata.errors import InputError
from implicit.language.pretrain.folder import PretrainFolder
from tests.implicit.language.pretrain.small_runs import lines_of, small_run, stop_at, train


@pytest.mark.parametrize("stopped", [2, 3, 7])
def test_a_killed_run_goes_on_to_the_same_weights(stopped: int, tmp_path: Path) -> None:
    config = small_run(tmp_path)
    train(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "killed", watch=stop_at(stopped))
    partial = tmp_path / "killed" / "checkpoint.new"  # as a kill leaves it while a checkpoint is written
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    train(config, tmp_path / "killed")
    one, other = (load_file(tmp_path / name / "model" / "model.safetensors") for name in ("whole", "killed"))
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    times = ("seconds", "training_seconds", "tokens_per_second")
    told = [
        [
            {name: value for name, value in line.items() if name not in times}
            for line in lines_of(tmp_path / run)
        ]
        for run in ("whole", "killed")
    ]
    assert told[0] == told[1]
    assert not list((tmp_path / "killed").glob("checkpoint*"))


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=2)
    first = train(config, tmp_path / "run")
    assert train(config, tmp_path / "run", watch=stop_at(1)) == first


def test_a_folder_of_another_run_is_left_alone(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=2)
    train(config, tmp_path / "run")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="holds a run whose steps is 2, not 3; give another --out"):
        train(small_run(tmp_path, steps=3), tmp_path / "run")
    (tmp_path / "train.txt").write_text("other words than those " * 50)
    with pytest.raises(InputError, match="holds a run whose sha256 is"):
        train(config, tmp_path / "run")
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "letter.txt").touch()
    with pytest.raises(InputError, match="is not empty and holds no run"):
        train(config, tmp_path / "other")


@pytest.mark.parametrize("steps", [1, 8])
def test_what_is_not_finite_ends_the_run_and_reaches_no_checkpoint(steps: int, tmp_path: Path) -> None:
    optimizer = {"learning_rate": 1e6, "weight_decay": 1e300, "warmup_steps": 0, "gradient_clip": None}
    config = small_run(tmp_path, implicit=False, steps=steps, checkpoint_every=1, optimizer=optimizer)
    with pytest.raises(FloatingPointError, match=r"is (nan|inf) at step 1; train anew into another --out"):
        train(config, tmp_path / "run")
    assert not list((tmp_path / "run").glob("checkpoint*"))
    assert not (tmp_path / "run" / "model").exists()
    assert not (tmp_path / "run" / "result.json").exists()


def test_a_run_killed_while_it_is_stored_ends_with_the_same_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small_run(tmp_path)
    train(config, tmp_path / "whole")

    def killed(folder: PretrainFolder, result: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(PretrainFolder, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, tmp_path / "killed")
    found = train(config, tmp_path / "killed")
    whole = json.loads((tmp_path / "whole" / "result.json").read_text())
    times = ("seconds", "training_seconds")
    assert {name: found[name] for name in found if name not in times} == {
        name: whole[name] for name in whole if name not in times
    }
    for file in sorted((tmp_path / "whole" / "model").iterdir()):
        assert (tmp_path / "killed" / "model" / file.name).read_bytes() == file.read_bytes(), file.name


def test_a_kill_before_the_configuration_is_written_costs_nothing(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=2)
    (tmp_path / "run" / "tokenizer").mkdir(parents=True)
    (tmp_path / "run" / "tokenizer" / "tokenizer.json").write_text("half")
    (tmp_path / "run" / "environment.json").touch()
    assert train(config, tmp_path / "run")["steps"] == 2


def test_a_tokenizer_without_a_file_of_the_fast_ones_is_found_again(tmp_path: Path) -> None:
    ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    config = small_run(tmp_path, steps=2, tokenizer=str(tmp_path / "byt5"), length=8)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", watch=stop_at(1))
    assert train(config, tmp_path / "run")["steps"] == 2
