"""The numbers of the Jacobian figure against the analysis and NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from analysis.jacobian import JacobianSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Point
from paper_figures.measurements import jacobians
from paper_figures.registry import figure_named

SETTINGS = JacobianSettings(states=4, sequences=4, length=8)


@pytest.mark.parametrize("point", figure_named("jacobians").experiment.points, ids=lambda point: point.name)
def test_holds_the_matrices_of_the_analysis(point: Point, untrained: Callable[[Point], Run]) -> None:
    found = jacobians.jacobians(untrained(point), SETTINGS)
    expected = analyse(untrained(point), SETTINGS)
    assert expected.shown is not None
    block = expected.shown.state_block.numpy()
    assert found["shown"]["size"] == len(block) == 16
    assert found["theorem1"]["counts"] == expected.report.counts
    corner, zero = np.array(found["shown"]["corner"], dtype=float), block == 0
    assert (np.isfinite(corner) == ~zero).all()
    # logarithms are stored with two digits
    np.testing.assert_allclose(corner[~zero], np.log10(np.abs(block[~zero])), atol=0.00501)


@pytest.mark.parametrize(("size", "cells"), [(12, 4), (7, 3), (3, 8)])
def test_root_mean_squares_keep_the_norm(size: int, cells: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(size, size))
    image = jacobians.root_mean_squares(matrix, cells)
    assert image.shape == (min(size, cells),) * 2
    starts = [size * cell // cells for cell in range(cells)] if size >= cells else list(range(size))
    widths = np.diff([*starts, size])
    # The squares are only summed in another order.
    np.testing.assert_allclose((image**2 * np.outer(widths, widths)).sum(), (matrix**2).sum(), rtol=1e-12)
    np.testing.assert_allclose(image[0, -1] ** 2, (matrix[: widths[0], starts[-1] :] ** 2).mean(), rtol=1e-12)
