"""Cells with and without the fixed point: twins of the same size and data, counted, drawn and judged."""

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.framework.palette import MODEL_LOOKS
from implicit.config.recipes import recipe
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import implicit_twins
from paper_figures.figures.figure import Results
from paper_figures.stored_results import StoredResults

POINTS = implicit_twins.EXPERIMENT.points
IDENTITY = RunIdentity("run", "parity", "implicit-mamba2", 10, 16, 0, "0" * 64)


def points_of(model: str) -> list[Point]:
    return [point for point in POINTS if point.config.model == model]


def outcome(point: Point, accuracy: float) -> Outcome:
    value = {"accuracy": {"16": 1.0, "256": accuracy}, "share_converged": None, "updates": 600}
    (measurement,) = implicit_twins.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "accuracy": Record.done(point, measurement, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """Implicit Mamba-2 solves parity in two runs of three; explicit Mamba-2 in none."""
    implicit, explicit = points_of("implicit-mamba2"), points_of("mamba2")
    outcomes = [outcome(point, share) for point, share in zip(implicit, (1.0, 0.99, 0.9), strict=True)]
    return implicit_twins.collect([*outcomes, *(outcome(point, 0.2) for point in explicit)])


def test_twins_have_the_same_sizes_and_see_the_same_data() -> None:
    for cell in implicit_twins.CELLS:
        for explicit, implicit in zip(points_of(cell), points_of(f"implicit-{cell}"), strict=True):
            one, other = explicit.config.flat(), implicit.config.flat()
            assert {name for name in one if one[name] != other[name]} <= {"model", "sizes"}
            sizes = implicit.config.sizes
            assert {name: sizes[name] for name in explicit.config.sizes} == explicit.config.sizes


def test_it_differs_from_the_recipe_of_parity_as_the_caption_says() -> None:
    named = {"length", "batch_size", "steps", "growth_accuracy"}
    named |= {"free_mode", "free_max_iterations", "free_rtol", "free_gradient"}
    named |= {"final_steps"}  # in proportion to the steps; without growth by accuracy nothing reads it
    for point in points_of("implicit-mamba2"):
        ours, theirs = point.config.flat(), recipe("parity", "implicit-mamba2", seed=point.seed).flat()
        assert {name for name in ours if ours[name] != theirs[name]} <= named


FULL = implicit_twins.FULL.points


def test_at_full_size_twins_have_the_same_sizes_too_and_256_features() -> None:
    for cell in implicit_twins.CELLS:
        explicit, implicit = (
            [point.config for point in FULL if point.config.model == name]
            for name in (cell, f"implicit-{cell}")
        )
        assert [config.seed for config in explicit] == [0, 1, 2]
        for one, other in zip(explicit, implicit, strict=True):
            assert (one.sizes["d_model"], one.length, one.steps * one.batch_size) == (256, 16, 2**23)
            assert {name: other.sizes[name] for name in one.sizes} == one.sizes
            before, after = one.flat(), other.flat()
            assert {name for name in before if before[name] != after[name]} == {"model", "sizes"}
    assert len(FULL) == 36


def test_at_full_size_the_caption_is_of_those_runs() -> None:
    outcomes = [outcome(point, float(point.config.model.startswith("implicit"))) for point in FULL]
    found = implicit_twins.collect(outcomes)
    text = implicit_twins.caption(found)
    assert (
        "One layer each. All models: 16,384 updates of 512 sequences of 16 tokens, width 256; the f" in text
    )
    assert "eigenvalues in [0, 1]; explicit Mamba-3, whose rotations can express parity, did not l" in text
    assert all(word not in text for word in ("recipe", "first wrong answer", "24 sweeps"))
    assert implicit_twins.judge(found).word == "reproduced"
    learnt = [outcome(point, 1.0) for point in FULL]
    assert "eigenvalues in [0, 1]. Shortcuts" in implicit_twins.caption(implicit_twins.collect(learnt))


def test_runs_that_solve_it_are_counted(found: Results) -> None:
    models = found["models"]
    assert (models["implicit-mamba2"]["solved"], models["implicit-mamba2"]["of"]) == (2, 3)
    assert (models["mamba2"]["solved"], models["mamba2"]["of"]) == (0, 3)
    text = implicit_twins.caption(found)
    assert text.endswith("of all: implicit Mamba-2 3 and 2 of 3; explicit Mamba-2 3 and 0 of 3.")
    assert "the others at 16 tokens: implicit Mamba-2 1.00, 1.00, 1.00" in implicit_twins.judge(found).because


def test_attention_has_more_updates_with_and_without_the_fixed_point_as_the_caption_says() -> None:
    updates = {(point.config.model, point.config.steps) for point in POINTS}
    attention = {("transformer", 2000), ("implicit-transformer", 2000)}
    assert {pair for pair in updates if pair[1] != 500} == attention
    text = implicit_twins.caption(implicit_twins.collect([]))
    assert (
        "500 updates (attention, with and without the fixed point: 2,000) of 32 sequences of 16 tok" in text
    )
    assert "at most 24 sweeps over all tokens, to a relative tolerance of 0.02, and without an end" in text
    assert all(point.config.sizes["mlp_size"] == 0 for point in POINTS)


def test_verdicts(found: Results) -> None:
    assert implicit_twins.judge(found).word == "partly"
    lifted = [outcome(point, 1.0) for point in points_of("implicit-deltanet")]
    explicit = [outcome(point, 0.5) for point in points_of("deltanet")]
    assert implicit_twins.judge(implicit_twins.collect(lifted + explicit)).word == "reproduced"
    solved = outcome(points_of("deltanet")[0], 1.0)
    assert implicit_twins.judge(implicit_twins.collect([*lifted, solved])).word == "partly"
    assert implicit_twins.judge(implicit_twins.collect(explicit)).word == "not reproduced"


def test_every_run_has_a_mark_in_the_row_of_its_cell(found: Results) -> None:
    with styled():
        trained, tested = implicit_twins.draw(found, 3.3).axes
    rows = [label.get_text() for label in trained.get_yticklabels()]
    assert rows == ["Mamba-2", "Mamba-3", "DeltaNet", "gated DeltaNet", "gated DeltaProduct", "Transformer"]
    implicit, explicit = tested.lines[:2]
    assert np.asarray(implicit.get_xdata()).tolist() == [1.0, 0.99, 0.9]
    assert np.asarray(explicit.get_xdata()).tolist() == [0.2] * 3
    assert implicit.get_color() == MODEL_LOOKS["implicit-mamba2"].color
    assert (np.abs(np.asarray(implicit.get_ydata(), dtype=float)) < 0.5).all()


def test_the_stored_results_hold_every_run() -> None:
    models = StoredResults.read("implicit_twins").results["models"]
    assert {
        (name, int(seed)) for name, group in models.items() for seed in [*group["seeds"], *group["failed"]]
    } == {(point.config.model, point.seed) for point in POINTS}
