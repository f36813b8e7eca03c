"""A run that is killed with SIGKILL and started again ends with the bits of one that was not."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from implicit.command_line import run_command
from implicit.config.run import TrainConfig
from implicit.runs.folder import RunFolder
from implicit.train import main, train
from implicit.training.progress import TrainingStep
from tests.interrupting import kill_at_every_instant, train_until
from tests.processes import environment
from tests.small_models import small_config

FINISHED_FILES = ["config.json", "environment.json", "metrics.jsonl", "model.safetensors", "sha256.json"]

EACH: dict[str, Any] = {"length": 5, "warmup_steps": 2, "carried_share": 0.9}
EACH |= {"average_steps": 4, "evaluate_every": 2, "evaluation_sequences": 2, "checkpoint_every": 3}


@pytest.fixture
def config() -> TrainConfig:
    """Both phases of a small implicit model, with evaluations and checkpoints out of step.

    The tolerance is so loose that sequences count as solved, and the checkpoint holds what is carried.
    """
    model = {"model": "implicit-mamba2", "sizes": {"d_model": 8, "head_size": 8, "d_state": 4}}
    bounded = {"bounded_steps": 1, "bounded_iterations": 2, "contraction_weight": 0.01}
    free = {"free_max_iterations": 3, "free_rtol": 0.9, "phantom_steps": 1}
    return small_config(**model, **bounded, **free, **EACH, steps=6)


def without_seconds(folder: Path) -> list[dict[str, object]]:
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in entry.items() if name != "seconds"} for entry in entries]


def assert_same_run(folder: Path, uninterrupted: Path) -> None:
    # A process that was killed leaves the file of its lock, empty and not locked.
    names = sorted(path.name for path in folder.iterdir() if path.name != "implicit-ssm.lock")
    assert names == FINISHED_FILES
    for file in ("config.json", "model.safetensors"):
        assert (folder / file).read_bytes() == (uninterrupted / file).read_bytes()
    assert without_seconds(folder) == without_seconds(uninterrupted)


def listen_to_interrupts() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, perhaps this suite and its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_killed_at_every_instant(tmp_path: Path) -> None:
    growing = {"start_length": 3, "length_growth": 2, "growth_accuracy": 1e-3, "final_steps": 1}
    config = small_config(**EACH, **growing, steps=20, bounded_steps=0, bounded_length=3)
    instants = kill_at_every_instant(tmp_path, lambda out: train(config, out, progress=False))
    # Before and after each of: 3 files at the start, metrics at the start of the loop, 3 evaluations,
    # 1 checkpoint and the weights with their hashes.
    assert instants == 2 * 11
    metrics = without_seconds(tmp_path / "uninterrupted")
    assert [(entry["step"], entry["length"]) for entry in metrics] == [(2, 3), (4, 3), (6, 5)]
    for kill_at in range(1, instants + 1):
        assert_same_run(tmp_path / str(kill_at), tmp_path / "uninterrupted")


def test_command_is_interrupted_then_resumed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command as users run it: Ctrl-C gives one sentence and exit code 130."""
    longer = small_config(**EACH | {"steps": 40, "checkpoint_every": 2})
    folder = RunFolder(tmp_path / "run")
    folder.begin(longer)
    flags = ["--resume", "--out", str(folder.path)]
    options: dict[str, Any] = {"stderr": -1, "text": True, "preexec_fn": listen_to_interrupts}
    command = [sys.executable, "-m", "implicit.train", *flags]
    with subprocess.Popen(command, env=environment(), **options) as process:
        give_up = time.monotonic() + 300
        while len(folder.read_metrics()) < 2:
            assert process.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=300)
    where = f"{folder.path} is not finished: step {folder.stored_step} of at most 40 is stored\n"
    assert process.returncode == 130
    assert said == where + "error: interrupted; run the same command again to go on\n"
    assert folder.stored_step in range(2, 40, 2)
    assert not folder.finished
    assert run_command(main, flags) == 0
    assert capsys.readouterr().out.startswith(f"{folder.path} is finished: step 40, ")
    train(longer, tmp_path / "uninterrupted", progress=False)
    assert_same_run(folder.path, tmp_path / "uninterrupted")


