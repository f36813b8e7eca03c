"""Rows of a figure: the runs that belong to each; verdicts by a share of their runs, at the borders."""

from collections.abc import Sequence
from typing import Any

import pytest

from paper_figures.claims import ShareOfRuns
from paper_figures.figure import Variants
from paper_figures.rows import MeasuredRun, Rows, chosen_rows, rows_of, where

BASE = {"task": "S3", "model": "lstm", "steps": 200, "gradient_clip": 1.0}
VARIANTS = Variants(
    BASE,
    {
        "base": {},
        "no clipping": {"gradient_clip": None},
        "more lengths": {"evaluation_lengths": (16, 32)},
        "same as base, but a field": {"steps": 200, "carried_share": 0.0},
        "longer": {"steps": 400},
    },
    seeds={"base": 5, None: 2},
)


@pytest.mark.parametrize(
    ("settings", "label"),
    [
        (BASE, "base"),
        ({**BASE, "gradient_clip": None}, "no clipping"),  # None is a value
        ({"gradient_clip": None}, "no clipping"),  # what is that of the base may be left out
        ({**BASE, "evaluation_lengths": [16, 32]}, "more lengths"),  # lists in JSON
        ({**BASE, "steps": 400}, "longer"),
        ({**BASE, "task": "S5", "steps": 400}, "longer"),  # a file of settings has another task
    ],
)
def test_a_run_is_of_the_row_whose_differences_it_has(settings: dict[str, Any], label: str) -> None:
    assert VARIANTS.label({**settings, "seed": 4}) == label


def test_a_run_of_no_row_is_refused() -> None:
    with pytest.raises(StopIteration):
        VARIANTS.label({**BASE, "steps": 300, "seed": 0})


def test_every_row_has_its_seeds() -> None:
    assert [[point.seed for point in grid.points] for grid in VARIANTS.grids] == [
        [0, 1, 2, 3, 4],
        *[[0, 1]] * 4,
    ]


def run(model: str, seed: int, accuracy: float | None) -> MeasuredRun:
    values = {} if accuracy is None else {"accuracy": {"512": accuracy}}
    return MeasuredRun({"model": model, "seed": seed}, values, "failed" if accuracy is None else "done", {})


def test_runs_are_grouped_in_the_order_of_the_first_and_failed_ones_count() -> None:
    runs = [run("gru", 0, 0.5), run("lstm", 0, 0.99), run("gru", 1, None), run("lstm", 2, 0.989)]
    one, other = rows_of(runs)
    assert [(row.label, row.of, row.failed) for row in (one, other)] == [("GRU", 2, (1,)), ("LSTM", 2, ())]
    assert other.each("accuracy@512") == [0.99, 0.989]
    assert (one.reaching("accuracy@512", 0.0), other.reaching("accuracy@512", 0.99)) == (1, 1)
    assert chosen_rows([one, other], "LSTM") == chosen_rows([one, other], where(model="lstm")) == [other]


def test_rows_of_one_model_look_different() -> None:
    settings = [{"model": "lstm", "seed": 0, "layers": layers} for layers in (1, 2)]
    one, other = rows_of([MeasuredRun(chosen, {}, "done", {}) for chosen in settings])
    assert one.look.color == other.look.color
    assert one.look != other.look


def rows(**accuracies: Sequence[float | None]) -> Rows:
    """A row per model with an accuracy per seed; None is a run that failed."""
    return rows_of(run(model, *one) for model, of_model in accuracies.items() for one in enumerate(of_model))


RIGHT, WRONG = 0.99, 0.9899


@pytest.mark.parametrize(
    ("lstm", "gru", "word"),
    [
        ([RIGHT] * 5, [WRONG], "reproduced"),
        ([RIGHT] * 4 + [WRONG], [WRONG], "reproduced"),  # a share of 0.8
        ([RIGHT] * 4 + [None], [WRONG], "reproduced"),
        ([RIGHT] * 3 + [WRONG] * 2, [WRONG], "partly"),
        ([RIGHT] * 3 + [None] * 2, [WRONG], "partly"),  # of five, not of three
        ([RIGHT] * 5, [WRONG, RIGHT], "partly"),  # a control reaches it
        ([RIGHT] + [WRONG] * 4, [], "partly"),
        ([WRONG] * 5, [RIGHT], "not reproduced"),
        ([None] * 5, [WRONG], "not reproduced"),
    ],
)
def test_enough_runs_reach_it_and_no_control_does(
    lstm: list[float | None], gru: list[float | None], word: str
) -> None:
    claim = ShareOfRuns("accuracy@512", 0.99, "LSTM", reproduced=0.8, controls=where(model="gru"))
    verdict = claim(rows(lstm=lstm, gru=gru))
    assert verdict.word == word
    assert f"LSTM {lstm.count(RIGHT)} of {len(lstm)}" in verdict.because


def test_all_runs_are_needed_unless_a_share_is_given() -> None:
    claim = ShareOfRuns("accuracy@512", 0.99, where(model="lstm"))
    assert claim(rows(lstm=[RIGHT] * 4 + [WRONG], gru=[RIGHT])).word == "partly"
    assert claim(rows(lstm=[RIGHT] * 5, gru=[RIGHT])).word == "reproduced"  # it is no control
