"""The convergence figure draws what the analysis measured."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from analysis.convergence import MODES, ConvergenceSettings, analyse
from analysis.framework.figures import styled
from implicit.runs.loading import Run
from paper_figures.figures import convergence
from paper_figures.figures.figure import Results, RunRecipe
from paper_figures.stored_results import compact_json

SETTINGS = ConvergenceSettings(sequences=2, length=4, rtol=1e-4, max_iterations=200)


def test_lines_are_the_runs_and_their_mean(
    untrained: Callable[[RunRecipe], Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(convergence, "SETTINGS", SETTINGS)
    runs = {wanted: untrained(wanted) for wanted in convergence.FIGURE.runs[:2]}
    found: Results = json.loads(compact_json(convergence.compute(runs)))
    with styled():
        residual, position, cost = convergence.draw(found).axes
    analyses = [analyse(run, SETTINGS) for run in runs.values()]
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
