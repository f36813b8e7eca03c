"""Callbacks of training, and the lines that it prints without a terminal."""

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from implicit import SequenceModel, TrainConfig, load_run, recipe, train
from implicit.training import TrainingStep, progress
from implicit.training.train import run_ending


@pytest.fixture
def config() -> TrainConfig:
    return recipe(
        "parity",
        "implicit-mamba2",
        steps=7,
        batch_size=4,
        length=4,
        d_model=4,
        d_state=2,
        head_size=4,
        evaluate_every=3,
        loss_until_error=False,
        random_starts=0.0,
        growth_accuracy=None,
        bounded_length=0,
        carried_share=0.0,
    )


def test_a_callback_gets_every_step_and_the_metrics_where_they_are_measured(
    config: TrainConfig, tmp_path: Path
) -> None:
    taken: list[TrainingStep] = []
    run = train(config, tmp_path / "run", progress=False, callback=taken.append)
    assert [one.step for one in taken] == [1, 2, 3, 4, 5, 6, 7]
    assert [one.step for one in taken if one.metrics is not None] == [3, 6, 7]
    for one, entry in zip([one for one in taken if one.metrics], run.metrics, strict=True):
        assert one.metrics == entry
        assert (one.loss, one.accuracy) == (entry["loss"], entry["accuracy"])
        assert one.penalties == {"contraction": entry["contraction_penalty"]}
        assert one.learning_rate == entry["learning_rate"]
    assert "ended_by" not in run.metrics[-1]


def test_every_step_is_seen_with_its_weights_and_the_run_is_the_same(
    config: TrainConfig, tmp_path: Path
) -> None:
    seen: list[tuple[int, SequenceModel]] = []
    watched = train(
        config,
        tmp_path / "watched",
        progress=False,
        callback=lambda taken: seen.append((taken.step, copy.deepcopy(taken.model))),
    )
    alone = train(config, tmp_path / "alone", progress=False)
    assert [step for step, _ in seen] == [1, 2, 3, 4, 5, 6, 7]
    for name, weights in alone.model.state_dict().items():
        assert torch.equal(weights, watched.model.state_dict()[name])
        assert torch.equal(weights, seen[-1][1].state_dict()[name])
    before, last = (model.get_parameter("embedding.weight") for _, model in seen[-2:])
    assert not torch.equal(before, last)


@pytest.mark.parametrize(("last", "measured"), [(2, [2]), (3, [3]), (4, [3, 4])])
def test_true_ends_the_training_and_anything_else_does_not(
    last: int, measured: list[int], config: TrainConfig, tmp_path: Path
) -> None:
    run = train(config, tmp_path / "run", progress=False, callback=lambda taken: taken.step == last or 1)
    assert [entry["step"] for entry in run.metrics] == measured
    assert run.metrics[-1]["ended_by"] == "callback"
    assert run_ending(run) == "ended before its limit of 7 steps: the callback asked for it"
    stored = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert stored == run.metrics
    assert load_run(tmp_path / "run").metrics[-1]["step"] == last
    assert not (tmp_path / "run" / "checkpoint").exists()


def test_lines_without_a_terminal_say_what_is_trained_and_how_long_it_takes(
    config: TrainConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(config, tmp_path / "short", progress=True)
    assert capsys.readouterr().err == ""  # half a minute has not passed
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    train(config, tmp_path / "run", progress=True)
    first, *lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(
        r"training implicit-mamba2 \(\d+ parameters\) on parity: up to 7 steps of 4 sequences of 4 tokens, "
        r"learning rate 0\.002, seed 0",
        first,
    )
    assert len(lines) == 7
    for step, line in enumerate(lines, start=1):
        assert re.fullmatch(rf"step {step} of at most 7: loss \S+, accuracy \S+, up to \d+ s left", line)
    train(config, tmp_path / "hidden", progress=False)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("steps", "warmup"), [(1, 1), (20, 5), (21, 6), (400, 100), (4000, 100)])
def test_the_warm_up_takes_a_quarter_of_few_steps(steps: int, warmup: int) -> None:
    assert recipe("parity", "lstm", steps=steps).optimizer.warmup_steps == warmup
    assert recipe("parity", "lstm", steps=str(steps)).optimizer.warmup_steps == warmup
    assert recipe("parity", "lstm", steps=steps, warmup_steps=1).optimizer.warmup_steps == 1
    group: dict[str, Any] = {"learning_rate": 0.1, "warmup_steps": 1}
    assert recipe("parity", "lstm", steps=steps, optimizer=group).optimizer.warmup_steps == 1
