"""The SSD scan: the definition against closed forms, and the chunked form against the definition."""

import functools
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.ssd import ssd, ssd_chunked, ssd_reference
from tests.implicit.ops.conftest import with_gradients

LENGTHS = (1, 63, 64, 65, 500)
# Any float64 on a CPU; the kernels for GPUs have a test of their own.
PORTABLE = ("reference", "chunked", *(["numba"] if find_spec("numba") else []))


class Arguments(NamedTuple):
    x: Tensor
    dt: Tensor
    A: Tensor
    B: Tensor
    C: Tensor
    initial_state: Tensor


def random_arguments(
    length: int = 7,
    *,
    batch: int = 2,
    heads: int = 4,
    head_size: int = 3,
    groups: int = 2,
    state_size: int = 5,
    dtype: torch.dtype = torch.float64,
    seed: int = 0,
) -> Arguments:
    """Draw arguments of order one; the decays of the heads range from e^-0.01 to e^-2 per token."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    dt = torch.rand(batch, length, heads, generator=generator, dtype=torch.float64) + 0.1
    rate = -torch.logspace(-2, math.log10(2), heads, dtype=torch.float64)
    arguments = Arguments(
        normal(batch, length, heads, head_size),
        dt,
        rate,
        normal(batch, length, groups, state_size) / math.sqrt(state_size),
        normal(batch, length, groups, state_size) / math.sqrt(state_size),
        normal(batch, heads, head_size, state_size),
    )
    return cast(arguments, dtype)


def cast(arguments: Arguments, dtype: torch.dtype) -> Arguments:
    return Arguments(*(tensor.to(dtype) for tensor in arguments))


def gradients(arguments: Arguments, backend: str) -> list[Tensor]:
    leaves = Arguments(*(tensor.clone().requires_grad_() for tensor in arguments))
    return with_gradients(ssd(*leaves, backend=backend), leaves)[2:]


# Every backend at the ends of its chunks, with one to four groups; without an initial state, too.
@pytest.mark.parametrize("backend", PORTABLE)
@pytest.mark.parametrize(("length", "groups"), list(zip(LENGTHS, (1, 2, 4, 1, 2), strict=True)))
def test_equals_the_recurrence_in_numpy(backend: str, length: int, groups: int) -> None:
    arguments = random_arguments(length, groups=groups)
    x, dt, A, B, C, initial_state = (part.numpy() for part in arguments)
    group = np.arange(4) // (4 // groups)
    for h, initial in ((initial_state, arguments.initial_state), (0 * initial_state, None)):
        y, state = ssd(*arguments[:5], initial, backend=backend)
        for t in range(length):
            written = np.einsum("bh,bhp,bhn->bhpn", dt[:, t], x[:, t], B[:, t, group])
            h = np.exp(dt[:, t] * A)[..., None, None] * h + written
            read = np.einsum("bhpn,bhn->bhp", h, C[:, t, group])
            # float64: sums of at most 500 terms of order one, in states that contract.
            np.testing.assert_allclose(y[:, t].numpy(), read, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(state.numpy(), h, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("chunk_size", [1, 2, 7, 64, 65, 1000])
def test_the_chunk_size_does_not_matter(chunk_size: int) -> None:
    arguments = random_arguments(65)
    for result, expected in zip(ssd_chunked(*arguments, chunk_size), ssd_reference(*arguments), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-12)


SIZES: list[dict[str, Any]] = [
    *({"length": length} for length in LENGTHS),
    {"heads": 1, "groups": 1},
    {"batch": 1, "heads": 1, "groups": 1, "head_size": 1, "state_size": 1},
    {"heads": 3, "groups": 3},
    {"heads": 2, "groups": 1, "head_size": 2, "state_size": 9},
]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("backend", PORTABLE[1:])
def test_results_and_gradients_equal_those_of_the_reference(sizes: dict[str, Any], backend: str) -> None:
    """Through both results or one of them; the other sizes in three chunks, the last one shorter."""
    chunk_size, rtol = ((), 1e-10) if "length" in sizes else ((5,), 1e-11)

    def run(scan: Callable[..., tuple[Tensor, Tensor]], part: str, *options: int) -> list[Tensor]:
        leaves: list[Any] = [
            tensor.requires_grad_() for tensor in random_arguments(**{"length": 11, **sizes})
        ]
        if part == "no-initial-state":
            leaves = leaves[:5]
        y, state = scan(*[*leaves, None][:6], *options)
        loss = y.sin().sum() if part != "state" else y.new_zeros(())
        if part != "outputs":
            loss = loss + state.cos().sum()
        return [y, state, *torch.autograd.grad(loss, leaves, materialize_grads=True)]

    other = functools.partial(ssd, backend=backend)
    for part in ("outputs", "state", "no-initial-state"):
        found = run(ssd_chunked, part, *chunk_size) if backend == "chunked" else run(other, part)
        for result, expected in zip(found, run(ssd_reference, part), strict=True):
            # float64 sums of 11 or up to 500 terms; the gradient of A sums over all tokens
            atol = 0.1 * rtol * max(1.0, expected.detach().abs().max().item())
            torch.testing.assert_close(result, expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("backend", PORTABLE)
def test_first_and_second_derivatives_by_finite_differences(backend: str) -> None:
    arguments = random_arguments(3, batch=1, heads=2, head_size=2, groups=1, state_size=2)
    leaves = tuple(tensor.requires_grad_() for tensor in arguments)

    def scan(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return ssd(*Arguments(*tensors), backend=backend)

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6. Second ones in random
    # directions.
    assert torch.autograd.gradcheck(scan, leaves)
    assert torch.autograd.gradgradcheck(scan, leaves, fast_mode=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.bfloat16, 4e-3)], ids=str)
@pytest.mark.parametrize("length", [65, 500])
def test_chunked_in_low_precision(length: int, dtype: torch.dtype, tolerance: float) -> None:
    """The largest error over the largest entry.

    The products and sums of the recurrence err by a few roundings per token (6e-8 in float32) and contract;
    bfloat16 inputs are taken as exact, and only the outputs are rounded (4e-3).
    """
    arguments = random_arguments(length, dtype=dtype)
    exact_y, exact_state = ssd_reference(*cast(arguments, torch.float64))
    y, state = ssd_chunked(*arguments)
    assert y.dtype == dtype
    assert state.dtype == torch.float32
    assert (y.double() - exact_y).abs().max() <= tolerance * exact_y.abs().max()
    assert (state.double() - exact_state).abs().max() <= 2e-6 * exact_state.abs().max()  # float32 either way


@pytest.mark.parametrize(
    ("backend", "dtype", "tolerance"),
    # sums of 65 float32 terms, twice; the incoming gradient and the result are rounded to 4e-3
    [*((name, torch.float32, 5e-6) for name in PORTABLE), ("chunked", torch.bfloat16, 2e-2)],
)
def test_gradients_in_low_precision(backend: str, dtype: torch.dtype, tolerance: float) -> None:
    arguments = cast(random_arguments(65), dtype)
    exact = gradients(cast(arguments, torch.float64), "reference")
    for name, result, expected in zip(Arguments._fields, gradients(arguments, backend), exact, strict=True):
        assert result.dtype == dtype
        error = (result.double() - expected).abs().max() / expected.abs().max()
        assert error < tolerance, f"gradient of {name}"


@pytest.mark.parametrize("backend", PORTABLE)
@pytest.mark.parametrize("decay", [50.0, 1e6])
def test_large_decays_forget_and_do_not_overflow(backend: str, decay: float) -> None:
    arguments = random_arguments(130, dtype=torch.float32)
    arguments = arguments._replace(A=torch.full((4,), -decay), dt=torch.ones(2, 130, 4))
    x, _, _, B, C, _ = arguments
    y, state = ssd(*arguments, backend=backend)
    # What is left of earlier tokens is below e^-50 = 2e-22: y_t = (C_t · B_t) x_t.
    scores = (B * C).sum(-1).repeat_interleave(2, dim=2)
    torch.testing.assert_close(y, scores[..., None] * x, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state, x[:, -1, :, :, None] * B[:, -1].repeat_interleave(2, 1)[:, :, None])
    for name, gradient in zip(Arguments._fields, gradients(arguments, backend), strict=True):
        assert gradient.isfinite().all(), f"gradient of {name}"


@pytest.mark.parametrize("backend", PORTABLE)
def test_resets_do_not_cost_the_precision_of_what_follows(backend: str) -> None:
    """A float32 sum over 30 resets of e^-320 would leave three digits to the slow tokens after."""
    arguments = random_arguments(500)
    resets = torch.arange(500) % 64 < 30
    arguments = arguments._replace(
        dt=torch.where(resets, 40.0, 0.01).expand(2, 4, 500).mT.double(), A=torch.full((4,), -8.0).double()
    )
    exact_y, exact_state = ssd_reference(*arguments)
    y, state = ssd(*cast(arguments, torch.float32), backend=backend)
    assert (y - exact_y).abs().max() < 5e-6 * exact_y.abs().max()  # float32 rounding of sums of 34 tokens
    assert (state - exact_state).abs().max() < 5e-6 * exact_state.abs().max()


@pytest.mark.parametrize("backend", PORTABLE[1:])
def test_resets_do_not_cost_the_precision_of_the_gradients(backend: str) -> None:
    """At a reset, Δ A = −320, almost nothing depends on the decay, and what cancels there must cancel."""
    arguments = random_arguments(130)
    resets = torch.arange(130) % 32 < 8
    arguments = arguments._replace(
        dt=torch.where(resets, 40.0, 0.01).expand(2, 4, 130).mT.double(), A=torch.full((4,), -8.0).double()
    )
    exact = gradients(arguments, "reference")
    results = gradients(cast(arguments, torch.float32), backend)
    for name, result, expected in zip(Arguments._fields, results, exact, strict=True):
        by_token = result.shape[:2] == (2, 130)
        # Tokens that reset apart from the others: their Δ x is 4000 times as large.
        for where in (resets, ~resets) if by_token else (slice(None),):
            part = expected[:, where] if by_token else expected
            error = ((result[:, where] if by_token else result) - part).abs().max()
            # Float32 rounding of sums of 24 tokens; the state before 8 resets has a gradient of e^-2560 = 0.
            assert error <= 2e-6 * part.abs().max() + 1e-30, f"gradient of {name}"


def test_an_unknown_backend_and_an_empty_chunk_are_refused() -> None:
    with pytest.raises(InputError, match="backend 'chunkd' is unknown; did you mean 'chunked'"):
        ssd(*random_arguments(4), backend="chunkd")
    with pytest.raises(InputError, match="chunk_size is 0; give at least 1"):
        ssd_chunked(*random_arguments(4), chunk_size=0)
