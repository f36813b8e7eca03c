"""Bounded and free training: which runs there are, what is measured, drawn and said, and the verdict."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.length_generalization import LengthSettings
from implicit.gradients import Unrolled
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import (
    bounded_and_free,
    bounded_measured,
    curricula,
    s5_length_generalization,
)
from paper_figures.figures.figure import Results
from paper_figures.figures.variants import variant_of
from paper_figures.stored_results import StoredResults

POINTS = bounded_and_free.EXPERIMENT.points
IDENTITY = RunIdentity("run", "S3", "implicit-mamba2", 10, 32, 0, "0" * 64)
PUBLISHED, FREE = slice(3, 6), slice(12, 15)
"""The points of the curricula that the claim is about, by seed."""


def outcome(point: Point, short: float, long: float, cost: float) -> Outcome:
    counted = {"updates": 1500, "bounded_updates": 0, "tokens": 100, "bounded_tokens": 72, "total": cost}
    values = {
        "accuracy": {
            "accuracy": {"32": short, "512": long},
            "share_converged": {"512": 1.0},
            "updates": 1500,
        },
        "bounded_accuracy": {"32": short / 2, "512": long / 2},
        "training_cost": counted,
    }
    records = {"training": Record.done(point, None, IDENTITY, None, 1.0)}
    for measurement in bounded_and_free.EXPERIMENT.measurements:
        value = values[measurement.name]
        records[measurement.name] = Record.done(point, measurement, IDENTITY, value, 2.0)
    return Outcome(point, records, complete=True)


def failed(point: Point) -> Outcome:
    record = Record.failed(point, None, ValueError("no luck"), None, 1.0)
    return Outcome(point, {"training": record}, complete=True)


def found_with(switched: list[tuple[float, float, float]], free: list[tuple[float, float, float]]) -> Results:
    """Accuracy at both lengths and cost, of the runs that switch at 80% and of those that are free only."""
    pairs = [*zip(POINTS[PUBLISHED], switched, strict=True), *zip(POINTS[FREE], free, strict=True)]
    return bounded_and_free.collect([outcome(point, *numbers) for point, numbers in pairs])


GOOD, DEAR = (1.0, 1.0, 30e6), (1.0, 1.0, 40e6)


def test_every_curriculum_is_trained_with_three_seeds() -> None:
    names = [variant_of(point.all_settings, bounded_and_free.CURRICULA) for point in POINTS]
    assert names == [name for name in bounded_and_free.CURRICULA for _ in range(3)]
    assert [point.seed for point in POINTS] == [0, 1, 2] * 6
    assert {point.config.curriculum.bounded_steps for point in POINTS[PUBLISHED]} == {1200}
    recipe = {point.identifier for point in curricula.EXPERIMENT.points[:3]}
    assert {point.identifier for point in POINTS[-3:]} == recipe


def test_curricula_by_step_number_differ_in_the_switch_only() -> None:
    for seed in range(3):
        configs = [point.config for point in POINTS[:15] if point.seed == seed]
        assert [config.curriculum.bounded_steps for config in configs] == [1500, 1200, 750, 300, 0]
        assert len({config.updated(bounded_steps=0).model_dump_json() for config in configs}) == 1
        phases = [[config.curriculum.phase(step, 32) for step in (1, 300, 1500)] for config in configs]
        assert all([phase.length for phase in of_one] == [4, 12, 32] for of_one in phases)
        assert [of_one[0].name for of_one in phases] == ["bounded"] * 4 + ["free"]
        assert all(of_one[0].gradient == Unrolled(4) for of_one in phases[:4])


FULL = bounded_and_free.FULL.points
SWITCHES = {
    "bounded only": 16384,
    "switch at 80%": 13107,
    "switch at 50%": 8192,
    "switch at 24%": 4005,
    "switch at 20%": 3277,
    "free only": 0,
}
"""Updates of the bounded phase at full size: shares of 16,384, and 4,005 as in the public code."""


def test_at_full_size_the_switch_differs_and_one_is_that_of_the_length_generalization() -> None:
    assert [(point.config.curriculum.bounded_steps, point.seed) for point in FULL] == [
        (updates, seed) for updates in SWITCHES.values() for seed in range(3)
    ]
    for seed in range(3):
        configs = [point.config for point in FULL if point.seed == seed]
        assert len({config.updated(bounded_steps=0).model_dump_json() for config in configs}) == 1
    others = {point.identifier for point in s5_length_generalization.FULL.points}
    shared = [point for point in FULL if point.identifier in others]
    assert [point.config.curriculum.bounded_steps for point in shared] == [4005] * 3


def test_at_full_size_the_caption_and_the_verdict_are_of_those_runs() -> None:
    outcomes = [outcome(point, 1.0, 0.75 if point in FULL[3:6] else 1.0, 2e12) for point in FULL]
    found = bounded_and_free.collect(outcomes)
    assert list(found["curricula"]) == list(SWITCHES)
    text = bounded_and_free.caption(found)
    assert text.startswith("Accuracy of implicit Mamba-2 on S5 and what its training cost")
    assert "at most 200 self-iterations per token, which all tokens reached; the second row" in text
    assert "the same 16,384 updates of 512 sequences of 32 tokens, width 256. " in text
    assert "Free: at most 32 to a relative tolerance of 0.05 and phantom gradients of 4 steps. No p" in text
    assert "recorded every 512 updates" in text
    assert "switch at 80% 0.750, 0.750, 0.750 for 2000000.0 million; switch at 50% 1.000" in text
    assert all(word not in text for word in ("S3", "recipe", "1,500", "batches of 64"))
    cheaper = [outcome(point, 1.0, 1.0, 1.0 if point in FULL[9:12] else 2.0) for point in FULL]
    verdict = bounded_and_free.judge(bounded_and_free.collect(cheaper))
    assert verdict.word == "not reproduced"  # the claim is of 80%
    assert "80% 0 of 3, switch at 50% 0 of 3, switch at 24% 3 of 3, switch at 20% 0 of 3" in verdict.because
    with styled():
        panels = bounded_and_free.draw(found, 6.75).axes
    dotted = [line for line in panels[0].lines if line.get_linestyle() == ":"]
    assert [list(np.asarray(line.get_xdata())) for line in dotted] == [[1 / 120] * 2]


@pytest.mark.parametrize(
    ("switched", "free", "word", "said"),
    [
        ([GOOD] * 3, [DEAR] * 3, "reproduced", "switch at 80% 3 of 3"),
        ([(0.99, 0.99, 30e6)] * 3, [DEAR] * 3, "reproduced", "switch at 80% 3 of 3"),  # within the tolerance
        (
            [(1.0, 0.98, 30e6), GOOD, GOOD],
            [DEAR] * 3,
            "partly",
            "switch at 80% 2 of 3",
        ),  # worse beyond training
        (
            [(0.98, 1.0, 30e6), GOOD, GOOD],
            [DEAR] * 3,
            "partly",
            "switch at 80% 2 of 3",
        ),  # worse at its length
        ([GOOD] * 3, [GOOD] * 3, "not reproduced", "switch at 80% 0 of 3"),  # as good, and not cheaper
        (
            [(0.2, 0.2, 30e6)] * 3,
            [(0.2, 0.2, 40e6)] * 3,
            "partly",
            "at 32 tokens in 0 of 3",
        ),  # alike, and bad
        ([(0.2, 0.2, 30e6)] * 3, [DEAR] * 3, "not reproduced", "switch at 80% 0 of 3"),
    ],
)
def test_verdicts(switched: list[Any], free: list[Any], word: str, said: str) -> None:
    verdict = bounded_and_free.judge(found_with(switched, free))
    assert verdict.word == word
    assert said in verdict.because


def test_the_verdict_tells_the_cost_and_counts_a_failed_run_as_a_seed() -> None:
    verdict = bounded_and_free.judge(found_with([GOOD] * 3, [DEAR] * 3))
    assert verdict.because.endswith("; cost at 80%: 0.75 of free only")
    outcomes = [outcome(point, *GOOD) for point in POINTS[PUBLISHED]]
    outcomes += [outcome(point, *DEAR) for point in POINTS[FREE][:2]] + [failed(POINTS[14])]
    verdict = bounded_and_free.judge(bounded_and_free.collect(outcomes))
    assert verdict.word == "partly"
    assert "switch at 80% 2 of 3" in verdict.because


def test_every_run_has_a_mark_in_its_row() -> None:
    outcomes = [outcome(point, 0.9, place / 20, (place + 1) * 1e6) for place, point in enumerate(POINTS)]
    with styled():
        short, long, cost = bounded_and_free.draw(bounded_and_free.collect(outcomes), 6.75).axes
    names = [label.get_text() for label in short.get_yticklabels()]
    assert names[:2] == ["bounded only", "bounded only,\n4 sweeps at test"]
    assert [*names[:1], *names[2:]] == list(bounded_and_free.CURRICULA)
    places = [[0, 1, 2], [0, 1, 2], *([3 * row, 3 * row + 1, 3 * row + 2] for row in range(1, 6))]
    for row, of_row in enumerate(places):
        halved = 0.5 if row == 1 else 1.0
        for axes, expected in (
            (short, [0.9 * halved] * 3),
            (long, [halved * place / 20 for place in of_row]),
            (cost, [place + 1 for place in of_row]),
        ):
            assert np.asarray(axes.lines[row].get_xdata()).tolist() == expected
            assert (np.abs(np.asarray(axes.lines[row].get_ydata(), dtype=float) - row) < 0.5).all()
        assert cost.get_xlim()[1] > 18  # the last cost


def test_bounded_accuracy_is_that_of_so_many_sweeps_on_the_same_sequences(
    untrained: Callable[[Point], Run],
) -> None:
    run = untrained(POINTS[0])
    lengths = LengthSettings(lengths=(12, 20), sequences=6, batch_size=4)
    found = bounded_measured.measure_bounded(
        run, bounded_measured.BoundedSettings(iterations=2, lengths=lengths)
    )
    right = []
    for index, size in enumerate((4, 2)):  # as `analysis.length_generalization` draws them
        batch = draw_batch(run.task, size, 20, 0, Stream.TEST, 20, index)
        output = run.model.run(batch.tokens, solve=Solve("simultaneous", gradient=Unrolled(2)))
        assert output.solution is not None
        assert (output.solution.iterations == 2).all()
        right.append((output.logits.argmax(dim=-1) == batch.targets).numpy())
    correct = np.concatenate(right)
    assert found == {"12": correct[:, 2:12].mean(), "20": correct[:, 10:20].mean()}


def test_measured_cost_is_that_of_the_run(untrained: Callable[[Point], Run]) -> None:
    run = replace(untrained(POINTS[0]), metrics=[{"step": 10, "phase": "bounded"}])
    found = bounded_measured.measure_cost(run, None)
    assert (found["updates"], found["tokens"], found["with_gradient"]) == (10, 10 * 64 * 4, 4 * 10 * 64 * 4)


def test_the_stored_results_hold_every_seed_and_the_caption_says_them() -> None:
    stored = StoredResults.read("bounded_and_free").results
    groups = stored["curricula"]
    assert list(groups) == list(bounded_and_free.CURRICULA)
    caption = bounded_and_free.caption(dict(stored))
    for name, group in groups.items():
        assert sorted(group["seeds"]) == ["0", "1", "2"]
        runs = [group["seeds"][seed] for seed in "012"]
        reached = ", ".join(f"{run['accuracy']['512']:.3f}" for run in runs)
        mean = sum(run["cost"]["total"] for run in runs) / 3e6
        assert f"{name} {reached} for {mean:.1f} million" in caption
        for run in runs:
            cost = run["cost"]
            assert cost["total"] == cost["without_gradient"] + 3 * cost["with_gradient"]
    shares = [
        min(run["share_converged"]["512"] for run in group["seeds"].values()) for group in groups.values()
    ]
    assert f"bounded only {shares[0]:.2f}, switch at 80% {shares[1]:.2f}, all others 1)" in caption
    assert shares[2:] == [1.0] * 4
    tokens = {run["cost"]["tokens"] for name in list(groups)[:5] for run in groups[name]["seeds"].values()}
    assert tokens == {64 * (125 * sum(range(4, 32, 4)) + 625 * 32)}


def test_the_recipe_is_as_accurate_as_in_the_figure_of_curricula() -> None:
    mine = StoredResults.read("bounded_and_free").results["curricula"]["by accuracy"]["seeds"]
    theirs = StoredResults.read("curricula").results["variants"]["recipe"]["seeds"]
    for seed, run in theirs.items():
        assert mine[seed]["accuracy"] == run["accuracy"]
        assert mine[seed]["cost"]["updates"] == run["updates"]
