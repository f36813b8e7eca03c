"""DeltaNet and its relatives against NumPy written from the papers, and the spectrum of one token."""

import math
from itertools import cycle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from implicit.cells import DeltaNetCell, GatedDeltaNetCell, GatedDeltaProductCell
from implicit.cells.delta_rule import DeltaRuleCell
from tests.implicit.cells.conftest import D_MODEL, random_tensor, silu, with_random_weights

Array = NDArray[np.float64]

CONFIGURATIONS: dict[str, tuple[type[DeltaRuleCell], dict[str, Any]]] = {
    "deltanet": (DeltaNetCell, {"d_conv": 1}),
    "deltanet-convolution-negative": (DeltaNetCell, {"d_conv": 4, "negative_eigenvalues": True}),
    "gated": (GatedDeltaNetCell, {"d_conv": 3}),
    "gated-negative": (GatedDeltaNetCell, {"d_conv": 1, "negative_eigenvalues": True}),
    "product": (GatedDeltaProductCell, {"d_conv": 2, "householder_steps": 2}),
    "product-negative": (
        GatedDeltaProductCell,
        {"d_conv": 4, "householder_steps": 3, "negative_eigenvalues": True},
    ),
}
LENGTHS = (1, 63, 64, 65, 130)


def numpy_cell(cell: DeltaRuleCell, inputs: Array, injection: Array, n: int, negative: bool) -> Array:
    """Run one sequence from a zero state, one head, token and step at a time, with explicit matrices."""
    weights = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    heads, d_k, d_v = cell.heads, cell.key_size, cell.value_size
    gated = "decay.A_log" in weights
    projected = inputs @ weights["in_proj.weight"].T + injection
    widths = [heads * d_v * gated, heads * d_k, n * heads * d_k, n * heads * d_v, n * heads, heads * gated]
    gate, q, k, v, b, a = np.split(projected, np.cumsum(widths)[:-1], axis=1)
    qkv = np.concatenate([q, k, v], axis=1)
    if "convolution.weight" in weights:
        taps = weights["convolution.weight"].T
        padded = np.concatenate([np.zeros((len(taps) - 1, qkv.shape[1])), qkv])
        qkv = np.stack([(padded[t : t + len(taps)] * taps).sum(0) for t in range(len(inputs))])
    q, k, v = np.split(silu(qkv), np.cumsum(widths[1:3]), axis=1)
    outputs = np.zeros((len(inputs), heads, d_v))
    for h in range(heads):
        memory = np.zeros((d_k, d_v))
        for t in range(len(inputs)):
            if gated:
                step = np.log1p(np.exp(a[t, h] + weights["decay.step_bias"][h]))
                memory = np.exp(-np.exp(weights["decay.A_log"][h]) * step) * memory
            for i in range(n):
                key = k[t].reshape(n, heads, d_k)[i, h]
                key = key / np.sqrt(key @ key + 1e-6)
                beta = (2 if negative else 1) / (1 + np.exp(-b[t].reshape(n, heads)[i, h]))
                value = v[t].reshape(n, heads, d_v)[i, h]
                memory = (np.eye(d_k) - beta * np.outer(key, key)) @ memory + beta * np.outer(key, value)
            query = q[t].reshape(heads, d_k)[h]
            query = query / np.sqrt(query @ query + 1e-6) / np.sqrt(d_k)
            y = memory.T @ query
            outputs[t, h] = y / np.sqrt((y**2).mean() + 1e-5) * weights["norm.weight"]
    flat = outputs.reshape(len(inputs), -1)
    return (flat * silu(gate) if gated else flat) @ weights["out_proj.weight"].T


def build(name: str, **more: Any) -> DeltaRuleCell:
    cell_class, sizes = CONFIGURATIONS[name]
    cell = cell_class(D_MODEL, heads=2, key_size=4, value_size=3, **sizes, **more)
    with_random_weights(cell.double())
    return cell


# Every configuration meets both backends, and every length half of the configurations.
@pytest.mark.parametrize(
    ("name", "length", "backend"),
    list(zip([*CONFIGURATIONS, *CONFIGURATIONS], cycle(LENGTHS), ["chunked"] * 6 + ["reference"] * 6)),
)
@torch.no_grad()
def test_equals_the_papers_in_numpy(name: str, length: int, backend: str) -> None:
    cell, sizes = build(name, backend=backend), CONFIGURATIONS[name][1]
    inputs = random_tensor(2, length, D_MODEL)
    injection = random_tensor(2, length, cell.injection_size, seed=2)
    outputs, _ = cell(inputs, cell.init_state(2), injection)
    steps, negative = sizes.get("householder_steps", 1), sizes.get("negative_eigenvalues", False)
    for index in range(2):
        expected = numpy_cell(cell, inputs[index].numpy(), injection[index].numpy(), steps, negative)
        # float64 sums of at most 64 terms of order one.
        np.testing.assert_allclose(outputs[index].numpy(), expected, rtol=1e-10, atol=1e-10)


