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
    source = np.arange(sets)[:, None]
    gains = np.linalg.norm(metrics[targets] @ jacobians @ inverses[source], 2, axis=(2, 3))
    # the iteration ends when the squared norms change by less than 0.003
    assert gains.max() < 0.8 * 1.01


def test_a_cycle_that_expands_has_no_metrics() -> None:
    # 0 → 1 → 0 expands by 1.2 · 1.0, though one of its steps contracts
    steps = np.array([[[[2.0]]], [[[0.6]]]])
    assert contracting_metrics(steps, np.array([[1], [0]]), rate=0.95) is None
    assert contracting_metrics(steps / 2, np.array([[1], [0]]), rate=0.95) is not None
