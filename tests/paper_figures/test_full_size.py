"""Experiments at the size of the papers: settings valid and trainable, listed, and sent to a device."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.config.recipes import recipe
from implicit.runs.loading import Run
from implicit.training.train import train
from paper_figures import __main__ as command
from paper_figures.experiments import work
from paper_figures.experiments.expected_cost import training_operations
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome, outcomes_of
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from paper_figures.experiments.work import Worker
from paper_figures.figures import (
    error_control,
    gradients,
    jacobians_in_training,
    s5_length_generalization,
)
from paper_figures.figures.figure import PaperFigure
from paper_figures.registry import FIGURES

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]

LARGE = [figure for figure in FIGURES.values() if figure.full is not None]
EVERY_TASK = "implicit-mamba2"
"""Taken on every task; of the other models one is, and the tasks are many."""


def kinds_of_points() -> dict[tuple[str, ...], Point]:
    """One point of each kind, that of the fewest layers and the first seed; on S5 as the paper trains it."""
    kinds: dict[tuple[str, ...], Point] = {}
    for figure in (s5_length_generalization.FIGURE, *LARGE):
        for point in figure.at_full_size().experiment.points:
            model, task = point.config.model, str(point.config.task)
            if model == EVERY_TASK or model not in {known for known, *_ in kinds}:
                kinds.setdefault((model, task), point)
    kinds[EVERY_TASK, "S5", "exact"] = gradients.FULL.points[0]
    kinds[EVERY_TASK, "parity", "narrow"] = jacobians_in_training.FULL.points[0]
    return kinds


POINTS = kinds_of_points()
SHORTENED = {
    "steps": 2,
    "warmup_steps": 1,
    "bounded_steps": 1,
    "batch_size": 2,
    "length": 4,
    "evaluation_sequences": 2,
    "evaluation_max_iterations": 4,
}
BASE = {"task": "parity", "model": "lstm", "steps": 1, "warmup_steps": 1, "d_model": 4}


@pytest.mark.parametrize("kind", POINTS, ids="-".join)
def test_every_model_takes_a_step_of_each_phase_at_its_size(kind: tuple[str, ...], tmp_path: Path) -> None:
    point = POINTS[kind]
    config = recipe(**{**point.all_settings, **SHORTENED})
    assert config.sizes == point.config.sizes
    assert point.config.batch_size * point.config.steps == 512 * 16384  # an epoch of 8.4M sequences
    run = train(config, tmp_path / "run", progress=False)
    assert [entry["step"] for entry in run.metrics] == [2]
    assert torch.isfinite(torch.tensor(run.metrics[-1]["loss"]))


OF_THEIR_OWN = {"bounded_and_free": {"bounded_steps"}, "gradients": {"free_gradient"}}
"""What a figure varies of the published training."""


@pytest.mark.parametrize("figure", LARGE, ids=lambda figure: figure.name)
def test_every_point_is_trained_as_the_public_code_does_and_by_no_recipe(figure: PaperFigure) -> None:
    """Written out from the public code; what recipes of ours have beside it is off, whatever the task."""
    published = {
        "learning_rate": 1e-3,
        "betas": (0.9, 0.95),
        "gradient_clip": 0.25,
        "warmup_steps": 1638,
        "steps": 16384,
        "batch_size": 512,
        "bounded_steps": 4005,
        "bounded_iterations": 4,
        "bounded_length": 0,
        "free_max_iterations": 32,
        "free_rtol": 0.05,
        "free_mode": "simultaneous",
        "free_gradient": "phantom",
        "phantom_steps": 4,
        "phantom_damping": 0.8,
        "initial": None,
        "algorithm": "AdamW",
    }
    off: dict[str, Any] = {
        "start_length": None,
        "growth_accuracy": None,
        "loss_until_error": False,
        "carried_always": False,
    }
    off |= dict.fromkeys(("random_starts", "carried_share"), 0.0)
    off |= dict.fromkeys(("contraction_weight", "forgetting_weight", "attraction_weight"), 0.0)
    expected: dict[str, Any] = {**published, **off}
    for name in OF_THEIR_OWN.get(figure.name, ()):
        del expected[name]
    for point in figure.at_full_size().experiment.points:
        found = point.config.flat()
        assert {name: found[name] for name in expected} == expected
        assert point.config.sizes["d_model"] == 256


@pytest.mark.parametrize("figure", LARGE, ids=lambda figure: figure.name)
def test_the_caption_of_runs_at_full_size_speaks_of_them(
    figure: PaperFigure, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of runs that did not end, so that it tells nothing but how they are trained."""
    monkeypatch.setattr(error_control, "certified", lambda settings: {})
    large = figure.at_full_size()
    text = large.caption(large.collect([Outcome(point, {}, False) for point in large.experiment.points]))
    config = large.experiment.points[0].config
    length, other = config.length, "S5" if config.task == "S3" else "S3"
    assert "16,384 updates" in text
    assert f"512 sequences of {length} tokens" in text or f"{length} tokens, in batches of 512" in text
    assert "width 256" in text
    of_small_grids = (
        "recipe",
        "batches of 64",
        "by accuracy",
        "grow",
        "has a penalty",
        "chosen on",
        "at up to",
    )
    assert all(word not in text for word in (*of_small_grids, other))
    assert "4,005" in text
    assert "at most 32 to a relative tolerance of 0.05 and " in text
    assert "No penalty on the self-map, no state passing." in text


