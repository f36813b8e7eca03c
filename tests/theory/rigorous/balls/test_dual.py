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


@pytest.mark.parametrize(("ours", "reference"), CASES.values(), ids=CASES)
def test_values_and_derivatives(ours: Any, reference: Any) -> None:
    """At a point, and over a ball those at its points."""
    found = ours(Dual.variable(Ball.exact(X[None]), columns=4))
    assert (found.tangent.radius < 1e-12).all()
    assert found.tangent[..., 3].is_zero.all()  # a direction that nothing depends on
    over = ours(Dual.variable(Ball.around(X[None], 0.05), columns=4))
    inside = 0.05 * np.random.default_rng(0).uniform(-1, 1, (20, 3))
    for holding, moves in ((found, np.zeros((1, 3))), (over, inside)):
        for point in torch.from_numpy(X + moves):
            value, slope = reference(point).numpy(), jacrev(reference)(point).numpy()
            # the float64 reference is exact to about 1e-15
            assert (np.abs(value - holding.value.midpoint[0]) <= holding.value.radius[0] + 1e-13).all()
            tangent = holding.tangent[..., :3]
            assert (np.abs(slope - tangent.midpoint[0]) <= tangent.radius[0] + 1e-12).all()


def test_entries_by_position() -> None:
    x = Dual.variable(Ball.exact([[1.0, 2.0], [3.0, 4.0]]), columns=2)
    chosen = x.at(np.array([1, 0]))
    assert chosen.value.midpoint.tolist() == [[2.0], [3.0]]
    assert chosen.tangent.midpoint.tolist() == [[[0.0, 1.0]], [[1.0, 0.0]]]
