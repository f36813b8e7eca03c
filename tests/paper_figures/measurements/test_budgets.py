"""Accuracy against self-iterations at test."""

from collections.abc import Callable

from analysis.length_generalization import analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Point
from paper_figures.measurements.iterations import MODES, BudgetSettings, budgets
from paper_figures.registry import figure_named


def test_measure_is_the_analysis_with_that_limit(untrained: Callable[[Point], Run]) -> None:
    settings = BudgetSettings(budgets=(1, 16), length=6, sequences=4)
    run = untrained(figure_named("iterations_at_test").experiment.points[0])
    found = budgets(run, settings)
    for mode in MODES:
        for budget in (1, 16):
            (expected,) = (
                analyse(run, lengths=(6,), sequences=4, mode=mode, rtol=1e-3, max_iterations=budget)
                .numbers()
                .values()
            )
            assert found[mode]["accuracy"][str(budget)] == expected["accuracy"][6]
            assert found[mode]["share_converged"][str(budget)] == expected["share_converged"][6]
    assert found["sequential"]["share_converged"]["1"] < 1
