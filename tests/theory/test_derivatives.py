import pytest
import torch
from torch import Tensor

from theory.forward_mode import directional, jacobian, jacobian_by_rows


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


def test_derivatives_do_not_record_a_graph_through_parameters() -> None:
    weight = torch.ones(2, 2, dtype=torch.float64, requires_grad=True)
    point = torch.ones(2, dtype=torch.float64)
    assert not jacobian(lambda v: weight @ v, point).requires_grad
    assert not jacobian_by_rows(lambda v: weight @ v, point).requires_grad


@pytest.mark.parametrize("size", [0, 3])
def test_rows_of_a_function_of_constants_only_are_zero(size: int) -> None:
    point = torch.ones(size, dtype=torch.float64)
    weight = torch.ones(2, dtype=torch.float64, requires_grad=True)
    for constant in (weight.detach(), weight):
        found = jacobian_by_rows(lambda v, constant=constant: 2 * constant, point)  # type: ignore[misc]
        assert torch.equal(found, torch.zeros(2, size, dtype=torch.float64))


def test_rows_within_a_transformation_and_in_inference_mode() -> None:
    points = torch.tensor([[2.0, 3.0], [-1.0, 4.0]], dtype=torch.float64)
    expected = torch.stack([jacobian(cubic, point) for point in points])
    assert torch.equal(torch.func.vmap(lambda point: jacobian_by_rows(cubic, point))(points), expected)
    with torch.inference_mode():
        assert torch.equal(jacobian_by_rows(cubic, points[0].clone()), expected[0])


def test_rows_in_several_chunks_are_those_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    point = torch.tensor([2.0, 3.0], dtype=torch.float64)
    whole = jacobian_by_rows(cubic, point)
    monkeypatch.setattr("theory.forward_mode.MAX_CHUNK_ENTRIES", 4)
    assert torch.equal(jacobian_by_rows(cubic, point), whole)
