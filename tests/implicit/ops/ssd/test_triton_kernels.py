"""The Triton kernels against the float64 definition: on a GPU where there is one, else in the interpreter."""

import functools
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from implicit.ops.ssd import BACKENDS, Request, ssd, ssd_reference
from tests.implicit.ops.conftest import DEVICE, with_gradients
from tests.implicit.ops.ssd.test_ssd import Arguments
from tests.implicit.ops.ssd.test_ssd import random_arguments as drawn_arguments

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("poisoned_memory")]

RESULTS = ("y", "state", "gradient of x", "of dt", "of A", "of B", "of C", "of the initial state")

# Largest error over the largest entry.
# float32: sums of terms that contract, with a few roundings of 6e-8 each. The gradient of A runs over all
# tokens with either sign, and cancels.
# bfloat16: operands of products are rounded to 2e-3, two or three times in a row, and so is the result.
FLOAT32, FLOAT32_RATE, BFLOAT16 = 1e-6, 5e-6, 1.5e-2


class Case(NamedTuple):
    length: int
    heads: int = 2
    groups: int = 1
    head_size: int = 16
    state_size: int = 16
    batch: int = 1


def random_arguments(case: Case, dtype: torch.dtype = torch.float32) -> Arguments:
    arguments = drawn_arguments(**case._asdict(), dtype=dtype)
    return Arguments(*(tensor.to(DEVICE) for tensor in arguments))


def results_and_gradients(arguments: Arguments, backend: str) -> list[Tensor]:
    leaves = Arguments(*(tensor.detach().clone().requires_grad_() for tensor in arguments))
    return with_gradients(ssd(*leaves, backend=backend), leaves)


def assert_equal_the_definition(arguments: Arguments, backend: str, tolerance: float) -> None:
    exact = Arguments(*(tensor.double() for tensor in arguments))
    expected = results_and_gradients(exact, "reference")
    for name, result, reference in zip(
        RESULTS, results_and_gradients(arguments, backend), expected, strict=True
    ):
        smallest = torch.finfo(torch.float32).tiny  # a decay of e^-320 is zero in float32
        error = (result.double() - reference).abs().max() / reference.abs().max().clamp(min=smallest)
        allowed = FLOAT32_RATE if name == "of A" and tolerance == FLOAT32 else tolerance
        assert error <= allowed, f"{name}: {error:.1e}"


GPU_BACKENDS = [
    name
    for name in ("triton", "mamba_ssm")
    if BACKENDS[name].refusal(Request(DEVICE, (torch.bfloat16,) * 3, 64, 128)) is None
]


@pytest.mark.parametrize(
    "case",
    [
        *(Case(length) for length in (1, 64, 65)),
        Case(130, heads=1),
        Case(20, heads=4, groups=2, head_size=3, state_size=5, batch=2),
        Case(66, heads=2, groups=2, head_size=40, state_size=70),
        Case(3, heads=1, head_size=256, state_size=16),
        Case(3, heads=1, head_size=16, state_size=256),
    ],
    ids=str,
)
def test_results_and_gradients_in_float32(case: Case) -> None:
    assert_equal_the_definition(random_arguments(case), "triton", FLOAT32)


@pytest.mark.parametrize("backend", GPU_BACKENDS)
@pytest.mark.parametrize(
    "case", [Case(65), Case(130, heads=2, groups=2), Case(5, heads=1, head_size=100, state_size=128)], ids=str
)
def test_results_and_gradients_in_bfloat16(case: Case, backend: str) -> None:
    arguments = random_arguments(case, torch.bfloat16)
    y, state = ssd(*arguments, backend=backend)
    assert y.dtype == torch.bfloat16
    assert state.dtype == torch.float32
    assert_equal_the_definition(arguments, backend, BFLOAT16)


def test_steps_and_rates_may_be_wider_than_the_inputs() -> None:
    arguments = random_arguments(Case(10), torch.bfloat16)
    arguments = arguments._replace(dt=arguments.dt.float(), A=arguments.A.double())
    gradients = results_and_gradients(arguments, "triton")[2:]
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in arguments]
    assert_equal_the_definition(arguments, "triton", BFLOAT16)


