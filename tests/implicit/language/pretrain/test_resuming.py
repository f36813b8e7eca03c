"""Pretraining that is killed, started again, or ended by what is not finite."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import ByT5Tokenizer

from automata.errors import InputError
from implicit.language.pretrain.folder import PretrainFolder
from implicit.runs.environment import describe_environment
from implicit.runs.files import write_json
from tests.implicit.language.pretrain.small_runs import lines_of, small_run, stop_at, train

TIMES = {"seconds", "training_seconds", "tokens_per_second"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    train(small_run(folder), folder / "run")
    return folder / "run"


def told(found: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in found.items() if name not in TIMES}


def assert_same_model(one: Path, other: Path) -> None:
    for file in sorted((one / "model").iterdir()):
        assert (other / "model" / file.name).read_bytes() == file.read_bytes(), file.name


@pytest.mark.parametrize("stopped", [2, 3, 7])
def test_a_killed_run_goes_on_to_the_same_weights(stopped: int, whole: Path, tmp_path: Path) -> None:
    config, run = small_run(whole.parent), tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        train(config, run, watch=stop_at(stopped))
    partial = run / ".checkpoint.new"  # as a kill leaves it while a checkpoint is written
    partial.mkdir()
    (partial / "model.safetensors").write_bytes(b"half")
    train(config, run)
    assert_same_model(whole, run)
    assert [told(line) for line in lines_of(run)] == [told(line) for line in lines_of(whole)]
    assert not list(run.glob("checkpoint*"))


def test_a_finished_run_is_not_trained_again_and_that_of_another_left_alone(tmp_path: Path) -> None:
    config, run = small_run(tmp_path, steps=2), tmp_path / "run"
    first = train(config, run)
    assert train(config, run, watch=stop_at(1)) == first
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match="holds a run whose steps is 2, not 3; give another --out"):
        train(small_run(tmp_path, steps=3), run)
    (tmp_path / "train.txt").write_text("other words than those " * 50)
    with pytest.raises(InputError, match="holds a run whose sha256 is"):
        train(config, run)
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
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
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(folder: PretrainFolder, result: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    config, run = small_run(whole.parent), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(PretrainFolder, "finish", killed)
        with pytest.raises(KeyboardInterrupt):
            train(config, run)
    own = run / "model" / "notes.txt"
    own.parent.mkdir()
    own.write_text("the user's")
    with pytest.raises(InputError, match="model is no model of this run, which needs the name; move it away"):
        train(config, run)
    assert own.read_text() == "the user's"
    shutil.rmtree(own.parent)
    assert told(train(config, run)) == told(json.loads((whole / "result.json").read_text()))
    assert_same_model(whole, run)


def test_a_kill_before_the_configuration_is_written_costs_nothing(tmp_path: Path) -> None:
    config = small_run(tmp_path, steps=2)
    (tmp_path / "run" / "tokenizer").mkdir(parents=True)
    (tmp_path / "run" / "tokenizer" / "tokenizer.json").write_text("half")
    write_json(tmp_path / "run" / "environment.json", describe_environment())
    assert train(config, tmp_path / "run")["steps"] == 2


def test_a_tokenizer_without_a_file_of_the_fast_ones_is_found_again(tmp_path: Path) -> None:
    ByT5Tokenizer().save_pretrained(tmp_path / "byt5")
    config = small_run(tmp_path, steps=2, tokenizer=str(tmp_path / "byt5"), length=8)
    with pytest.raises(KeyboardInterrupt):
        train(config, tmp_path / "run", watch=stop_at(1))
    assert train(config, tmp_path / "run")["steps"] == 2
