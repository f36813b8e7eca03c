"""The PD-SSM-like cell against NumPy with dense matrices, its spectrum, and how its choice learns."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from implicit.cells.pd_ssm import PDSSMCell
from tests.implicit.cells.conftest import D_MODEL, random_tensor, with_random_weights

Array = NDArray[np.float64]


def build(**sizes: int) -> PDSSMCell:
    chosen = {"heads": 2, "d_state": 4, "dictionary_size": 5, **sizes}
    return with_random_weights(PDSSMCell(D_MODEL, **chosen).double())


def numpy_cell(cell: PDSSMCell, inputs: Array, injection: Array) -> tuple[Array, set[tuple[int, ...]]]:
    """Run one sequence from a zero state, with dense complex matrices; also return the columns' targets."""
    w = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    heads, n = cell.heads, cell.d_state
    outputs, targets = [], set()
    h = np.zeros((heads, n), complex)
    for x, injected in zip(inputs, injection, strict=True):
        magnitude, angle, b = np.split(w["in_proj.weight"] @ x + injected, [heads * n, 2 * heads * n])
        d = np.exp(1j * math.pi * np.tanh(angle)) / (1 + np.exp(-(magnitude + w["magnitude_bias"])))
        exponentials = np.exp(w["selector.weight"] @ x).reshape(heads, -1)
        for head in range(heads):
            shares = exponentials[head] / exponentials[head].sum()
            scores = sum(share * matrix for share, matrix in zip(shares, w["dictionary"][head], strict=True))
            P = np.zeros((n, n))
            for column in range(n):
                P[np.argmax(scores[:, column]), column] = 1
            targets.add(tuple(P.argmax(0).tolist()))
            written = b.reshape(heads, n, 2)[head]
            h[head] = P @ np.diag(d.reshape(heads, n)[head]) @ h[head] + written[:, 0] + 1j * written[:, 1]
        outputs.append(w["out_proj.weight"] @ np.stack([h.real, h.imag], -1).ravel())
    return np.array(outputs), targets


@pytest.mark.parametrize("length", [1, 2, 63, 64, 130])
@torch.no_grad()
def test_equals_dense_matrices_in_numpy(length: int) -> None:
    cell = build()
    inputs = 3 * random_tensor(2, length, D_MODEL)
    injection = random_tensor(2, length, cell.injection_size, seed=2)
    outputs, _ = cell(inputs, cell.init_state(2), injection)
    for index in range(2):
        expected, targets = numpy_cell(cell, inputs[index].numpy(), injection[index].numpy())
        # float64 sums of at most 130 terms; outputs of order ten.
        np.testing.assert_allclose(outputs[index].numpy(), expected, rtol=1e-10, atol=1e-10)
        assert length < 10 or len(targets) > 5  # tokens do choose


def dense_straight_through(cell: PDSSMCell, inputs: Tensor) -> Tensor:
    """The outputs with P written out as softmax + (one-hot − softmax) held fixed, as the estimator is."""
    h = torch.zeros(len(inputs), cell.heads, cell.d_state, dtype=torch.complex128)
    outputs = []
    for x in inputs.unbind(1):
        factor, written = cell._project(x, None)
        scores = cell._scores(x)
        soft = scores.softmax(-2)
        hard = functional.one_hot(scores.argmax(-2), cell.d_state).mT.double()
        P = soft + (hard - soft).detach()
        h = (P.to(h.dtype) @ (factor * h)[..., None])[..., 0] + written
        outputs.append(cell.out_proj(torch.view_as_real(h).flatten(-3)))
    return torch.stack(outputs, dim=1)


@pytest.mark.parametrize("form", ["sequence", "steps"])
def test_the_choice_learns_by_the_straight_through_estimator(form: str) -> None:
    cell = build()
    inputs, weights = random_tensor(2, 7, D_MODEL), random_tensor(2, 7, D_MODEL, seed=5)

    def outputs() -> Tensor:
        if form == "sequence":
            return cell(inputs, cell.init_state(2))[0]
        state, read = cell.init_state(2), []
        for x in inputs.unbind(1):
            output, state = cell.step(x, state)
            read.append(output)
        return torch.stack(read, dim=1)

    leaves = list(cell.parameters())
    found = torch.autograd.grad((outputs() * weights).sum(), leaves)
    expected = torch.autograd.grad((dense_straight_through(cell, inputs) * weights).sum(), leaves)
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)  # float64 rounding


def test_what_is_read_has_the_true_derivative() -> None:
    """That of the map with the choice as it is: the estimator's would not pass finite differences."""
    cell = build()
    assert torch.autograd.gradcheck(
        lambda inputs: cell(inputs, cell.init_state(1))[0], random_tensor(1, 4, D_MODEL).requires_grad_()
    )
