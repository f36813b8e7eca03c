"""Grids expand to every combination, and a point is known by everything that determines its run."""

import hashlib
import importlib
import itertools
import json
from dataclasses import replace
from typing import Any

import pytest

from implicit.config.recipes import recipe
from implicit.runs.files import read_settings
from paper_figures.experiments.grid import Experiment, Grid, Measurement, Point
from paper_figures.registry import figure_named
from tests.paper_figures.experiments.tiny import ROOT, Length, accuracy
from tests.refusals import refusals

AXES: dict[str, list[Any]] = {
    "task": ["parity", "S3"],
    "model": ["lstm", "mamba2"],
    "carried_share": [0.0, 0.9],
    "d_model": [8, 16],
    "seed": [0, 5],
}


def test_expands_to_every_combination_of_tasks_models_fields_and_sizes() -> None:
    """Against nested loops, and each configuration against the recipe called by hand."""
    points = Grid(AXES, {"steps": 300}).points
    expected = [
        recipe(task, model, steps=300, carried_share=share, d_model=size, seed=seed)
        for task, model, share, size, seed in itertools.product(*AXES.values())
    ]
    assert [point.config for point in points] == expected
    assert len({point.identifier for point in points}) == len(points) == 32


def test_the_identifier_hashes_the_whole_configuration() -> None:
    point = Point({"task": "parity", "model": "lstm", "seed": 3})
    text = json.dumps(point.config.as_json(), sort_keys=True, ensure_ascii=False)
    assert point.identifier == f"parity-lstm-seed-3-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def test_a_point_of_two_grids_is_one_point() -> None:
    base = {"task": "parity", "model": "lstm"}
    experiment = Experiment("e", (Grid({"seed": [0, 1]}, base), Grid({"seed": [1, 2]}, base)), ())
    assert [point.seed for point in experiment.points] == [0, 1, 2]


def test_names_tell_what_the_points_of_an_experiment_differ_in() -> None:
    """No two points have one name, other bases included, and the base stays in the command."""
    base = {"task": "parity", "model": "lstm", "length": 16}
    slow, fast = (
        Grid({"seed": [0, 1]}, {**base, "learning_rate": rate, **more})
        for rate, more in ((1e-3, {}), (1e-2, {"batch_size": 8}))
    )
    points = Experiment("e", (slow, fast), ()).points
    assert [point.name for point in points] == [
        "parity-lstm-learning_rate=0.001-seed-0",
        "parity-lstm-learning_rate=0.001-seed-1",
        "parity-lstm-learning_rate=0.01-batch_size=8-seed-0",
        "parity-lstm-learning_rate=0.01-batch_size=8-seed-1",
    ]
    assert [point.config for point in points] == [one.config for one in (*slow.points, *fast.points)]
    assert all("--length 16" in point.command for point in points)


SETTINGS: list[dict[str, Any]] = [
    {"task": "S3", "model": "mamba2", "seed": 4, "carried_share": 0.5, "d_model": 16},
    {"task": "parity", "model": "lstm", "seed": 0, "gradient_clip": None, "evaluation_lengths": [16, 32]},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=["numbers", "none and a list"])
def test_the_command_trains_the_point(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command line reads the command as the configuration of the point."""
    found = []

    def capture(config: Any, *_others: Any, **_options: Any) -> None:
        found.append(config)
        raise KeyboardInterrupt

    command = importlib.import_module("implicit.train")  # the module, not the function of that name
    monkeypatch.setattr(command, "train", capture)
    point = Point(settings)
    program, arguments = point.command.split()[:3], point.command.split()[3:]
    assert program == ["python", "-m", "implicit.train"]
    with pytest.raises(KeyboardInterrupt):
        command.main(arguments)
    assert found == [point.config]


OVERRIDES = {"steps": 16, "task": "S3", "carried_share": 0.5, "sizes": {"lstm": {"d_model": 6}, "gru": {}}}


def test_overrides_replace_what_points_have_in_common_and_leave_what_tells_them_apart() -> None:
    base = {"steps": 8, "warmup_steps": 1, "task": "parity", "d_model": 4}
    grid = Grid({"model": ["lstm", "gru"], "carried_share": [0.0, 0.9], "seed": [0, 1]}, base)
    plain, other = Experiment("e", (grid,), ()), Experiment("e", (grid,), (), overrides=OVERRIDES)
    assert len(other.points) == len(plain.points) == 8
    for before, after in zip(plain.points, other.points, strict=True):
        assert after.settings == {**before.settings, "task": "S3"}
        assert (after.config.task, after.config.steps) == ("S3", 16)
        told = {"carried_share": after.config.curriculum.carried_share, "seed": after.seed}
        assert told.items() <= before.settings.items()
        assert after.config.sizes["d_model"] == (6 if after.config.model == "lstm" else 4)
        assert after.identifier != before.identifier


@pytest.mark.parametrize(
    ("file", "name"), [("s5", "s5_length_generalization"), ("few_hard_tokens", "hard_tokens_in_training")]
)
def test_settings_of_the_paper_are_those_of_the_experiment(file: str, name: str) -> None:
    """Every point is valid with them, and trained as their authors' public code says."""
    settings = read_settings(ROOT / "docs" / "examples" / "paper" / f"{file}.json")
    points = replace(figure_named(name), overrides=settings).experiment.points
    assert len(points) == len(figure_named(name).experiment.points)
    for config in (point.config for point in points):
        assert (config.steps, config.batch_size, config.length) == (16384, 512, 32 if file == "s5" else 256)
        assert config.task == ("S5" if file == "s5" else "A5xM")
        assert (config.curriculum.bounded_steps, config.curriculum.phantom_steps) == (4005, 4)
        assert config.sizes["d_model"] == 256
    for model, sizes in settings["sizes"].items():
        assert recipe(settings["task"], model, **sizes).sizes.items() >= sizes.items()


def test_other_settings_of_a_measurement_are_another_file() -> None:
    short, long, again = (Measurement("accuracy", accuracy, Length(length=n)) for n in (8, 16, 8))
    assert short.file_name == again.file_name != long.file_name


BASE = {"task": "parity", "model": "lstm", "seed": 0}
ONE = Measurement("a", accuracy)


def points(**settings: Any) -> Any:
    return Experiment("e", (Grid({"learning_rate": [1e-3]}, {**BASE, **settings}),), ()).points


test_refuses_a_bad_grid = refusals(
    (lambda: Grid({"steps": []}, BASE), "axis steps has no values"),
    (lambda: Grid({"seed": [1]}, BASE), "axis seed is set in the base as well"),
    (lambda: Grid({"seed": [1]}, {"task": "parity"}), "grid has no model"),
    (lambda: points(stepz=3), "field 'stepz' is unknown; did you mean 'steps'"),
    (lambda: points(task="partiy"), "did you mean 'parity'"),
    (lambda: points(steps=0), "steps is 0; it should be greater than 0"),
    (lambda: Measurement("training", accuracy), "is named 'training'"),
    (lambda: Measurement("a/b", accuracy), "letters, digits and underscores"),
    (lambda: Experiment("e", (), (ONE, ONE)), "measurement a is given twice"),
)
