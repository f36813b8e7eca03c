"""A compiled model is a run like any other, except that it says that nobody trained it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from implicit import load_run
from implicit.command_line import run_command
from implicit.compile import main
from implicit.compiled import Gains, compile_automaton, compile_run
from implicit.train import main as train_main
from implicit.train import train
from tests.conftest import Refuses


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_run("S3", tmp_path_factory.mktemp("runs") / "compiled-s3", Gains(decay=1 / 32)).path


def test_run_holds_the_model_and_says_how_it_was_made(folder: Path) -> None:
    run = load_run(folder)
    assert run.metrics == []
    assert run.config.compiled == {"decay": 1 / 32, "sharpness": 64, "start": 1 / 16, "dominance": 128}
    expected = compile_automaton(run.task, Gains(decay=1 / 32)).state_dict()
    assert all(torch.equal(weight, expected[name]) for name, weight in run.model.state_dict().items())
    batch = run.task.batch(4, 50, np.random.default_rng(0))
    answers = run.model(torch.from_numpy(batch.tokens)).argmax(-1)
    assert (answers.numpy() == batch.targets).all()


def test_analyses_show_that_it_was_not_trained(folder: Path) -> None:
    identity = RunIdentity.of(load_run(folder))
    assert identity.compiled
    assert identity.title == "implicit-mamba2 on S3, compiled, not trained"
    assert not RunIdentity.of(load_run("parity")).compiled


def test_training_does_not_go_on_in_it(folder: Path, tmp_path: Path) -> None:
    config = load_run(folder).config
    with pytest.raises(InputError, match="compiled is set, which is for models that are not trained"):
        train(config, tmp_path / "other", progress=False)
    with pytest.raises(InputError, match="which holds a compiled model, not a run to train"):
        train_main(["--task", "S3", "--model", "implicit-mamba2", "--out", str(folder)])
    with pytest.raises(InputError, match="compiled is set"):
        train_main(["--resume", "--out", str(folder)])


def test_folder_that_is_not_free_is_left_alone(folder: Path, tmp_path: Path) -> None:
    before = sorted((file.name, file.read_bytes()) for file in folder.iterdir())
    with pytest.raises(InputError, match=r"out is .*, which holds"):
        compile_run("parity", folder)
    assert sorted((file.name, file.read_bytes()) for file in folder.iterdir()) == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="which is a file"):
        compile_run("parity", tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("", "task is missing"),
        ("--task parity", "out is missing"),
        ("--task parity --out x --decay fast", "decay is 'fast'; give a number"),
        ("--task parity --out x --decay 0.5", "decay is 0.5; give a number from"),
        ("--task noisy-parity-states --out x", "has no machine"),
    ],
)
def test_faults_of_the_caller_exit_with_2_and_write_nothing(
    arguments: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: Refuses
) -> None:
    monkeypatch.chdir(tmp_path)
    assert sentence in refuses(main, arguments.split())


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(main, ["--regex", "(ab|ba)*", "--out", str(tmp_path / "run")]) == 0
    assert "compiled, not trained: 4 states, 2 tokens" in capsys.readouterr().out
    model: Any = load_run(tmp_path / "run").model
    assert model.config.damping == 1
