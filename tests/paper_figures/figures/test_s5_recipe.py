"""The recipe of S5 and its variants: which runs there are, what is counted, drawn and said."""

from typing import Any

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import s5_recipe
from paper_figures.figures.figure import Results
from paper_figures.figures.variants import variant_of
from paper_figures.stored_results import StoredResults

POINTS = s5_recipe.EXPERIMENT.points
IDENTITY = RunIdentity("run", "S5-generators", "implicit-mamba2", 10, 40, 0, "0" * 64)


def outcome(point: Point, shorter: float, accuracy: float) -> Outcome:
    values = {
        "accuracy": {
            "accuracy": {"40": 1.0, "256": shorter, "1024": accuracy},
            "share_converged": {},
            "updates": 1500,
        },
        "agreement": {"agree": accuracy / 2, "same_answer": 1.0},
    }
    records = {"training": Record.done(point, None, IDENTITY, None, 1.0)}
    for measurement in s5_recipe.EXPERIMENT.measurements:
        value = values[measurement.name]
        records[measurement.name] = Record.done(point, measurement, IDENTITY, value, 2.0)
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """Four seeds of the recipe keep S5, the fifth to 256 tokens only; of the next row one run failed."""
    failed = Record.failed(POINTS[5], None, ValueError("no luck"), None, 1.0)
    return s5_recipe.collect(
        [
            *(outcome(point, 1.0, 0.99) for point in POINTS[:4]),
            outcome(POINTS[4], 0.99, 0.5),
            Outcome(POINTS[5], {"training": failed}, complete=True),
            outcome(POINTS[6], 0.989, 0.6),
        ]
    )


def test_the_recipe_has_five_seeds_and_every_other_row_three() -> None:
    names = [variant_of(point.all_settings, s5_recipe.VARIANTS) for point in POINTS]
    recipe, *others = s5_recipe.VARIANTS
    assert names == [recipe] * 5 + [name for name in others for _ in range(3)]
    assert [point.seed for point in POINTS] == [0, 1, 2, 3, 4] + [0, 1, 2] * len(others)


def test_variants_change_what_they_say_and_nothing_else() -> None:
    recipe = POINTS[0].config.flat()
    for point in POINTS:
        changed = s5_recipe.VARIANTS[variant_of(point.all_settings, s5_recipe.VARIANTS)]
        found, expected = point.config.flat(), {**recipe, **changed, "seed": point.seed}
        if "steps" in changed:  # fewer steps shorten the final phase, which nothing reads without accuracy
            assert found["growth_accuracy"] is None
            found["final_steps"] = recipe["final_steps"]
        assert found == expected
        assert changed.items() <= found.items()
        assert all(recipe[name] != value for name, value in changed.items())


def test_runs_are_counted_and_told(found: Results) -> None:
    assert s5_recipe.judge(found).word == "reproduced"
    caption = s5_recipe.caption(found)
    assert "at 1,024 tokens: recipe 4 of 5, all begin anew 0 of 2" in caption
    assert "at 256: recipe 5 of 5, all begin anew 0 of 2" in caption


@pytest.mark.parametrize(("right", "word"), [(0, "not reproduced"), (3, "partly"), (4, "reproduced")])
def test_the_claim_asks_for_four_seeds_of_five(right: int, word: str) -> None:
    assert s5_recipe.judge({"variants": {"recipe": {"solved": right, "of": 5}}}).word == word


def test_every_run_has_a_mark_in_its_row(found: Results) -> None:
    with styled():
        accuracy, agreement, updates = s5_recipe.draw(found, 6.75).axes
    assert [label.get_text() for label in accuracy.get_yticklabels()] == list(s5_recipe.VARIANTS)
    drawn: list[tuple[Any, list[list[float]]]] = [
        (accuracy, [[0.99] * 4 + [0.5], [0.6]]),
        (agreement, [[0.495] * 4 + [0.25], [0.3]]),
        (updates, [[1500] * 5, [1500]]),
    ]
    for axes, expected in drawn:
        for row, values in enumerate(expected):
            assert np.asarray(axes.lines[row].get_xdata()).tolist() == values
            assert (np.abs(np.asarray(axes.lines[row].get_ydata(), dtype=float) - row) < 0.5).all()


def test_the_stored_results_hold_every_seed() -> None:
    variants = StoredResults.read("s5_recipe").results["variants"]
    assert list(variants) == list(s5_recipe.VARIANTS)
    for name, variant in variants.items():
        assert sorted(variant["seeds"]) == [str(seed) for seed in s5_recipe.SEEDS[name]]
    assert variants["recipe"]["solved"] >= 4
