"""Metrics against the norms that they are found for, and upper bounds against eigenvalues."""

import numpy as np
import pytest

from theory.rigorous.covers.contracting_metrics import contracting_metrics, upper_bound


@pytest.mark.parametrize("seed", range(5))
def test_an_upper_bound_is_above_both_and_touches_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (a @ a.T + 0.1 * np.eye(4) for a in rng.standard_normal((2, 4, 4)))
    above = upper_bound(first, second)
    lowest = [np.linalg.eigvalsh(above - other) for other in (first, second)]
    # rounding of matrices with entries of order ten
    assert min(values.min() for values in lowest) > -1e-10
    # minimal: what is above first is not above it in the directions where second is larger, and conversely
    zero = sum(int((np.abs(values) < 1e-9).sum()) for values in lowest)
    assert zero == 4


@pytest.mark.parametrize("seed", range(3))
def test_every_step_contracts_in_the_metrics(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sets, tokens, size = 12, 2, 5
    jacobians = rng.standard_normal((sets, tokens, size, size))
    targets = rng.integers(0, sets, (sets, tokens))
    # scaled so that products decay on every path: the largest norm of products of 8 steps is below 0.5⁸
    products = [[jacobians[i, x], int(targets[i, x])] for i in range(sets) for x in range(tokens)]
    growth = max(np.linalg.norm(matrix, 2) for matrix, _ in products)
    for _ in range(7):
        products = [
            [jacobians[end, x] @ matrix, int(targets[end, x])]
            for matrix, end in products
            for x in range(tokens)
        ]
    growth = max(np.linalg.norm(matrix, 2) for matrix, _ in products) ** (1 / 8)
    jacobians *= 0.5 / growth
    assert np.linalg.norm(jacobians, 2, axis=(2, 3)).max() > 0.6
    found = contracting_metrics(jacobians, targets, rate=0.8)
    assert found is not None
    metrics, inverses = found
    np.testing.assert_allclose(metrics @ inverses, np.broadcast_to(np.eye(size), metrics.shape), atol=1e-9)
    gains = np.linalg.norm(metrics[targets] @ jacobians @ inverses[:, None], 2, axis=(2, 3))
    # the iteration ends when the squared norms change by less than 0.003
    assert gains.max() < 0.8 * 1.01


def test_a_cycle_that_expands_has_no_metrics() -> None:
    # 0 → 1 → 0 expands by 1.2 · 1.0, though one of its steps contracts
    steps = np.array([[[[2.0]]], [[[0.6]]]])
    assert contracting_metrics(steps, np.array([[1], [0]]), rate=0.95) is None
    assert contracting_metrics(steps / 2, np.array([[1], [0]]), rate=0.95) is not None


@pytest.mark.parametrize("shear", [1.0, 30.0, 1000.0])
def test_metrics_of_a_step_that_is_far_from_normal(shear: float) -> None:
    """Products of [[1/2, b], [0, 1/2]] decay, after a growth by b: so far from round is the metric."""
    step = np.array([[[[0.5, shear], [0.0, 0.5]]]])
    found = contracting_metrics(step, np.zeros((1, 1), dtype=np.int64), rate=0.7)
    assert found is not None
    metric, inverse = found[0][0], found[1][0]
    assert np.linalg.norm(metric @ step[0, 0] @ inverse, 2) < 0.7 * 1.01  # as above
    assert np.linalg.cond(metric) > shear
    np.testing.assert_array_equal(np.tril(metric, -1), 0)  # upper triangular: what certificates store
    np.testing.assert_allclose(metric @ inverse, np.eye(2), atol=1e-9)


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e200])
def test_what_is_not_finite_has_no_metrics(number: float) -> None:
    steps = np.full((2, 1, 2, 2), number)
    assert contracting_metrics(steps, np.zeros((2, 1), dtype=np.int64), rate=0.9) is None