def test_resets_do_not_cost_the_precision_of_what_follows() -> None:
    arguments = random_arguments(Case(130, heads=1))
    steps = torch.where(torch.arange(130) % 64 < 30, 40.0, 0.01).view(1, 130, 1)
    arguments = arguments._replace(dt=steps.to(DEVICE), A=torch.full((1,), -8.0, device=DEVICE))
    # The gradients of dt and A of tokens that reset are zero, those of the others keep their precision.
    assert_equal_the_definition(arguments, "triton", FLOAT32)


@pytest.mark.parametrize("decay", [50.0, 1e6])
def test_large_decays_forget_and_do_not_overflow(decay: float) -> None:
    arguments = random_arguments(Case(66, heads=1))
    arguments = arguments._replace(
        A=torch.full((1,), -decay, device=DEVICE), dt=torch.ones(1, 66, 1, device=DEVICE)
    )
    y, state, dx, ddt, dA, *_ = results_and_gradients(arguments, "triton")
    # What is left of earlier tokens is below e^-50 = 2e-22: y_t = (C_t · B_t) x_t.
    scores = (arguments.B * arguments.C).sum(-1)
    torch.testing.assert_close(y, scores[..., None] * arguments.x, rtol=1e-5, atol=1e-6)
    expected = arguments.x[:, -1, :, :, None] * arguments.B[:, -1, :, None, :]
    torch.testing.assert_close(state, expected, rtol=1e-6, atol=1e-7)  # one product in float32
    exact = results_and_gradients(Arguments(*(t.double() for t in arguments)), "reference")
    assert (ddt - exact[3]).abs().max() <= FLOAT32 * exact[3].abs().max()
    assert dA.abs().max() < 1e-15  # d e^-50 times sums of order 100
    assert dx.isfinite().all()


def test_slices_of_a_projection_are_read_in_place_and_other_strides_copied() -> None:
    x, dt, A, B, C, initial_state = random_arguments(Case(20, heads=4, groups=2, batch=2))
    wide = torch.cat([x.flatten(2), B.flatten(2), C.flatten(2), dt], dim=-1)
    parts = wide.split([4 * 16, 2 * 16, 2 * 16, 4], dim=-1)
    sliced = Arguments(
        parts[0].unflatten(-1, (4, 16)),
        parts[3],
        A.repeat_interleave(2)[::2],
        parts[1].unflatten(-1, (2, 16)),
        parts[2].unflatten(-1, (2, 16)).mT.contiguous().mT,
        initial_state.mT.contiguous().mT,
    )
    expected = ssd(x, dt, A, B, C, initial_state, backend="triton")
    for result, reference in zip(ssd(*sliced, backend="triton"), expected, strict=True):
        assert torch.equal(result, reference)


def test_a_gradient_without_memory_of_its_own() -> None:
    arguments = random_arguments(Case(20))
    results = []
    for x, others, op in (
        (arguments.x, arguments[1:], functools.partial(ssd, backend="triton")),
        (arguments.x.double(), [tensor.double() for tensor in arguments[1:]], ssd_reference),
    ):
        leaf = x.clone().requires_grad_()
        results.append(torch.autograd.grad(op(leaf, *others)[0].sum(), leaf)[0])  # strides of zero
    assert (results[0] - results[1]).abs().max() <= FLOAT32 * results[1].abs().max()


def test_a_sequence_does_not_see_the_others_of_its_batch() -> None:
    arguments = random_arguments(Case(20, heads=1, batch=3))
    expected = results_and_gradients(arguments, "triton")
    arguments.x[1] = torch.nan
    results = results_and_gradients(arguments, "triton")
    for name, result, reference in zip(RESULTS, results, expected, strict=True):
        if name != "of A":  # the one gradient that sums over the batch
            assert torch.equal(result[[0, 2]], reference[[0, 2]]), name
    assert results[0][1].isnan().all()
