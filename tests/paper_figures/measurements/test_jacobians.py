"""The numbers of the Jacobian figure against the analysis and NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from analysis.jacobian import JacobianSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Point
from paper_figures.figures.jacobians import jacobians
from paper_figures.registry import figure_named

SETTINGS = JacobianSettings(states=4, sequences=4, length=8)


@pytest.mark.parametrize("point", figure_named("jacobians").experiment.points, ids=lambda point: point.name)
def test_holds_the_matrices_of_the_analysis(point: Point, untrained: Callable[[Point], Run]) -> None:
    found = jacobians(untrained(point), SETTINGS)
    expected = analyse(untrained(point), SETTINGS)
    assert expected.shown is not None
    block = expected.shown.state_block.numpy()
    assert found["shown"]["size"] == len(block) == 16
    assert found["theorem1"]["counts"] == expected.report.counts
    corner, zero = np.array(found["shown"]["corner"], dtype=float), block == 0
    assert (np.isfinite(corner) == ~zero).all()
    # logarithms are stored with two digits
    np.testing.assert_allclose(corner[~zero], np.log10(np.abs(block[~zero])), atol=0.00501)
