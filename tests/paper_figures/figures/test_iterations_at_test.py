"""Accuracy against self-iterations at test: what is measured, the least budget that does, and the verdict."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.length_generalization import analyse
from implicit.runs.loading import Run
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import curricula, iterations_at_test, s5_length_generalization
from paper_figures.figures.figure import Results
from paper_figures.stored_results import StoredResults

POINTS = iterations_at_test.EXPERIMENT.points
BUDGETS = iterations_at_test.SETTINGS.budgets
IDENTITY = RunIdentity("run", "parity", "implicit-mamba2", 10, 32, 0, "0" * 64)


def rising(at: int, best: float = 1.0) -> list[float]:
    """Right half of the time below a budget, and as good as it gets from there on."""
    return [best if budget >= at else 0.5 for budget in BUDGETS]


def outcome(point: Point, sequential: Sequence[float], simultaneous: Sequence[float]) -> Outcome:
    value: dict[str, Any] = {"chance": 0.5}
    for mode, line in (("sequential", sequential), ("simultaneous", simultaneous)):
        value[mode] = {
            "accuracy": {str(budget): share for budget, share in zip(BUDGETS, line, strict=True)},
            "share_converged": {str(budget): 1.0 for budget in BUDGETS},
        }
    (measurement,) = iterations_at_test.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "budgets": Record.done(point, measurement, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    """Parity needs 8 self-iterations sequentially and 64 sweeps, in each of three runs."""
    return iterations_at_test.collect([outcome(point, rising(8), rising(64)) for point in POINTS[:3]])


def test_runs_are_those_of_other_figures() -> None:
    others = {
        point.identifier
        for experiment in (curricula.EXPERIMENT, s5_length_generalization.EXPERIMENT)
        for point in experiment.points
    }
    mine = [point.identifier for point in POINTS]
    assert len(mine) == 9
    assert len(others & set(mine)) == 6  # S3 and S5; those on parity are of length_generalization


FULL = iterations_at_test.FULL.points


def test_at_full_size_the_tasks_differ_and_s5_is_that_of_the_length_generalization() -> None:
    configs = [point.config for point in FULL]
    assert [config.task for config in configs] == [task for task in ("parity", "A5", "S5") for _ in range(3)]
    one, *others = configs[::3]
    assert all((other.sizes, other.length) == (one.sizes, 32) for other in others)
    for step in (1, 4005, 4006, 16384):
        phases = [config.curriculum.phase(step, config.length) for config in configs]
        assert {phase.name for phase in phases} == {"bounded" if step <= 4005 else "free"}
        assert all((phase.gradient, phase.mode) == (phases[0].gradient, "simultaneous") for phase in phases)
        assert all((phase.random_starts, phase.contraction_weight) == (0, 0) for phase in phases)
        assert not any(phase.loss_until_error or phase.carried_share for phase in phases)
    shared = {point.identifier for point in s5_length_generalization.FULL.points}
    assert [point.identifier in shared for point in FULL] == [False] * 6 + [True] * 3


def test_at_full_size_the_caption_is_of_those_runs() -> None:
    found = iterations_at_test.collect([outcome(point, rising(8), rising(64)) for point in FULL])
    text = iterations_at_test.caption(found)
    assert "All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 upd" in text
    assert text.endswith(
        "parity sequential 8, simultaneous 64; A5 sequential 8, simultaneous 64; S5 seq"
        "uential 8, simultaneous 64."
    )
    assert "recipe" not in text
    with styled():
        assert len(iterations_at_test.draw(found, 6.75).axes[0].get_legend_handles_labels()[1]) == 3


def test_least_budget_is_the_first_that_is_as_good_as_the_largest(found: Results) -> None:
    group = found["tasks"]["parity"]
    assert iterations_at_test.sufficient_budget(group, "sequential") == 8
    assert iterations_at_test.sufficient_budget(group, "simultaneous") == 64
    assert "parity sequential 8, simultaneous 64." in iterations_at_test.caption(found)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (rising(8), "reproduced"),
        ([*rising(8)[:-1], 0.97], "partly"),  # more self-iterations than before, and worse
        ([0.95] + [1.0] * (len(BUDGETS) - 1), "partly"),  # hardly anything to gain
    ],
)
def test_verdicts(line: list[float], word: str) -> None:
    outcomes = [outcome(POINTS[0], line, rising(64)), outcome(POINTS[1], rising(4), rising(64))]
    assert iterations_at_test.judge(iterations_at_test.collect(outcomes)).word == word


def test_a_failed_run_leaves_the_claim_partly_and_flat_lines_refute_it() -> None:
    record = Record.failed(POINTS[1], None, ValueError("no luck"), None, 1.0)
    lost = Outcome(POINTS[1], {"training": record}, complete=True)
    right = outcome(POINTS[0], rising(8), rising(64))
    verdict = iterations_at_test.judge(iterations_at_test.collect([right, lost]))
    assert verdict.word == "partly"
    assert "by 0.1 or more in 2 of 4 runs and modes, in 2 of them without a fall" in verdict.because
    flat = outcome(POINTS[0], [1.0] * len(BUDGETS), [1.0] * len(BUDGETS))
    assert iterations_at_test.judge(iterations_at_test.collect([flat])).word == "not reproduced"


def test_a_panel_per_mode_with_every_run(found: Results) -> None:
    with styled():
        sequential, simultaneous = iterations_at_test.draw(found, 6.75).axes
    assert (sequential.get_title(), simultaneous.get_title()) == ("sequential mode", "simultaneous mode")
    thin = [np.asarray(line.get_ydata()).tolist() for line in sequential.lines if line.get_linewidth() == 0.6]
    assert thin == [rising(8)] * 3


def test_measure_is_the_analysis_with_that_limit(untrained: Callable[[Point], Run]) -> None:
    settings = iterations_at_test.BudgetSettings(budgets=(1, 16), length=6, sequences=4)
    run = untrained(POINTS[0])
    found = iterations_at_test.measure(run, settings)
    for mode in iterations_at_test.MODES:
        for budget in (1, 16):
            (expected,) = (
                analyse(run, lengths=(6,), sequences=4, mode=mode, rtol=1e-3, max_iterations=budget)
                .numbers()
                .values()
            )
            assert found[mode]["accuracy"][str(budget)] == expected["accuracy"][6]
            assert found[mode]["share_converged"][str(budget)] == expected["share_converged"][6]
    assert found["sequential"]["share_converged"]["1"] < 1


def test_the_stored_results_hold_every_run() -> None:
    tasks = StoredResults.read("iterations_at_test").results["tasks"]
    assert list(tasks) == ["parity", "S3", "S5-generators"]
    assert all(
        sorted([*group["seeds"], *map(str, group["failed"])]) == ["0", "1", "2"] for group in tasks.values()
    )
