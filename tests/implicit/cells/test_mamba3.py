"""The Mamba-3 cell against NumPy written from the published recurrence, and the spectrum of one token."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from implicit.cells import Mamba3Cell
from tests.implicit.cells.conftest import D_MODEL, random_tensor, with_random_weights

Array = NDArray[np.float64]


def build() -> Mamba3Cell:
    return with_random_weights(Mamba3Cell(D_MODEL, d_state=8, head_size=4).double())


def rotation(angles: Array, size: int) -> Array:
    matrix = np.eye(size)
    for pair, angle in enumerate(angles):
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cos, -sin], [sin, cos]]
    return matrix


def numpy_cell(cell: Mamba3Cell, inputs: Array, injection: Array) -> Array:
    """Run one sequence from a zero state as the published code does: the sum of all angles is carried."""
    w = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    heads, size, d_state = cell.heads, cell.head_size, cell.d_state
    inner = heads * size
    widths = [inner, inner, d_state, d_state, heads, heads, heads, d_state // 4]
    projected = inputs @ w["in_proj.weight"].T + injection
    z, x, B, C, dd_dt, dd_A, trap, angle = np.split(projected, np.cumsum(widths)[:-1], axis=1)
    y = np.zeros((len(inputs), heads, size))
    for h in range(heads):
        state, total = np.zeros((size, d_state)), np.zeros(d_state // 4)
        key_before, value_before = np.zeros(d_state), np.zeros(size)
        for t in range(len(inputs)):
            dt = np.log1p(np.exp(dd_dt[t, h] + w["dt_bias"][h]))
            alpha = np.exp(-max(np.log1p(np.exp(dd_A[t, h])), 1e-4) * dt)
            share = 1 / (1 + np.exp(-trap[t, h]))
            total = total + np.pi * np.tanh(angle[t]) * dt
            turn = rotation(total, d_state)
            key = B[t] / np.sqrt((B[t] ** 2).mean() + 1e-5) * w["B_norm.weight"] + w["B_bias"][h]
            query = C[t] / np.sqrt((C[t] ** 2).mean() + 1e-5) * w["C_norm.weight"] + w["C_bias"][h]
            key, query = turn @ key, turn @ query
            value = x[t].reshape(heads, size)[h]
            state = alpha * state + (1 - share) * dt * alpha * np.outer(value_before, key_before)
            state = state + share * dt * np.outer(value, key)
            y[t, h] = state @ query + w["D"][h] * value
            key_before, value_before = key, value
    return y.reshape(len(inputs), inner) * z / (1 + np.exp(-z)) @ w["out_proj.weight"].T


@pytest.mark.parametrize("length", [1, 63, 64, 65, 130])
@torch.no_grad()
def test_equals_the_published_recurrence_in_numpy(length: int) -> None:
    cell = build()
    inputs = random_tensor(2, length, D_MODEL)
    injection = random_tensor(2, length, cell.injection_size, seed=2)
    outputs, _ = cell(inputs, cell.init_state(2), injection)
    for index in range(2):
        expected = numpy_cell(cell, inputs[index].numpy(), injection[index].numpy())
        # float64 sums of at most 130 terms; outputs of order ten.
        np.testing.assert_allclose(outputs[index].numpy(), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("low", [-60.0, -100.0])
def test_a_token_that_takes_no_time_has_the_gradient_of_the_steps(low: float) -> None:
    """Its Δ is 1e-26 or, in float32, almost 0: by its square nothing can be divided."""
    cell = with_random_weights(Mamba3Cell(D_MODEL, d_state=8, head_size=4)).float()
    inputs = random_tensor(1, 6, D_MODEL).float()
    first = sum(cell.projection_sizes[:4])
    injection = torch.zeros(1, 6, cell.injection_size)
    injection[:, 2, first : first + cell.heads] = low
    injection[:, 3, first : first + cell.heads] = 3.0
    injection.requires_grad_()
    outputs, _ = cell(inputs, cell.init_state(1), injection)
    state, steps = cell.init_state(1), []
    for t in range(6):
        output, state = cell.step(inputs[:, t], state, injection[:, t])
        steps.append(output)
    expected = torch.stack(steps, dim=1)
    torch.testing.assert_close(outputs, expected, rtol=1e-4, atol=1e-4)  # float32, sums of tens of terms
    found, wanted = (torch.autograd.grad(y.sum(), injection)[0] for y in (outputs, expected))
    torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3 * float(wanted.abs().max()))
