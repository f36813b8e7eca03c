"""Derivatives carried by balls against automatic differentiation in float64."""

from typing import Any

import numpy as np
import pytest
import torch
from torch.func import jacrev
from torch.nn import functional

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.dual import join
from theory.rigorous.balls.functions import RULES

M = np.random.default_rng(0).normal(size=(4, 3))
X = np.array([0.3, -1.2, 2.0])
CASES: dict[str, tuple[Any, Any]] = {
    "product": (lambda x: x * x[[2, 0, 1]], lambda x: x * x[[2, 0, 1]]),
    "sum": (lambda x: x + x[[2, 0, 1]], lambda x: x + x[[2, 0, 1]]),
    "scaled": (lambda x: x.scaled(Ball.exact([2.0, -1.0, 0.5])), lambda x: x * torch.tensor([2.0, -1, 0.5])),
    "shifted": (lambda x: x.shifted(Ball.exact(1.5)), lambda x: x + 1.5),
    "mapped": (lambda x: x.mapped(Ball.exact(M)), lambda x: torch.from_numpy(M) @ x),
    "sums": (lambda x: (x * x).sums(3), lambda x: (x * x).sum()[None]),
    "repeat": (lambda x: x.repeat(2), lambda x: x.repeat_interleave(2)),
    "join": (lambda x: join([x, x * x]), lambda x: torch.cat([x, x * x])),
    "exp": (lambda x: x.exp(), torch.exp),
    "silu": (lambda x: x.silu(), functional.silu),
    "softplus": (lambda x: x.softplus(), functional.softplus),
    "difference": (lambda x: x * x - x, lambda x: x * x - x),
    "negative": (lambda x: -x, lambda x: -x),
    "reciprocal": (lambda x: (x * x).shifted(Ball.exact(1.0)).reciprocal(), lambda x: 1 / (x * x + 1)),
    "quotient": (lambda x: x / (x * x).shifted(Ball.exact(1.0)), lambda x: x / (x * x + 1)),
    "through": (lambda x: x.through(*RULES["tanh"]), torch.tanh),
    "rsqrt": (lambda x: (x * x).shifted(Ball.exact(1.0)).rsqrt(), lambda x: torch.rsqrt(x * x + 1)),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    ours, reference = CASES[name]
    found = ours(Dual.variable(Ball.exact(X[None]), columns=4))
    point = torch.from_numpy(X)
    # both are exact to about 1e-15; the balls' own bound is 2^-44
    np.testing.assert_allclose(found.value.midpoint[0], reference(point).numpy(), atol=1e-13)
    np.testing.assert_allclose(found.tangent.midpoint[0, :, :3], jacrev(reference)(point).numpy(), atol=1e-13)
    assert (found.tangent.radius < 1e-12).all()
    assert found.tangent[..., 3].is_zero.all()  # a direction that nothing depends on


@pytest.mark.parametrize("name", CASES)
def test_derivatives_over_a_ball_hold_those_at_its_points(name: str) -> None:
    ours, reference = CASES[name]
    found = ours(Dual.variable(Ball.around(X[None], 0.05), columns=3))
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        point = torch.from_numpy(X) + 0.05 * (2 * torch.rand(3, generator=generator, dtype=torch.float64) - 1)
        slack = 1e-12  # of the float64 reference
        value, slope = reference(point).numpy(), jacrev(reference)(point).numpy()
        assert (np.abs(value - found.value.midpoint[0]) <= found.value.radius[0] + slack).all()
        assert (np.abs(slope - found.tangent.midpoint[0]) <= found.tangent.radius[0] + slack).all()


def test_entries_by_position() -> None:
    x = Dual.variable(Ball.exact([[1.0, 2.0], [3.0, 4.0]]), columns=2)
    chosen = x.at(np.array([1, 0]))
    assert chosen.value.midpoint.tolist() == [[2.0], [3.0]]
    assert chosen.tangent.midpoint.tolist() == [[[0.0, 1.0]], [[1.0, 0.0]]]
