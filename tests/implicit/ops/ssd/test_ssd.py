"""The SSD scan: the definition against closed forms, and the chunked form against the definition."""

import functools
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from scipy.signal import lfilter
from torch import Tensor

from automata.errors import InputError
from implicit.ops.ssd import ssd, ssd_chunked, ssd_reference, ssd_step

LENGTHS = (1, 63, 64, 65, 500)
# Any float64 on a CPU; the kernels for GPUs have a test of their own.
PORTABLE = ("reference", "chunked", *(["numba"] if find_spec("numba") else []))


class Arguments(NamedTuple):
    """The tensor arguments of the scan, in its order."""

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
    """Gradients of a loss that weighs every output and every entry of the final state differently."""
    leaves = Arguments(*(tensor.clone().requires_grad_() for tensor in arguments))
    y, state = ssd(*leaves, backend=backend)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(t.shape, generator=generator, dtype=torch.float64).to(t.dtype) for t in (y, state)]
    return list(torch.autograd.grad((y * weights[0]).sum() + (state * weights[1]).sum(), leaves))


# Every backend at a short length and one of several chunks; the other forms are held to the reference below.
@pytest.mark.parametrize("backend", PORTABLE)
@pytest.mark.parametrize("length", [1, 500])
def test_constant_decay_is_a_first_order_filter(backend: str, length: int) -> None:
    arguments = random_arguments(length, batch=1, groups=4)
    x, dt, A, B, C, initial_state = arguments._replace(
        dt=torch.full((1, length, 4), 0.3, dtype=torch.float64)
    )
    y, state = ssd(x, dt, A, B, C, initial_state, backend=backend)
    for head in range(4):
        decay = math.exp(0.3 * A[head].item())
        drive = 0.3 * np.einsum("tp,tn->tpn", x[0, :, head].numpy(), B[0, :, head].numpy())
        expected, _ = lfilter([1.0], [1.0, -decay], drive, axis=0, zi=decay * initial_state[:1, head].numpy())
        read = np.einsum("tpn,tn->tp", expected, C[0, :, head].numpy())
        # float64: both forms sum at most 500 terms of order one.
        np.testing.assert_allclose(state[0, head].numpy(), expected[-1], rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(y[0, :, head].numpy(), read, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("backend", PORTABLE)
def test_the_scan_is_the_masked_attention_of_the_duality(backend: str) -> None:
    x, dt, A, B, C, _ = random_arguments(70)
    y, _ = ssd(x, dt, A, B, C, backend=backend)
    # y_i = Σ_{j ≤ i} (C_i · B_j) Π_{j < s ≤ i} exp(Δ_s A) Δ_j x_j
    decay = np.exp(dt.numpy() * A.numpy())
    group = np.arange(4) // 2
    expected = np.zeros(x.shape)
    for i in range(70):
        weight = np.ones((2, 4))
        for j in range(i, -1, -1):
            score = np.einsum("bhn,bhn->bh", C[:, i].numpy()[:, group], B[:, j].numpy()[:, group])
            expected[:, i] += (score * weight * dt[:, j].numpy())[..., None] * x[:, j].numpy()
            weight = weight * decay[:, j]
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-10, atol=1e-12)  # float64 sums of 70 terms


@pytest.mark.parametrize(("length", "groups"), list(zip(LENGTHS, (1, 2, 4, 1, 2), strict=True)))
def test_chunked_equals_the_reference(length: int, groups: int) -> None:
    arguments = random_arguments(length, groups=groups)
    for given in (arguments, arguments[:5]):  # without an initial state, too
        for result, expected in zip(ssd_chunked(*given), ssd_reference(*given), strict=True):
            # float64 sums of up to 64 terms a chunk, and chunks are contracting.
            torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("chunk_size", [1, 2, 7, 64, 65, 1000])
def test_the_chunk_size_does_not_matter(chunk_size: int) -> None:
    arguments = random_arguments(65)
    for result, expected in zip(ssd_chunked(*arguments, chunk_size), ssd_reference(*arguments), strict=True):
        torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("backend", PORTABLE[1:])
def test_all_gradients_equal_those_of_the_reference(length: int, backend: str) -> None:
    arguments = random_arguments(length)
    results, expected = gradients(arguments, backend), gradients(arguments, "reference")
    for name, result, reference in zip(Arguments._fields, results, expected, strict=True):
        scale = (
            reference.abs().max().item()
        )  # the gradient of A sums over all tokens: errors go with its size
        torch.testing.assert_close(
            result, reference, rtol=1e-10, atol=1e-11 * scale, msg=f"gradient of {name}"
        )


SIZES = {
    "one-head": {"heads": 1, "groups": 1},
    "one-of-each": {"batch": 1, "heads": 1, "groups": 1, "head_size": 1, "state_size": 1},
    "a-group-a-head": {"heads": 3, "groups": 3},
    "wide-state": {"heads": 2, "groups": 1, "head_size": 2, "state_size": 9},
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("backend", PORTABLE[1:])
def test_at_the_edges_of_the_sizes(sizes: dict[str, Any], backend: str) -> None:
    """Three chunks, the last one shorter, and gradients that come through one of the results only."""

    def run(scan: Callable[..., tuple[Tensor, Tensor]], part: str, *options: int) -> list[Tensor]:
        leaves: list[Tensor] = [tensor.requires_grad_() for tensor in random_arguments(11, **sizes)]
        if part == "no-initial-state":
            leaves = leaves[:5]
            y, state = scan(*leaves, None, *options)
        else:
            y, state = scan(*leaves, *options)
        loss = y.sin().sum() if part != "state" else y.new_zeros(())
        if part != "outputs":
            loss = loss + state.cos().sum()
        return [y, state, *torch.autograd.grad(loss, leaves, materialize_grads=True)]

    other = functools.partial(ssd, backend=backend)
    for part in ("outputs", "state", "no-initial-state"):
        found = run(ssd_chunked, part, 5) if backend == "chunked" else run(other, part)
        for result, expected in zip(found, run(ssd_reference, part), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-11, atol=1e-12)  # float64 sums of 11 terms


def test_transforms_of_torch_func_see_the_chunked_scan() -> None:
    x, dt, A, B, C, state = random_arguments(5, heads=2, groups=1, head_size=2, state_size=3)

    def jacobians(scan: Callable[..., tuple[Tensor, Tensor]], *options: int) -> tuple[Tensor, Tensor]:
        return torch.func.jacrev(lambda x, dt: scan(x, dt, A, B, C, state, *options), (0, 1))(x, dt)

    for results, expected in zip(jacobians(ssd_chunked, 2), jacobians(ssd_reference), strict=True):
        torch.testing.assert_close(results, expected, rtol=1e-11, atol=1e-12)  # float64 rounding


@pytest.mark.parametrize("backend", PORTABLE)
def test_first_and_second_derivatives_by_finite_differences(backend: str) -> None:
    arguments = random_arguments(3, batch=1, heads=2, head_size=2, groups=1, state_size=2)
    leaves = tuple(tensor.requires_grad_() for tensor in arguments)

    def scan(*tensors: Tensor) -> tuple[Tensor, Tensor]:
        return ssd(*Arguments(*tensors), backend=backend)

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(scan, leaves)
    assert torch.autograd.gradgradcheck(scan, leaves)


@pytest.mark.parametrize("backend", PORTABLE)
def test_the_final_state_continues_the_sequence(backend: str) -> None:
    x, dt, A, B, C, initial_state = random_arguments(130)
    run = functools.partial(ssd, backend=backend)
    whole, final = run(x, dt, A, B, C, initial_state)
    for split in (1, 63, 64, 65, 129):
        before, middle = run(x[:, :split], dt[:, :split], A, B[:, :split], C[:, :split], initial_state)
        after, last = run(x[:, split:], dt[:, split:], A, B[:, split:], C[:, split:], middle)
        torch.testing.assert_close(torch.cat([before, after], 1), whole, rtol=1e-11, atol=1e-12)  # rounding
        torch.testing.assert_close(last, final, rtol=1e-11, atol=1e-12)


def test_a_sequence_does_not_see_the_others_of_its_batch() -> None:
    x, dt, A, B, C, initial_state = random_arguments(65, batch=3)
    y, state = ssd_chunked(x, dt, A, B, C, initial_state)
    x[1] = torch.nan
    y_beside_nan, state_beside_nan = ssd_chunked(x, dt, A, B, C, initial_state)
    assert torch.equal(y_beside_nan[[0, 2]], y[[0, 2]])
    assert torch.equal(state_beside_nan[[0, 2]], state[[0, 2]])
    assert y_beside_nan[1].isnan().all()


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


def test_one_step_is_the_recurrence() -> None:
    x, dt, A, B, _, state = random_arguments(1, groups=4)
    result = ssd_step(x[:, 0], dt[:, 0], A, B[:, 0], state)
    for head in range(4):
        decay = torch.exp(dt[:, 0, head] * A[head])[:, None, None]
        drive = dt[:, 0, head, None, None] * x[:, 0, head, :, None] @ B[:, 0, head, None, :]
        torch.testing.assert_close(result[:, head], decay * state[:, head] + drive, rtol=1e-14, atol=1e-15)


VALID = random_arguments(4)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"x": VALID.x[0]}, "x has shape (4, 4, 3)"),
        ({"x": VALID.x[:, :0]}, "x has shape (2, 0, 4, 3)"),
        ({"x": VALID.x[:0]}, "x has shape (0, 4, 4, 3)"),
        ({"dt": VALID.dt[:, :3]}, "dt has shape (2, 3, 4)"),
        ({"dt": VALID.dt[..., None]}, "dt has shape (2, 4, 4, 1)"),
        ({"A": VALID.A[:3]}, "A has shape (3,)"),
        ({"B": VALID.B[:, :, :1]}, "C has shape (2, 4, 2, 5)"),
        ({"B": VALID.B[:, :, :0]}, "B has 0 groups"),
        ({"B": VALID.B[:, :, [0, 1, 1]]}, "B has 3 groups for 4 heads"),
        ({"B": VALID.B[0]}, "B (4, 2, 5)"),
        ({"C": VALID.C[..., :4]}, "C has shape (2, 4, 2, 4)"),
        ({"initial_state": VALID.initial_state.mT}, "initial_state has shape (2, 4, 5, 3)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_shapes_that_do_not_fit_are_refused(changes: dict[str, Tensor], field: str) -> None:
    with pytest.raises(InputError) as caught:
        ssd(**{**VALID._asdict(), **changes})
    assert field in str(caught.value)


def test_an_unknown_backend_and_an_empty_chunk_are_refused() -> None:
    with pytest.raises(InputError, match="backend 'chunkd' is unknown; did you mean 'chunked'"):
        ssd(*VALID, backend="chunkd")
    with pytest.raises(InputError, match="chunk_size is 0; give at least 1"):
        ssd_chunked(*VALID, chunk_size=0)
