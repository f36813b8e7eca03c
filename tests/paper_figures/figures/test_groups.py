"""Runs are grouped by what they share, and drawn so that no two groups look the same."""

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.framework.output import RunIdentity
from analysis.framework.palette import MODEL_LOOKS, Look
from analysis.framework.run_lines import draw_runs
from paper_figures.experiments.grid import Grid
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.records import Record
from paper_figures.figures.groups import Group, group_label, group_looks, grouped

GRID = Grid({"model": ["mamba2", "lstm"], "carried_share": [0.0, 0.9], "seed": [0, 1]}, {"task": "parity"})


def outcome(number: int) -> Outcome:
    """Every third point fails."""
    point = GRID.points[number]
    identity = RunIdentity(point.name, "parity", "lstm", 1, 1, point.seed, "0" * 64)
    record = Record.done(point, None, identity, number, 0.0)
    if number % 3 == 2:
        record = Record.failed(point, None, ValueError("no"), None, 0.0)
    return Outcome(point, {"value": record}, complete=True)


def test_groups_hold_the_values_and_the_failures_of_their_seeds() -> None:
    groups = grouped([outcome(number) for number in range(8)], "value")
    shown: list[Any] = [
        (g["settings"]["model"], g["settings"]["carried_share"], g["seeds"], g["failed"]) for g in groups
    ]
    assert shown == [
        ("mamba2", 0.0, {"0": 0, "1": 1}, []),
        ("mamba2", 0.9, {"1": 3}, [0]),
        ("lstm", 0.0, {"0": 4}, [1]),
        ("lstm", 0.9, {"0": 6, "1": 7}, []),
    ]


def test_no_two_groups_look_the_same() -> None:
    models = ["mamba2", "lstm", "gru", "elman", "implicit-mamba2"]
    groups: list[Group] = [
        {"settings": {"task": "parity", "model": model, "carried_share": share}}
        for model in models
        for share in (0.0, 0.5, 0.9)
    ]
    looks = group_looks(groups)
    assert len({(look.color, str(look.dashes)) for look in looks}) == len(groups)
    assert len({group_label(group["settings"]) for group in groups}) == len(groups)
    for group, look in zip(groups, looks, strict=True):
        assert look.color == MODEL_LOOKS[group["settings"]["model"]].color


def test_draws_each_run_and_the_mean() -> None:
    axes = Figure().subplots()
    values = np.random.default_rng(0).normal(size=(3, 4))
    draw_runs(axes, range(4), values, Look("red", "^"), "LSTM")
    drawn = [np.asarray(line.get_ydata()) for line in axes.lines]
    np.testing.assert_allclose(drawn, [*values, values.sum(axis=0) / 3], rtol=1e-12)  # order of the sum
    assert [line.get_marker() for line in axes.lines] == ["None", "None", "None", "^"]


def test_draws_nothing_of_a_group_that_failed() -> None:
    axes = Figure().subplots()
    draw_runs(axes, range(4), [], Look("red"), "LSTM")
    assert len(axes.lines) == 0
