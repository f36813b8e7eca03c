"""DeltaNet and its relatives against NumPy written from the papers, and the spectrum of one token."""

from itertools import cycle
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

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
