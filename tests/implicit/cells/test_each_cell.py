"""Each cell against NumPy written from its paper or `transformers`, and what only one of them does."""

import math
from itertools import cycle, product
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from benchmarks.cells import olmo_hybrid_layer
from implicit.cells import Cell, GatedDeltaNetCell, Mamba2Cell, Mamba3Cell, PDSSMCell
from implicit.cells.delta_rule import DeltaRuleCell
from tests.implicit.cells.conftest import CELLS, D_MODEL, build, random_tensor, silu, with_random_weights
from tests.implicit.ops.delta_rule.test_delta_rule import Arguments, dense

Array = NDArray[np.float64]


def delta_rule(cell: Any, sizes: dict[str, Any], inputs: Array, injection: Array) -> Array:
    """Run one sequence from a zero state, with explicit matrices for every step."""
    n, negative = cell.householder_steps, sizes.get("negative_eigenvalues", False)
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
    parts = np.split(silu(qkv), np.cumsum(widths[1:3]), axis=1)
    q, k, v = (part.reshape(1, -1, heads, d) for part, d in zip(parts, (d_k, d_k, d_v), strict=True))
    q, k = (part / np.sqrt((part**2).sum(-1, keepdims=True) + 1e-6) for part in (q, k))
    beta = (2 if negative else 1) / (1 + np.exp(-b.reshape(1, -1, heads)))
    decay = np.zeros_like(beta) if gated else None
    if decay is not None:  # once a token, before its first step
        decay[0, ::n] = -np.exp(weights["decay.A_log"]) * np.log1p(np.exp(a + weights["decay.step_bias"]))
    given = (q / np.sqrt(d_k), k, v, beta, decay, np.zeros((1, heads, d_k, d_v)))
    y = dense(Arguments(*(part if part is None else torch.from_numpy(part) for part in given)))[0].numpy()  # type: ignore[arg-type]
    flat = (y / np.sqrt((y**2).mean(-1, keepdims=True) + 1e-5) * weights["norm.weight"]).reshape(
        len(inputs), -1
    )
    return (flat * silu(gate) if gated else flat) @ weights["out_proj.weight"].T


def mamba2(cell: Any, sizes: dict[str, Any], inputs: Array, injection: Array) -> Array:
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


def rotation(angles: Array, size: int) -> Array:
    matrix = np.eye(size)
    for pair, angle in enumerate(angles):
        cos, sin = math.cos(angle), math.sin(angle)
        matrix[2 * pair : 2 * pair + 2, 2 * pair : 2 * pair + 2] = [[cos, -sin], [sin, cos]]
    return matrix


def mamba3(cell: Any, sizes: dict[str, Any], inputs: Array, injection: Array) -> Array:
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


def pd_ssm(cell: Any, sizes: dict[str, Any], inputs: Array, injection: Array) -> Array:
    """Run one sequence from a zero state, with dense complex matrices."""
    w = {name: parameter.detach().numpy() for name, parameter in cell.named_parameters()}
    heads, n = cell.heads, cell.d_state
    outputs: list[Array] = []
    targets: set[tuple[int, ...]] = set()
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
    assert len(inputs) < 10 or len(targets) > 5  # tokens do choose
    return np.array(outputs)


REFERENCES: dict[type[Cell], Any] = {Mamba2Cell: mamba2, Mamba3Cell: mamba3, PDSSMCell: pd_ssm}
DELTA = [name for name, (kind, _) in CELLS.items() if issubclass(kind, DeltaRuleCell)]
OTHERS = [name for name, (kind, _) in CELLS.items() if kind in REFERENCES]
LENGTHS = (1, 63, 64, 65, 130)


