"""Derivatives with constants against those of torch.func.jvp, to the last bit."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from theory.forward_mode import directional, jacobian, jacobian_by_rows, jvp

CONSTANT = torch.tensor([0.3, -1.7, 2.9], dtype=torch.float64)
POINT = torch.tensor([1.1, -0.4, 0.7], dtype=torch.float64)
DIRECTIONS = torch.randn(4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

Function = Callable[[Tensor], Tensor]
FUNCTIONS: dict[str, Function] = {
    "products": lambda x: (CONSTANT * x) * 3 * CONSTANT,
    "sums": lambda x: CONSTANT + (x + 2) + torch.ones(2, 3),
    "differences": lambda x: (CONSTANT - x).sin() * (x - 1) - (1 - x) * (x - CONSTANT),
    "quotients": lambda x: x / CONSTANT / 7 + CONSTANT / x + 1 / x,
    "functions instead of operators": lambda x: torch.div(torch.mul(torch.add(x, CONSTANT), 2), CONSTANT),
    "a parameter": lambda x: x * torch.nn.Parameter(CONSTANT) - torch.nn.Parameter(CONSTANT),
    "what was computed from constants": lambda x: x * CONSTANT.exp().square(),
    "a scaled sum": lambda x: torch.add(x, CONSTANT, alpha=0.5) - torch.sub(CONSTANT, x, alpha=3),
    "a rounded quotient": lambda x: torch.div(x, CONSTANT, rounding_mode="floor") + x,
    "an expanded constant": lambda x: x[:, None] * CONSTANT.expand(3, 3),
    "integers": lambda x: x * torch.arange(3) + torch.arange(3),
    "booleans": lambda x: (x > 0) * x,
    "single precision": lambda x: x.float() * CONSTANT + CONSTANT.float(),
    "complex numbers": lambda x: ((x * torch.tensor(1j)) * (x + torch.tensor(2j))).real,
    "a detached part": lambda x: x.detach() * x + x.detach(),
    "in place": lambda x: (x + CONSTANT).mul_(CONSTANT).add_(x) + x,
    "infinities": lambda x: torch.exp((x - torch.inf) * 0.5) + torch.where(x > 0, x, -torch.inf) * 2,
    "vmap inside, over a constant": lambda x: vmap(lambda row: (row * x + CONSTANT).sum())(torch.eye(3)),
    "vmap inside, over x": lambda x: vmap(lambda entry: (entry * 2 + CONSTANT).sum())(x),
    "jvp inside": lambda x: jvp(lambda y: (y * CONSTANT + x) * y, (x,), (CONSTANT,))[1],
    "torch's jvp inside": lambda x: torch.func.jvp(lambda y: (y * CONSTANT + x) * y, (x,), (CONSTANT,))[1],
    "vjp inside": lambda x: vjp(lambda y: (y * CONSTANT + x) * y, x)[1](CONSTANT)[0],
    "gradient inside": lambda x: grad(lambda y: ((y * CONSTANT + x) * y).sum())(x),
}


@pytest.fixture(params=list(FUNCTIONS))
def function(request: pytest.FixtureRequest) -> Function:
    return FUNCTIONS[request.param]


def test_value_and_derivative_are_those_of_torch(function: Function) -> None:
    for direction in DIRECTIONS:
        pair = jvp(function, (POINT,), (direction,))  # first, as it loads forward mode without its warning
        expected = torch.func.jvp(function, (POINT,), (direction,))
        for found, wanted in zip(pair, expected, strict=True):
            torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_many_directions_and_many_points_at_once(function: Function) -> None:
    def along(direction: Tensor) -> Tensor:
        return torch.stack(jvp(function, (POINT,), (direction,)))

    def at(point: Tensor) -> Tensor:
        return torch.stack(jvp(function, (point,), (DIRECTIONS[0],)))

    def expected(point: Tensor, direction: Tensor) -> Tensor:
        return torch.stack(torch.func.jvp(function, (point,), (direction,)))

    # In a batch, exp and others are evaluated by other instructions, which may differ in the last place.
    close = partial(torch.testing.assert_close, rtol=1e-15, atol=1e-15, equal_nan=True)
    wanted = torch.stack([expected(POINT, direction) for direction in DIRECTIONS])
    close(vmap(along)(DIRECTIONS), wanted)
    wanted = torch.stack([expected(point, DIRECTIONS[0]) for point in DIRECTIONS])
    close(vmap(at)(DIRECTIONS), wanted)


def test_gradients_pass_through(function: Function) -> None:
    """Reverse mode over forward mode, which sees the same operations."""

    def slope(transform: Callable[..., Any]) -> Callable[[Tensor], Tensor]:
        return lambda x: transform(function, (x,), (DIRECTIONS[0],))[1].sum()

    torch.testing.assert_close(
        grad(slope(jvp))(POINT), grad(slope(torch.func.jvp))(POINT), rtol=1e-15, atol=0, equal_nan=True
    )


def cubic(v: Tensor) -> Tensor:
    """Three outputs of two inputs with a Jacobian that is written down below."""
    return torch.stack([v[0] ** 3, v[0] * v[1] ** 2, v[1]])


def test_forward_reverse_and_directional_equal_the_closed_form() -> None:
    point = torch.tensor([2.0, 3.0], dtype=torch.float64)
    expected = torch.tensor([[12.0, 0.0], [9.0, 12.0], [0.0, 1.0]], dtype=torch.float64)
    # Products of small integers are exact in float64.
    assert torch.equal(jacobian(cubic, point), expected)
    assert torch.equal(jacobian_by_rows(cubic, point), expected)
    directions = torch.tensor([[1.0, 1.0], [0.0, 2.0]], dtype=torch.float64)
    assert torch.equal(directional(cubic, point, directions), directions @ expected.mT)
    weight = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    for derivative in (jacobian, jacobian_by_rows):
        assert not derivative(lambda v: weight @ v, point).requires_grad


@pytest.mark.parametrize("size", [0, 3])
def test_rows_of_a_function_of_constants_only_are_zero(size: int) -> None:
    point = torch.ones(size, dtype=torch.float64)
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    for constant in (weight.detach(), weight):
        found = jacobian_by_rows(lambda v, constant=constant: 2 * constant, point)  # type: ignore[misc]
        assert torch.equal(found, torch.zeros(2, size, dtype=torch.float64))


def test_rows_within_a_transformation_in_inference_mode_and_in_several_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    points = torch.tensor([[2.0, 3.0], [-1.0, 4.0]], dtype=torch.float64)
    expected = torch.stack([jacobian(cubic, point) for point in points])
    assert torch.equal(torch.func.vmap(lambda point: jacobian_by_rows(cubic, point))(points), expected)
    with torch.inference_mode():
        assert torch.equal(jacobian_by_rows(cubic, points[0].clone()), expected[0])
    monkeypatch.setattr("theory.forward_mode.MAX_CHUNK_ENTRIES", 4)
    assert torch.equal(jacobian_by_rows(cubic, points[0]), expected[0])


def test_attention_whose_kernels_have_no_forward_mode_is_differentiated() -> None:
    q = torch.randn(2, 1, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    attend = partial(torch.nn.functional.scaled_dot_product_attention, q, q)
    _, found = jvp(attend, (q,), (q.sin(),))
    step = 1e-6 * q.sin()
    torch.testing.assert_close(found, (attend(q + step) - attend(q - step)) / 2e-6, rtol=1e-7, atol=1e-8)
