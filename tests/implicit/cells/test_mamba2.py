"""The Mamba-2 cell against `transformers`, against NumPy written from the paper, and against itself."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from automata.errors import InputError
from implicit.cells import GatedRMSNorm, Mamba2Cell, RMSNorm

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


def transformers_mixer(sizes: dict[str, Any]) -> tuple[nn.Module, Any]:
    # imported where it is used: it takes seconds, and every process collects all tests
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    config = Mamba2Config(
        hidden_size=sizes["d_model"],
        state_size=sizes["d_state"],
        conv_kernel=sizes["d_conv"],
        expand=sizes["expand"],
        num_heads=sizes["expand"] * sizes["d_model"] // sizes["head_size"],
        head_dim=sizes["head_size"],
        n_groups=sizes["groups"],
        chunk_size=16,
        num_hidden_layers=1,
    )
    return Mamba2Mixer(config, 0).eval(), config


@pytest.mark.parametrize("sizes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@torch.no_grad()
def test_equals_the_mixer_of_transformers(sizes: dict[str, Any]) -> None:
    cell = random_cell(sizes, torch.float32)
    mixer, _ = transformers_mixer(sizes)
    mixer.load_state_dict(cell.state_dict())
    inputs = random_inputs(cell)
    outputs, _ = cell(inputs, cell.init_state(2))
    # Rounding of float32, in which the mixer computes whatever its dtype: outputs of order 0.3, 70 terms.
    torch.testing.assert_close(outputs, mixer(inputs), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", ["one-group", "two-groups", "a-group-a-head"])
@torch.no_grad()
def test_step_equals_the_cached_mixer_of_transformers(name: str) -> None:
    from transformers import DynamicCache

    cell = random_cell(CONFIGURATIONS[name], torch.float32)
    mixer, config = transformers_mixer(CONFIGURATIONS[name])
    mixer.load_state_dict(cell.state_dict())
    cache = DynamicCache(config=config)
    state = cell.init_state(2)
    for token in random_inputs(cell, length=9).unbind(1):
        expected = mixer(token[:, None], cache_params=cache)[:, 0]
        output, state = cell.step(token, state)
        torch.testing.assert_close(output, expected, rtol=1e-5, atol=2e-6)  # float32 rounding
        torch.testing.assert_close(
            state["ssm"], cache.get_recurrent_state(0, state_idx=0), rtol=1e-5, atol=2e-6
        )


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return x / (1 + np.exp(-x))


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


@pytest.mark.parametrize("injected", [False, True], ids=["alone", "injected"])
@pytest.mark.parametrize("sizes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@torch.no_grad()
def test_both_forms_equal_numpy_in_float64(sizes: dict[str, Any], injected: bool) -> None:
    cell = random_cell(sizes)
    inputs = random_inputs(cell)
    injection = torch.randn(2, LENGTH, cell.d_in_proj, dtype=torch.float64) * (1 if injected else 0)
    expected = np.stack(
        [numpy_cell(cell, x, added) for x, added in zip(inputs.numpy(), injection.numpy(), strict=True)]
    )
    outputs, _ = cell(inputs, cell.init_state(2), injection if injected else None)
    np.testing.assert_allclose(outputs.numpy(), expected, rtol=1e-10, atol=1e-12)  # float64, sums of 70 terms
    state = cell.init_state(2)
    for t in range(LENGTH):
        output, state = cell.step(inputs[:, t], state, injection[:, t] if injected else None)
        np.testing.assert_allclose(output.numpy(), expected[:, t], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("sizes", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@torch.no_grad()
def test_the_state_continues_the_sequence_at_every_split(sizes: dict[str, Any]) -> None:
    cell = random_cell(sizes)
    inputs, injection = random_inputs(cell, 9), torch.randn(2, 9, cell.d_in_proj, dtype=torch.float64)
    whole, final = cell(inputs, cell.init_state(2), injection)
    for split in range(1, 9):
        before, middle = cell(inputs[:, :split], cell.init_state(2), injection[:, :split])
        after, last = cell(inputs[:, split:], middle, injection[:, split:])
        torch.testing.assert_close(torch.cat([before, after], 1), whole, rtol=1e-11, atol=1e-13)  # rounding
        torch.testing.assert_close(last, final, rtol=1e-11, atol=1e-13)


@torch.no_grad()
def test_sequence_and_step_hand_the_same_state_on() -> None:
    cell = random_cell(CONFIGURATIONS["two-groups"])
    inputs = random_inputs(cell)
    _, after_sequence = cell(inputs, cell.init_state(2))
    state = cell.init_state(2)
    for token in inputs.unbind(1):
        _, state = cell.step(token, state)
    torch.testing.assert_close(after_sequence, state, rtol=1e-11, atol=1e-13)  # float64 rounding


@torch.no_grad()
def test_the_window_holds_the_last_inputs_of_the_convolution() -> None:
    cell = random_cell(CONFIGURATIONS["one-group"])
    inputs = random_inputs(cell, length=2)
    _, state = cell(inputs, cell.init_state(2))
    channels = (inputs @ cell.in_proj.weight.T)[..., cell.d_inner : -cell.heads]
    assert (state["conv"][..., 0] == 0).all()  # two tokens leave one place of the window of three empty
    torch.testing.assert_close(state["conv"][..., 1:], channels.mT, rtol=1e-12, atol=1e-14)


def test_parameters_have_the_names_and_shapes_of_mamba_ssm() -> None:
    d_model, d_state, d_conv, expand, head_size, groups = 16, 6, 3, 2, 4, 2
    inner, heads = expand * d_model, expand * d_model // head_size
    channels = inner + 2 * groups * d_state
    cell = Mamba2Cell(d_model, d_state, d_conv, expand, head_size, groups)
    # mamba_ssm/modules/mamba2.py: order of in_proj is [z, x, B, C, dt], and the linear maps have no bias.
    assert {name: tuple(tensor.shape) for name, tensor in cell.state_dict().items()} == {
        "dt_bias": (heads,),
        "A_log": (heads,),
        "D": (heads,),
        "in_proj.weight": (2 * inner + 2 * groups * d_state + heads, d_model),
        "conv1d.weight": (channels, 1, d_conv),
        "conv1d.bias": (channels,),
        "norm.weight": (inner,),
        "out_proj.weight": (d_model, inner),
    }


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


def test_gradients_by_finite_differences() -> None:
    cell = random_cell({"d_model": 2, "d_state": 2, "d_conv": 2, "expand": 2, "head_size": 2, "groups": 2})
    inputs = random_inputs(cell, length=3, batch=1).requires_grad_()
    injection = torch.randn(1, 3, cell.d_in_proj, dtype=torch.float64, requires_grad=True)
    state = [torch.randn_like(part, requires_grad=True) for part in cell.init_state(1).values()]

    def run(
        inputs: Tensor, injection: Tensor, window: Tensor, ssm: Tensor, *parameters: Tensor
    ) -> tuple[Tensor, ...]:
        named = dict(zip(dict(cell.named_parameters()), parameters, strict=True))
        before = {"conv": window, "ssm": ssm}
        outputs, after = torch.func.functional_call(cell, named, (inputs, before, injection))
        return outputs, after["conv"], after["ssm"]

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(run, (inputs, injection, *state, *cell.parameters()))


@pytest.mark.parametrize("backend", ["reference", "chunked"])
@torch.no_grad()
def test_bfloat16_runs_in_both_forms_and_keeps_the_ssm_state_in_float32(backend: str) -> None:
    cell = random_cell(CONFIGURATIONS["two-groups"])
    inputs = random_inputs(cell).bfloat16()
    exact, _ = cell(inputs.double(), cell.init_state(2))
    cell = cell.bfloat16()
    cell.backend = backend
    outputs, state = cell(inputs[:, :-1], cell.init_state(2))
    last, state = cell.step(inputs[:, -1], state)
    assert outputs.dtype == last.dtype == torch.bfloat16
    assert state["ssm"].dtype == torch.float32
    error = (torch.cat([outputs, last[:, None]], 1).double() - exact).abs().max() / exact.abs().max()
    assert error < 0.05  # weights and five intermediate results are rounded to 2^-9 each


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"head_size": 5}, "head_size is 5; it must divide expand * d_model = 32"),
        ({"groups": 3}, "groups is 3; it must divide the number of heads, 4"),
        ({"head_size": 0}, "head_size is 0; give at least 1"),
        ({"groups": 0}, "groups is 0; give at least 1"),
        ({"d_conv": 0}, "d_conv is 0; give at least 1"),
        ({"d_state": -1}, "d_state is -1; give at least 1"),
        ({"expand": 0}, "expand is 0; give at least 1"),
        ({"d_model": 0}, "d_model is 0; give at least 1"),
    ],
    ids=lambda value: "" if isinstance(value, dict) else str(value).split(";")[0],
)
def test_sizes_that_do_not_fit_are_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        Mamba2Cell(**{**CONFIGURATIONS["one-group"], **changes})
    assert str(caught.value) == sentence


def test_rms_norm_equals_that_of_torch() -> None:
    norm, oracle = RMSNorm(6).double(), torch.nn.RMSNorm(6, eps=1e-5).double()
    x = torch.randn(3, 4, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    weight = torch.linspace(-1, 2, 6, dtype=torch.float64)
    norm.load_state_dict({"weight": weight})
    oracle.load_state_dict({"weight": weight})
    torch.testing.assert_close(norm(x), oracle(x), rtol=1e-14, atol=1e-15)  # float64 rounding
    assert (norm(torch.zeros(6, dtype=torch.float64)) == 0).all()


def test_gated_rms_norm_normalises_within_each_group() -> None:
    generator = torch.Generator().manual_seed(0)
    x, gate = torch.randn(2, 5, 6, dtype=torch.float64, generator=generator)
    norm = GatedRMSNorm(6, groups=3).double()
    weight = torch.linspace(-1, 2, 6, dtype=torch.float64)
    norm.load_state_dict({"weight": weight})
    gated = x * gate / (1 + torch.exp(-gate))
    expected = [torch.nn.functional.rms_norm(part, (2,), eps=1e-5) for part in gated.split(2, dim=-1)]
    torch.testing.assert_close(norm(x, gate), torch.cat(expected, -1) * weight, rtol=1e-13, atol=1e-15)