# Every case with every length or some of them in turn.
@pytest.mark.parametrize(
    ("name", "length"), [*zip(DELTA + DELTA, cycle(LENGTHS)), *product(OTHERS, LENGTHS)], ids=str
)
@torch.no_grad()
def test_equals_the_paper_in_numpy(name: str, length: int) -> None:
    cell, (kind, sizes) = build(name), CELLS[name]
    if kind is Mamba2Cell:
        cell.A_log.sub_(2)  # so that the decay is seen over several tokens
    inputs = (3 if name == "pd-ssm" else 1) * random_tensor(2, length, D_MODEL)
    injection = random_tensor(2, length, cell.injection_size, seed=2)
    outputs, _ = cell(inputs, cell.init_state(2), injection)
    for row in range(2):
        expected = REFERENCES.get(kind, delta_rule)(cell, sizes, inputs[row].numpy(), injection[row].numpy())
        # float64 sums of at most 130 terms; outputs of order ten.
        np.testing.assert_allclose(outputs[row].numpy(), expected, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("negative", [False, True])
def test_gated_deltanet_equals_the_layer_of_transformers_in_outputs_and_gradients(negative: bool) -> None:
    cell = with_random_weights(GatedDeltaNetCell(12, 3, 4, 6, d_conv=4, negative_eigenvalues=negative))
    inputs = random_tensor(2, 70, 12, dtype=torch.float32)  # more than a chunk of 64
    weights = random_tensor(2, 70, 12, seed=2, dtype=torch.float32) / 70
    found = []
    for run in (lambda x: cell(x, cell.init_state(2))[0], olmo_hybrid_layer(cell)[0]):
        leaf = inputs.clone().requires_grad_()
        outputs = run(leaf)
        found.append((outputs, *torch.autograd.grad((outputs * weights).sum(), leaf)))
    assert found[0][0].abs().max() > 0.5
    for ours, theirs in zip(*found, strict=True):
        # float32, in which the layers compute whatever their dtype: 160 roundings of the largest entry, since
        # the terms of a sum are as large. In the gradient 26 were seen on an AMD EPYC, 83 on an Intel Xeon;
        # there ours is 37 from float64, and theirs 47
        atol = 160 * torch.finfo(torch.float32).eps * float(theirs.detach().abs().max())
        torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("name", [*DELTA, *(name for name in OTHERS if name.startswith("mamba2"))])
def test_the_written_out_derivative_is_that_of_the_step(name: str) -> None:
    cell = build(name)
    inputs, injection = random_tensor(5, D_MODEL), random_tensor(5, cell.injection_size, seed=2)
    state = {part: random_tensor(5, *zero.shape[1:]) for part, zero in cell.init_state(1).items()}
    pair = cell.output_with_derivative(inputs, state, injection)
    torch.testing.assert_close(pair[0], cell.step(inputs, state, injection)[0], rtol=1e-12, atol=1e-13)
    # Outputs of a token depend on its own input only, so the sum over tokens keeps every derivative.
    expected = torch.func.jacrev(lambda u: cell.step(u, state, injection)[0].sum(0))(inputs)
    torch.testing.assert_close(pair[1], expected.transpose(0, 1), rtol=1e-11, atol=1e-12)  # float64, order 1


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


def dense_straight_through(cell: PDSSMCell, inputs: Tensor) -> Tensor:
    """The outputs with P written out as softmax + (one-hot − softmax) held fixed, as the estimator is."""
    h = torch.zeros(len(inputs), cell.heads, cell.d_state, dtype=torch.complex128)
    outputs = []
    for x in inputs.unbind(1):
        factor, written = cell._project(x, None)
        scores = cell._scores(x)
        soft = (scores / cell.temperature).softmax(-2)
        hard = functional.one_hot(scores.argmax(-2), cell.d_state).mT.double()
        P = soft + (hard - soft).detach()
        h = (P.to(h.dtype) @ (factor * h)[..., None])[..., 0] + written
        outputs.append(cell.out_proj(torch.view_as_real(h).flatten(-3)))
    return torch.stack(outputs, dim=1)


def test_the_choice_learns_by_the_straight_through_estimator() -> None:
    cell = build("pd-ssm")
    inputs, weights = random_tensor(2, 7, D_MODEL), random_tensor(2, 7, D_MODEL, seed=5)
    leaves = list(cell.parameters())
    found, expected = (
        torch.autograd.grad((outputs * weights).sum(), leaves)
        for outputs in (cell(inputs, cell.init_state(2))[0], dense_straight_through(cell, inputs))
    )
    for one, other in zip(found, expected, strict=True):
        assert other.abs().max() > 0
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)  # float64 rounding