def transition(cell: DeltaRuleCell, inputs: Tensor) -> Tensor:
    """The derivative of a head's memory in itself over one token: a matrix on its key_size rows."""
    state = cell.init_state(1)

    def after(memory: Tensor) -> Tensor:
        return cell.step(inputs, {**state, "memory": memory})[1]["memory"]

    jacobian = torch.autograd.functional.jacobian(after, state["memory"])
    matrix: Tensor = jacobian[0, 0, :, 0, 0, 0, :, 0]  # of the first column; the others are alike
    return matrix


def with_strength(cell: DeltaRuleCell, logits: list[float]) -> DeltaRuleCell:
    """Drive β of every step by weights that answer the constant first input, and switch off the decay."""
    with torch.no_grad():
        of_beta = cell.in_proj.weight.split(cell.projection_sizes)[2]
        of_beta.zero_()
        of_beta[:, 0] = torch.tensor(logits).repeat_interleave(cell.heads)
        if cell.decay is not None:
            cell.decay.step_bias.fill_(-100)
            cell.in_proj.weight.split(cell.projection_sizes)[3].zero_()
    return cell


def one_token() -> Tensor:
    inputs = random_tensor(1, D_MODEL)
    inputs[:, 0] = 1
    return inputs


@pytest.mark.parametrize(
    ("name", "largest"),
    [("deltanet", 1.0), ("deltanet-convolution-negative", 2.0), ("gated", 1.0), ("gated-negative", 2.0)],
)
def test_a_token_has_the_eigenvalue_one_minus_beta(name: str, largest: float) -> None:
    """Which only the option lets fall below 0."""
    for logit in (-8.0, -1.0, 0.0, 1.0, 8.0):
        cell = with_strength(build(name), [logit])
        matrix = transition(cell, one_token())
        eigenvalues = torch.linalg.eigvalsh((matrix + matrix.T) / 2)
        torch.testing.assert_close(matrix, matrix.T, rtol=0, atol=1e-12)  # float64 products of two numbers
        beta = largest / (1 + math.exp(-logit))
        # The length of a key is a little below 1: its norm has ε = 1e-6 beside |k|² of order 0.1 to 1.
        torch.testing.assert_close(eigenvalues[0].item(), 1 - beta, rtol=0, atol=1e-4)
        torch.testing.assert_close(eigenvalues[1:], torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12)
        assert 1 - largest <= eigenvalues.min()
        assert eigenvalues.max() <= 1 + 1e-12


def test_two_reflections_turn_a_plane() -> None:
    """I − 2 k kᵀ twice is a rotation by twice the angle between the keys, whose eigenvalues are complex."""
    cell = GatedDeltaProductCell(
        D_MODEL, heads=1, key_size=4, value_size=3, d_conv=1, negative_eigenvalues=True, householder_steps=2
    )
    with_strength(with_random_weights(cell.double()), [12.0, 12.0])
    inputs = one_token()
    eigenvalues = torch.linalg.eigvals(transition(cell, inputs))
    keys = torch.nn.functional.silu((inputs @ cell.in_proj.weight.T)[0, 3 + 4 : 3 + 12]).view(2, 4)
    keys = torch.nn.functional.normalize(keys, dim=-1)
    angle = 2 * torch.acos(keys[0] @ keys[1]).item()
    turned = max(eigenvalues.tolist(), key=lambda value: value.imag)
    assert abs(turned.imag) > 0.1
    # β is within 1e-5 of 2, and ε of the norm moves the eigenvalues by 1e-4 at most.
    assert turned == pytest.approx(complex(math.cos(angle), abs(math.sin(angle))), abs=1e-3)


def test_without_the_option_two_steps_have_a_real_spectrum() -> None:
    """Two factors that are positive semidefinite: their product has real eigenvalues in [0, 1]."""
    for logit in (-2.0, 0.0, 3.0, 12.0):
        cell = GatedDeltaProductCell(D_MODEL, heads=1, key_size=4, value_size=3, householder_steps=2)
        with_strength(with_random_weights(cell.double()), [logit, logit])
        eigenvalues = torch.linalg.eigvals(transition(cell, one_token()))
        # The eigenvalue 1 is double, and those near 0 may be: rounding of 1e-16 moves such by its root.
        assert eigenvalues.imag.abs().max() < 1e-7
        assert eigenvalues.real.min() > -1e-7
        assert eigenvalues.real.max() < 1 + 1e-7


def test_a_decay_shrinks_the_whole_memory() -> None:
    cell = with_strength(build("gated"), [-40.0])  # β = 0
    assert cell.decay is not None
    with torch.no_grad():
        cell.decay.step_bias.fill_(0.3)
        cell.decay.A_log.fill_(0.2)
    expected = math.exp(-math.exp(0.2) * math.log1p(math.exp(0.3)))
    matrix = transition(cell, one_token())
    torch.testing.assert_close(matrix, expected * torch.eye(4, dtype=torch.float64), rtol=0, atol=1e-12)