def stopped_by_sigterm(config: TrainConfig, out: Path) -> None:
    def stop(taken: TrainingStep) -> None:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        if taken.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(SystemExit, match="143"):
        train(config, out, progress=False, callback=stop)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_sigterm_stores_the_step(config: TrainConfig, tmp_path: Path) -> None:
    rare = config.updated(checkpoint_every=100)
    stopped_by_sigterm(rare, tmp_path / "stopped")
    steps: list[int] = []
    train(rare, tmp_path / "stopped", progress=False, callback=lambda taken: steps.append(taken.step))
    assert steps[0] == 4
    stopped_by_sigterm(rare, tmp_path / "ended")
    assert run_command(main, ["--end", "--out", str(tmp_path / "ended"), "--quiet"]) == 0
    assert RunFolder(tmp_path / "ended").read_metrics()[-1]["step"] == 4
    train(rare, tmp_path / "uninterrupted", progress=False)
    assert_same_run(tmp_path / "stopped", tmp_path / "uninterrupted")


def test_sigterm_says_how_to_go_on(
    config: TrainConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    RunFolder(tmp_path).begin(config)
    monkeypatch.setattr("implicit.train.train", lambda *_, **__: sys.exit(143))
    with pytest.raises(SystemExit, match="143"):
        main(["--resume", "--out", str(tmp_path)])
    assert capsys.readouterr().err.endswith("0 of at most 6 is stored; run the same command again to go on\n")


@pytest.mark.parametrize("changes", [{"steps": 3}, {"target_accuracy": 1e-9, "patience": 1}])
def test_sigterm_in_the_last_step_finishes_the_run(
    changes: dict[str, object], config: TrainConfig, tmp_path: Path
) -> None:
    """Also where that is the last one because the target is met, and while its evaluation is going on."""
    short = config.updated(**{"bounded_steps": 0, "evaluate_every": 3, "checkpoint_every": 100, **changes})
    stopped_by_sigterm(short, tmp_path / "stopped")
    assert train(short, tmp_path / "uninterrupted", progress=False).metrics[-1]["step"] == 3
    assert_same_run(tmp_path / "stopped", tmp_path / "uninterrupted")


def test_early_stop_counts_on_after_a_resume(config: TrainConfig, tmp_path: Path) -> None:
    # Any accuracy meets this target; the bounded phase ends with step 3, so steps 4 and 6 are the two.
    stopping = config.updated(steps=20, target_accuracy=1e-9, patience=2, bounded_steps=3, checkpoint_every=5)
    train(stopping, tmp_path / "uninterrupted", progress=False)
    train_until(6, stopping, tmp_path / "interrupted")
    assert [entry["step"] for entry in RunFolder(tmp_path / "interrupted").read_metrics()] == [2, 4]
    assert train(stopping, tmp_path / "interrupted", progress=False).metrics[-1]["step"] == 6
    assert_same_run(tmp_path / "interrupted", tmp_path / "uninterrupted")


def test_finished_run_is_not_trained_again(
    stored_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("implicit.training.train.take_steps", lambda *_: pytest.fail("trained again"))
    main(["--resume", "--out", str(stored_run)])
    said = f"{stored_run} was finished before, and nothing was trained"
    assert capsys.readouterr().out.startswith(said)
    monkeypatch.setattr("implicit.train.train", lambda *_, **__: sys.exit(143))  # as SIGTERM ends it
    with pytest.raises(SystemExit, match="143"):
        main(["--resume", "--out", str(stored_run)])
    assert capsys.readouterr().err == f"{stored_run} is finished\n"
