"""The Mamba-2 cell against `transformers`, against NumPy written from the paper, and against itself."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from implicit.cells import Mamba2Cell
from tests.implicit.cells.conftest import silu

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "one-group": {"d_model": 16, "d_state": 5, "d_conv": 4, "expand": 2, "head_size": 8, "groups": 1},
    "two-groups": {"d_model": 16, "d_state": 6, "d_conv": 3, "expand": 2, "head_size": 4, "groups": 2},
    "a-group-a-head": {"d_model": 12, "d_state": 1, "d_conv": 2, "expand": 1, "head_size": 3, "groups": 4},
    "no-convolution": {"d_model": 8, "d_state": 16, "d_conv": 1, "expand": 3, "head_size": 24, "groups": 1},
}
LENGTH = 70  # more than a chunk of the scan


def random_cell(sizes: dict[str, Any], dtype: torch.dtype = torch.float64) -> Mamba2Cell:
    """Build a cell with random parameters only: the initial ones of D and the norm would hide an error."""
    torch.manual_seed(0)
    cell = Mamba2Cell(**sizes).to(dtype)
    with torch.no_grad():
        for name in ("D", "norm.weight", "conv1d.bias"):
            parameter = cell.get_parameter(name)
            parameter.add_(0.5 * torch.randn_like(parameter))
        cell.dt_bias.add_(2)  # steps of order one, so that the decay is seen within a few tokens
    return cell


def random_inputs(cell: Mamba2Cell, length: int = LENGTH, batch: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    size = cell.in_proj.in_features
    return torch.randn(batch, length, size, generator=generator, dtype=torch.float64).to(cell.D.dtype)


def numpy_cell(
    cell: Mamba2Cell, inputs: NDArray[np.float64], injection: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Run one sequence through Mamba-2, a head and a token at a time (Dao & Gu 2024, section 7)."""
    weights = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    inner, state_size, head_size = cell.d_inner, cell.d_state, cell.head_size
    projected = inputs @ weights["in_proj.weight"].T + injection
    gate, channels, dt = np.split(projected, [inner, projected.shape[1] - cell.heads], axis=1)
    convolved = np.empty_like(channels)
    for t in range(len(channels)):
        convolved[t] = weights["conv1d.bias"]
        for back in range(min(t + 1, cell.d_conv)):
            convolved[t] += weights["conv1d.weight"][:, 0, -1 - back] * channels[t - back]
    convolved = silu(convolved)
    dt = np.log1p(np.exp(dt + weights["dt_bias"]))
    y = np.empty((len(inputs), inner))
    for head in range(cell.heads):
        h = np.zeros((head_size, state_size))
        group = head * cell.groups // cell.heads
        b_from = inner + group * state_size
        c_from = inner + (cell.groups + group) * state_size
        columns = slice(head * head_size, (head + 1) * head_size)
        for t, row in enumerate(convolved):
            x, b, c = row[columns], row[b_from : b_from + state_size], row[c_from : c_from + state_size]
            h = np.exp(-np.exp(weights["A_log"][head]) * dt[t, head]) * h + dt[t, head] * np.outer(x, b)
            y[t, columns] = h @ c + weights["D"][head] * x
    gated = (y * silu(gate)).reshape(len(inputs), cell.groups, -1)
    normalised = gated / np.sqrt((gated**2).mean(-1, keepdims=True) + 1e-5)
    return (normalised.reshape(y.shape) * weights["norm.weight"]) @ weights["out_proj.weight"].T


@pytest.mark.parametrize("sizes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@torch.no_grad()
def test_both_forms_equal_numpy_in_float64(sizes: dict[str, Any]) -> None:
    cell = random_cell(sizes)
    inputs = random_inputs(cell)
    injection = torch.randn(2, LENGTH, cell.d_in_proj, dtype=torch.float64)
    expected = np.stack(
        [numpy_cell(cell, x, added) for x, added in zip(inputs.numpy(), injection.numpy(), strict=True)]
    )
    outputs, _ = cell(inputs, cell.init_state(2), injection)
    np.testing.assert_allclose(outputs.numpy(), expected, rtol=1e-10, atol=1e-12)  # float64, sums of 70 terms
    state = cell.init_state(2)
    for t in range(LENGTH):
        output, state = cell.step(inputs[:, t], state, injection[:, t])
        np.testing.assert_allclose(output.numpy(), expected[:, t], rtol=1e-10, atol=1e-12)


def test_initial_steps_and_decays_are_those_of_mamba_ssm() -> None:
    torch.manual_seed(0)
    cell = Mamba2Cell(d_model=512, head_size=1, d_state=1)
    dt = torch.nn.functional.softplus(cell.dt_bias)
    assert 0.999e-3 < dt.min() < 1.1e-3  # log-uniform over [1e-3, 0.1], 1024 draws
    assert 0.095 < dt.max() < 0.1001
    assert (dt < 0.01).float().mean().item() == pytest.approx(0.5, abs=0.06)  # 4 standard deviations
    decay = cell.A_log.exp()
    assert 1 <= decay.min() < 1.1
    assert 15.9 < decay.max() <= 16.001
    assert (cell.D == 1).all()
    assert (cell.norm.weight == 1).all()
