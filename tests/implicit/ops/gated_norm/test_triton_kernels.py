"""The kernels of the gated norm against PyTorch in float64: on a GPU where there is one, else interpreted."""

import functools
import re
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.gated_norm import gated_norm
from tests.implicit.ops.conftest import (
    DEVICE,
    assert_kernels_equal,
    assert_second_derivatives_equal,
    with_gradients,
)

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("poisoned_memory")]

EPSILON = 0.1  # so large that the norm of a group of one feature has a gradient

# Largest error over the largest entry. float32: a few roundings of 6e-8, and sums over up to 1,000 entries of
# either sign. bfloat16: nothing but the results is rounded, by up to 2^-7: the interpreter cuts off, a GPU
# rounds to nearest.
TOLERANCES = {torch.float32: 3e-6, torch.bfloat16: 8e-3}


class Case(NamedTuple):
    """The sizes of one norm."""

    length: int
    heads: int = 4
    head_size: int = 3
    groups: int = 2
    batch: int = 1


def arguments(case: Case, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """y, x, D, gate and weight; x and the gate are slices of wider tensors, as in the cell."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)

    length, heads, head_size, _, batch = case
    width = heads * head_size
    convolved, projected = normal(batch, length, width + 3), normal(batch, length, 2 * width + 5)
    return [
        normal(batch, length, heads, head_size),
        convolved[..., :width].unflatten(-1, (heads, head_size)),
        normal(heads),
        projected[..., :width],
        normal(width),
    ]


def by_pytorch(inputs: list[Tensor], groups: int) -> Tensor:
    y, x, D, gate, weight = inputs
    gated = torch.addcmul(y, D[:, None], x).flatten(-2) * functional.silu(gate)
    parts = gated.chunk(groups, dim=-1)
    return torch.cat([functional.rms_norm(part, part.shape[-1:], eps=EPSILON) for part in parts], -1) * weight


def by_kernels(inputs: list[Tensor], groups: int) -> Tensor:
    y, x, D, gate, weight = inputs
    return gated_norm(y, x, D, gate, weight, groups, EPSILON, backend="triton")


def assert_equal_the_definition(inputs: list[Tensor], groups: int, tolerance: float) -> None:
    kernels, exact = (functools.partial(run, groups=groups) for run in (by_kernels, by_pytorch))
    assert_kernels_equal(kernels, exact, inputs, tolerance)


@pytest.mark.parametrize(
    "case",
    [
        *(Case(length) for length in (1, 63, 64, 65)),
        Case(500, heads=3, head_size=5, groups=1),
        Case(3, heads=1, head_size=1, groups=1),
        Case(2, heads=6, head_size=40, groups=3, batch=2),
        Case(2, heads=3, head_size=700, groups=1),
        Case(5, heads=2, head_size=6, groups=4),
    ],
    ids=str,
)
def test_results_and_gradients_in_float32(case: Case) -> None:
    assert_equal_the_definition(arguments(case), case.groups, TOLERANCES[torch.float32])


@pytest.mark.parametrize("case", [Case(65), Case(7, heads=3, head_size=100, groups=3, batch=2)], ids=str)
def test_results_and_gradients_in_bfloat16(case: Case) -> None:
    inputs = arguments(case, torch.bfloat16)
    assert by_kernels(inputs, case.groups).dtype == torch.bfloat16
    assert_equal_the_definition(inputs, case.groups, TOLERANCES[torch.bfloat16])


def test_weights_may_be_wider_than_the_inputs() -> None:
    inputs = arguments(Case(10), torch.bfloat16)
    inputs[2], inputs[4] = inputs[2].float(), inputs[4].float()
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = by_kernels(leaves, 2)
    assert output.dtype == torch.float32  # as PyTorch promotes
    gradients = torch.autograd.grad(output.sum(), leaves)
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in inputs]
    assert_equal_the_definition(inputs, 2, TOLERANCES[torch.bfloat16])


def test_runs_of_several_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    from implicit.ops.gated_norm import triton_kernels as kernels

    monkeypatch.setattr(kernels, "RUNS", 2)  # as with more than a thousand tiles
    assert_equal_the_definition(arguments(Case(195, groups=1)), 1, TOLERANCES[torch.float32])


def test_other_strides_are_copied_and_leading_axes_are_free() -> None:
    y, x, D, gate, weight = arguments(Case(6, batch=2))
    expected = by_kernels([y, x, D, gate, weight], 2)
    strided = [y.mT.contiguous().mT, x, D.repeat_interleave(2)[::2], gate.mT.contiguous().mT, weight]
    assert torch.equal(by_kernels(strided, 2), expected)
    assert torch.equal(by_kernels([y[0, 0], x[0, 0], D, gate[0, 0], weight], 2), expected[0, 0])


def test_gates_that_are_shut_or_wide_open() -> None:
    y, x, D, gate, weight = arguments(Case(2))
    # e^88 would overflow: as it should on a GPU, but NumPy warns of it in the interpreter.
    gate = torch.where(torch.arange(12, device=DEVICE) % 2 == 0, -80.0, 80.0).expand_as(gate)
    assert_equal_the_definition([y, x, D, gate, weight], 2, TOLERANCES[torch.float32])
    with pytest.raises(InputError, match="groups is 5; it must divide"):
        by_kernels([y, x, D, gate, weight], 5)


def test_a_token_does_not_see_the_others_and_sums_are_the_same_every_time() -> None:
    inputs = arguments(Case(40))
    expected = with_gradients(*_run(inputs))
    assert all(map(torch.equal, with_gradients(*_run(inputs)), expected))
    inputs[0][0, 7] = torch.nan
    for result, reference in zip(with_gradients(*_run(inputs)), expected, strict=True):
        if result.ndim > 1:  # the gradients of D and weight sum over tokens
            assert result[0, 7].isnan().any()
            others = torch.arange(40, device=DEVICE) != 7
            assert torch.equal(result[:, others], reference[:, others])


def _run(inputs: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return by_kernels(leaves, 2), leaves


def test_second_derivatives_and_transforms_are_those_of_the_definition() -> None:
    y, x, D, gate, weight = arguments(Case(2))

    def loss(y: Tensor, backend: str) -> Tensor:
        return gated_norm(y, x, D, gate, weight, 2, EPSILON, backend=backend).pow(3).sum()

    assert_second_derivatives_equal(loss, y)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({0: torch.ones(3)}, "y has shape (3,); give it as [..., heads, head_size]"),
        ({1: torch.ones(5, 4, 2)}, "x has shape (5, 4, 2); with y as given it must be (1, 5, 4, 3)"),
        ({2: torch.ones(3)}, "D has shape (3,); with y as given it must be (4,)"),
        ({3: torch.ones(1, 5, 4, 3)}, "gate has shape (1, 5, 4, 3); with y as given it must be (1, 5, 12)"),
        ({4: torch.ones(1)}, "weight has shape (1,); with y as given it must be (12,)"),
        ({4: torch.ones(12, device="meta")}, "weight is on meta and y on"),
        (
            {2: torch.ones(4, dtype=torch.float64)},
            "backend 'triton' cannot run this: the tensors are torch.float32, torch.float64; cast them to",
        ),
    ],
    ids=["y", "x", "D", "gate", "weight", "device", "dtype"],
)
def test_what_does_not_fit_is_refused(changed: dict[int, Tensor], message: str) -> None:
    inputs = arguments(Case(5))
    for position, tensor in changed.items():
        inputs[position] = tensor if tensor.device.type == "meta" else tensor.to(DEVICE)
    with pytest.raises(InputError, match=re.escape(message)):
        by_kernels(inputs, 2)


def test_no_tokens_are_refused_by_the_kernel_and_nothing_for_pytorch() -> None:
    y, x, D, gate, weight = arguments(Case(0))
    assert gated_norm(y, x, D, gate, weight, 2, EPSILON).shape == (1, 0, 12)
    with pytest.raises(InputError, match="the tensors are empty; give at least one sequence"):
        by_kernels([y, x, D, gate, weight], 2)
