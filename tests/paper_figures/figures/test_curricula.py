"""What training needs: every point has its variant, what is measured, counted, drawn, and stored."""

from typing import Any

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.framework.palette import MODEL_LOOKS
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import curricula
from paper_figures.figures.figure import Results
from paper_figures.figures.variants import variant_of
from paper_figures.stored_results import StoredResults

POINTS = curricula.EXPERIMENT.points
IDENTITY = RunIdentity("run", "S3", "implicit-mamba2", 10, 32, 0, "0" * 64)


def outcome(point: Point, accuracy: float, updates: int) -> Outcome:
    value = {"accuracy": {"32": 1.0, "512": accuracy}, "share_converged": {}, "updates": updates}
    compared = {"agree": accuracy / 2, "same_answer": 1.0}
    accuracies, modes = curricula.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "accuracy": Record.done(point, accuracies, IDENTITY, value, 2.0),
        "agreement": Record.done(point, modes, IDENTITY, compared, 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """The first variant solves S3 in two seeds of three, the second in one; one of its runs failed."""
    outcomes = [
        outcome(POINTS[0], 1.0, 600),
        outcome(POINTS[1], 0.99, 700),
        outcome(POINTS[2], 0.989, 800),
        outcome(POINTS[3], 1.0, 500),
        Outcome(
            POINTS[4],
            {"training": Record.failed(POINTS[4], None, ValueError("no luck"), None, 1.0)},
            complete=True,
        ),
    ]
    return curricula.collect(outcomes)


def test_every_variant_is_trained_with_three_seeds() -> None:
    names = [variant_of(point.all_settings, curricula.VARIANTS) for point in POINTS]
    assert names == [name for name in curricula.VARIANTS for _ in range(3)]
    assert [point.seed for point in POINTS] == [0, 1, 2] * len(curricula.VARIANTS)


def test_variants_change_what_they_say_and_nothing_else() -> None:
    recipe = POINTS[0].config.flat()
    for point in POINTS[::3]:
        changed = curricula.VARIANTS[variant_of(point.all_settings, curricula.VARIANTS)]
        expected: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in {**recipe, **changed}.items()
        }
        assert point.config.flat() == expected


def test_runs_that_solve_it_are_counted(found: Results) -> None:
    first, second, *others = found["variants"].values()
    assert (first["solved"], first["of"], first["failed"]) == (2, 3, [])
    assert (second["solved"], second["of"], second["failed"]) == (1, 2, [1])
    assert all(variant["of"] == 0 for variant in others)
    assert "recipe 2 of 3, from zero 1 of 2" in curricula.caption(found)


def test_every_run_has_a_mark_in_its_row(found: Results) -> None:
    with styled():
        accuracy, agreement, updates = curricula.draw(found, 6.75).axes
    assert [label.get_text() for label in accuracy.get_yticklabels()] == list(curricula.VARIANTS)
    for axes, expected in (
        (accuracy, [[1.0, 0.99, 0.989], [1.0]]),
        (agreement, [[0.5, 0.495, 0.4945], [0.5]]),
        (updates, [[600, 700, 800], [500]]),
    ):
        for row, values in enumerate(expected):
            assert np.asarray(axes.lines[row].get_xdata()).tolist() == values
            assert (np.abs(np.asarray(axes.lines[row].get_ydata(), dtype=float) - row) < 0.5).all()
            assert axes.lines[row].get_color() == MODEL_LOOKS["implicit-mamba2"].color


def test_the_stored_results_hold_every_seed_and_the_recipe_solves_s3() -> None:
    variants = StoredResults.read("curricula").results["variants"]
    assert list(variants) == list(curricula.VARIANTS)
    assert all(sorted(variant["seeds"]) == ["0", "1", "2"] for variant in variants.values())
    assert variants["recipe"]["solved"] == 3
    assert all(run["agree"] >= 0.999 for run in variants["recipe"]["seeds"].values())
