"""The convergence figure draws what the analysis measured."""

from collections.abc import Callable

import numpy as np

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import styled
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.figures import convergence

SETTINGS = ConvergenceSettings(sequences=2, length=4, rtol=1e-4, max_iterations=200)
MEASUREMENT = Measurement("convergence", convergence.measure, SETTINGS)


def test_lines_are_the_runs_and_their_mean(
    untrained: Callable[[Point], Run], measured: Callable[..., list[Outcome]]
) -> None:
    points = list(convergence.EXPERIMENT.points[:2])
    found = convergence.collect(measured(points, MEASUREMENT), SETTINGS)
    with styled():
        residual, position, cost = convergence.draw(found, 6.75).axes
    analyses = [analyse(untrained(point), SETTINGS) for point in points]
    for number, mode in enumerate(MODES):
        medians = [np.median(of.modes[mode].iterations, axis=0) for of in analyses]
        drawn = [np.asarray(line.get_ydata()) for line in position.lines[3 * number : 3 * number + 3]]
        np.testing.assert_array_equal(drawn, [*medians, np.mean(medians, axis=0)])
        evaluations = [of.modes[mode].evaluations(4, shared=mode == "simultaneous") for of in analyses]
        last = [np.asarray(line.get_ydata())[-1] for line in cost.lines[3 * number : 3 * number + 3]]
        # Numbers went through text, and the mean is summed in another order.
        np.testing.assert_allclose(last, np.append(evaluations, np.mean(evaluations)), rtol=1e-12)
        history = np.median(analyses[0].modes[mode].history, axis=0)
        np.testing.assert_allclose(np.asarray(residual.lines[number].get_ydata()), history, rtol=1e-12)
    shares = [min(of.modes[mode].share_converged for of in analyses) for mode in MODES]
    assert f"simultaneous {shares[0]:.2%}; sequential {shares[1]:.2%}" in convergence.caption(found)


def test_without_the_first_seed_the_next_one_is_shown(measured: Callable[..., list[Outcome]]) -> None:
    points = list(convergence.EXPERIMENT.points[:2])
    found = convergence.collect(measured(points, MEASUREMENT, (points[0],)), SETTINGS)
    with styled():
        assert convergence.draw(found, 6.75).axes[0].get_title() == "residual over tokens (seed 1)"


def test_an_experiment_of_which_all_failed_is_drawn_empty(measured: Callable[..., list[Outcome]]) -> None:
    points = list(convergence.EXPERIMENT.points[:2])
    stored = convergence.FIGURE.stored(measured(points, MEASUREMENT, tuple(points)))
    assert [len(axes.lines) for axes in convergence.FIGURE.picture(stored).axes] == [1, 0, 0]
    assert "Training runs: 2, 2 failed: implicit-mamba2 0 of 2 (failed: 0, 1)." in (
        convergence.FIGURE.full_caption(stored)
    )