ON_THE_WAY = ("agreement_course", "training_course")
"""Measurements that look at a training after some updates, which are others in a longer one."""
FROM_LENGTH_OF_TRAINING = {("gradients", "accuracy")}
"""Measurements whose first length is that of training, another one in each; figures with their names."""


@pytest.mark.parametrize("figure", LARGE, ids=lambda figure: figure.name)
def test_at_full_size_a_figure_asks_the_same_with_other_runs(figure: PaperFigure) -> None:
    large = figure.at_full_size()
    assert large.name == f"{figure.name}_full"
    asked, small = large.experiment.measurements, figure.experiment.measurements
    for one, other in zip(asked, small, strict=True):
        if one.name in ON_THE_WAY:
            assert one.settings_json == {**other.settings_json, "steps": one.settings_json["steps"]}
            assert replace(one, settings=other.settings) == other
        elif (figure.name, one.name) in FROM_LENGTH_OF_TRAINING:
            (trained,) = {point.config.length for point in large.experiment.points}
            beyond = other.settings_json["lengths"][1:]
            assert one.settings_json == {**other.settings_json, "lengths": [trained, *beyond]}
            assert replace(one, settings=other.settings) == other
        else:
            assert one == other
    points = {point.identifier for point in large.experiment.points}
    assert points.isdisjoint(point.identifier for point in figure.experiment.points)
    assert large.command == f"python -m paper_figures {figure.name} --full"


def test_operations_are_counted_per_parameter_token_and_evaluation() -> None:
    """By hand: 4,005 bounded steps with four evaluations and gradients, the others 32 + 4 with gradients."""
    point = POINTS["implicit-mamba2", "S5"]
    inner = 4 * 256
    projections = 256 * (2 * inner + 2 * 128 + inner // 64) + inner * 256
    per_token = (4005 * 4 * 3 + (16384 - 4005) * (32 + 4 * 3)) / 16384
    at_least = 2 * projections * 16384 * 512 * 32 * per_token
    assert at_least < training_operations(point) < 2 * at_least  # norms, window, embedding, injection


def test_the_list_tells_what_they_cost_and_that_nobody_ran_them(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--summary", "--full"])
    rows = capsys.readouterr().out.splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [f"{figure.name}_full" for figure in LARGE]
    for row in rows:
        assert "**not run**" in row
        assert "assumed, not measured" in row


def test_a_figure_without_one_and_a_picture_without_results_are_refused(
    refuses: Refuses, tmp_path: Path
) -> None:
    out = ["--out", str(tmp_path / "out")]
    said = refuses(command.main, ["jacobians", "--full", *out])
    assert "figure jacobians has no experiment at the size of a paper; leave out --full" in said
    assert "published has no experiment" in refuses(command.main, ["published", "--full", *out])
    said = refuses(command.main, ["depth", "--full", *out])
    assert "results of figure depth_full are missing" in said
    assert not (tmp_path / "out").exists()


def test_a_device_that_is_not_there_is_refused_before_anything_is_begun(
    refuses: Refuses, tmp_path: Path
) -> None:
    flags = ["--experiments", str(tmp_path / "experiments"), "--out", str(tmp_path / "out")]
    said = refuses(command.main, ["convergence", "--rerun", "--device", "cuda:99", *flags])
    assert "device is 'cuda:99', which is not to be had here; choose from cpu" in said
    assert "--device is given without --rerun" in refuses(command.main, ["--device", "cuda", *flags])
    assert not any(tmp_path.iterdir())


def test_training_and_measuring_are_told_the_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    told: list[Any] = []

    def watched(*arguments: Any, **options: Any) -> Run:
        told.append(options["device"])
        return train(*arguments, **{**options, "device": "cpu"})

    def measure(run: Run, settings: None) -> str:
        return str(run.model.device)

    monkeypatch.setattr("paper_figures.experiments.point.train", watched)
    work.do(Store(tmp_path), Point({**BASE, "seed": 0}), (Measurement("device", measure),), "meta")
    experiment = Experiment("one", (Grid({"seed": [0]}, BASE),), (Measurement("device", measure),))
    (outcome,) = outcomes_of(experiment, Store(tmp_path))
    assert told == ["meta"]
    assert outcome.values["device"] == "meta"


def test_a_worker_on_another_machine_refuses_a_device_too(tmp_path: Path) -> None:
    experiment = Experiment("one", (Grid({"seed": [0]}, BASE),), ())
    with pytest.raises(InputError, match="device is 'cuda:99'"):
        Worker(experiment, tmp_path, "me", device="cuda:99")()
    with pytest.raises(InputError, match="device is 'cuda:99'"):
        carry_out(experiment, Store(tmp_path), device="cuda:99")
    assert not any(tmp_path.iterdir())
