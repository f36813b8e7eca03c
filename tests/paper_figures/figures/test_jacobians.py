"""The numbers of the Jacobian figure against the analysis and NumPy, and the drawing against the numbers."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from analysis.framework.figures import styled
from analysis.jacobian.measurement import JacobianSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.figures import jacobians
from paper_figures.figures.figure import Results

SETTINGS = JacobianSettings(states=4, sequences=4, length=8)
MEASUREMENT = Measurement("jacobians", jacobians.measure, SETTINGS)


@pytest.fixture(scope="module")
def outcomes(measured: Callable[..., list[Outcome]]) -> Iterator[list[Outcome]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jacobians, "CELLS", 5)
        yield measured(list(jacobians.EXPERIMENT.points), MEASUREMENT)


@pytest.fixture(scope="module")
def found(outcomes: list[Outcome]) -> Results:
    return jacobians.collect(outcomes, SETTINGS)


def test_holds_the_matrices_of_the_analysis(found: Results, untrained: Callable[[Point], Run]) -> None:
    assert [group["settings"]["model"] for group in found["groups"]] == ["mamba2", "implicit-mamba2"]
    for point, group in zip(jacobians.EXPERIMENT.points, found["groups"], strict=True):
        expected = analyse(untrained(point), SETTINGS)
        assert expected.shown is not None
        block = expected.shown.state_block.numpy()
        shown = group["seeds"]["0"]["shown"]
        assert shown["size"] == len(block) == 16
        assert group["seeds"]["0"]["theorem1"]["counts"] == expected.report.counts
        corner = np.array(shown["corner"], dtype=float)  # None becomes NaN
        assert (np.isnan(corner) == (block == 0)).all()
        nonzero = block != 0
        # Logarithms are stored with two digits.
        np.testing.assert_allclose(corner[nonzero], np.log10(np.abs(block[nonzero])), atol=0.00501)


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


def test_draws_zero_as_nothing_and_the_rest_as_it_is(found: Results) -> None:
    with styled():
        figure = jacobians.draw(found, 6.75)
    explicit, implicit = (
        np.ma.getmaskarray(np.ma.asarray(axes.images[0].get_array())) for axes in figure.axes[3:5]
    )
    off_diagonal = ~np.eye(16, dtype=bool)
    assert explicit[off_diagonal].all()
    assert not explicit.diagonal().any()
    assert not implicit[off_diagonal].all()


def test_titles_tell_the_verdicts(found: Results) -> None:
    with styled():
        titles = [axes.get_title() for axes in jacobians.draw(found, 6.75).axes[:2]]
    assert titles[0] == "explicit Mamba-2:\nTheorem 1 fails"
    verdict = found["groups"][1]["seeds"]["0"]["theorem1"]["verdict"]
    assert titles[1] == f"implicit Mamba-2:\nTheorem 1 {verdict}"
    assert "explicit Mamba-2: fails at 4 states" in jacobians.caption(found)


@pytest.mark.parametrize("failed", [[0], [1], [0, 1]], ids=str)
def test_a_model_whose_run_failed_is_left_out(
    failed: list[int], outcomes: list[Outcome], measured: Callable[..., list[Outcome]]
) -> None:
    points = list(jacobians.EXPERIMENT.points)
    again = [
        measured([point], MEASUREMENT, (point,))[0] if number in failed else outcomes[number]
        for number, point in enumerate(points)
    ]
    stored = jacobians.FIGURE.stored(again)
    images = [axes for axes in jacobians.FIGURE.picture(stored).axes if axes.images]
    assert len(images) == 2 * (2 - len(failed))
    assert f"Training runs: 2, {len(failed)} failed" in jacobians.FIGURE.full_caption(stored)
