"""How far phantom gradients are off between tokens, against differences; the matrices of the Jacobian."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.needs import as_implicit
from analysis.jacobian import JacobianSettings, analyse
from implicit.fixed_point import Solution, Stopping
from implicit.gradients.rules import FactoredImplicit
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve, Windowed
from implicit.runs.loading import Run, load_run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Point
from paper_figures.figures.gradients import ReachSettings, _derivative, gradient_reach
from paper_figures.figures.jacobians import jacobians
from paper_figures.registry import figure_named
from theory.status import Status

REACH = ReachSettings(steps=(1, 2, 200), sequences=2, length=5, seed=3)


@pytest.fixture(scope="module")
def parity() -> Run:
    return load_run("parity")


def test_the_exact_derivative_is_that_of_differences(parity: Run) -> None:
    """Against central differences of the fixed points themselves, found anew in float64.

    A step of 1e-5 errs by 1e-10 of the third derivative, and by the tolerance of the fixed points, 1e-12,
    over the step: 1e-7 and less; 1e-5 is left for their condition.
    """
    model = as_implicit(parity).double()
    tokens = draw_batch(parity.task, 2, 4, 0, Stream.TEST)[0]
    solve = Solve(Windowed(block=None), stopping=Stopping(rtol=1e-12, max_iterations=4000))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        solution = model.fixed_points(tokens, solve=solve)
        direction = torch.randn(solution.value.shape[-1], generator=generator, dtype=torch.float64)
    exact = _derivative(model, tokens, solution, FactoredImplicit(), direction)
    shift = torch.randn(exact.shape, generator=generator, dtype=torch.float64)

    def last(step: float) -> float:
        hook = model.get_submodule("embedding").register_forward_hook(lambda m, i, out: out + step * shift)
        try:
            with torch.no_grad():
                return float((model.fixed_points(tokens, solve=solve).value[:, -1] @ direction).sum())
        finally:
            hook.remove()

    difference = (last(1e-5) - last(-1e-5)) / 2e-5
    assert float((exact * shift).sum()) == pytest.approx(difference, rel=1e-5)


def test_many_steps_are_exact_and_few_are_not(parity: Run) -> None:
    found = gradient_reach(parity, REACH)
    assert set(found["distance"]) == {"1", "2", "200"}
    assert [len(apart) for apart in found["distance"].values()] == [5] * 3
    assert max(found["distance"]["200"]) < 1e-6
    assert np.all(np.array(found["distance"]["1"]) > np.array(found["distance"]["2"]))
    assert np.all(np.array(found["norm"]) > 0)
    assert found["share_converged"] == 1.0


def test_where_fixed_points_are_not_reached_no_distance_is_told(
    parity: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = gradient_reach(parity, REACH.model_copy(update={"max_iterations": 3}))
    assert nothing == {"share_converged": 0.0, "norm": [], "distance": {}}
    solve = ImplicitModel.fixed_points

    def all_but_one(*arguments: Any, **options: Any) -> Solution:
        solution = solve(*arguments, **options)
        status = solution.status.clone()
        status[1, 4] = int(Status.MAX_ITERATIONS)
        return replace(solution, status=status)

    monkeypatch.setattr(ImplicitModel, "fixed_points", all_but_one)
    # one of two sequences of five tokens
    assert gradient_reach(parity, REACH) == {"share_converged": 0.9, "norm": [], "distance": {}}


@pytest.mark.parametrize("point", figure_named("jacobians").experiment.points, ids=lambda point: point.name)
def test_holds_the_matrices_of_the_analysis(point: Point, untrained: Callable[[Point], Run]) -> None:
    settings = JacobianSettings(states=4, sequences=4, length=8)
    found = jacobians(untrained(point), settings)
    expected = analyse(untrained(point), settings)
    assert expected.shown is not None
    block = expected.shown.state_block.numpy()
    assert found["shown"]["size"] == len(block) == 16
    assert found["theorem1"]["counts"] == expected.report.counts
    corner, zero = np.array(found["shown"]["corner"], dtype=float), block == 0
    assert (np.isfinite(corner) == ~zero).all()
    # logarithms are stored with two digits
    np.testing.assert_allclose(corner[~zero], np.log10(np.abs(block[~zero])), atol=0.00501)
