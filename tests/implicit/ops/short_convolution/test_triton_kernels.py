"""The kernels of the short convolution against PyTorch's in float64: on a GPU, or else interpreted."""

import re
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.short_convolution import short_convolution
from tests.implicit.ops.conftest import (
    DEVICE,
    assert_kernels_equal,
    assert_second_derivatives_equal,
    with_gradients,
)

pytestmark = [pytest.mark.triton, pytest.mark.usefixtures("poisoned_memory")]


# Largest error over the largest entry. float32: a few roundings of 6e-8, and sums over up to 1,000 tokens of
# either sign. bfloat16: nothing but the results is rounded, by up to 2^-7: the interpreter cuts off, a GPU
# rounds to nearest.
TOLERANCES = {torch.float32: 2e-6, torch.bfloat16: 8e-3}


class Case(NamedTuple):
    """The sizes of one convolution."""

    length: int
    width: int = 4
    channels: int = 5
    batch: int = 1


def arguments(case: Case, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Tokens, weight and bias; the tokens are a slice of a wider tensor."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)

    length, width, channels, batch = case
    wide = normal(batch, width - 1 + length, channels + 3)
    return [wide[..., 1 : 1 + channels], normal(channels, width), normal(channels)]


def by_pytorch(inputs: list[Tensor]) -> Tensor:
    padded, weight, bias = inputs
    return functional.silu(functional.conv1d(padded.mT, weight[:, None], bias, groups=len(weight))).mT


def by_kernels(inputs: list[Tensor]) -> Tensor:
    padded, weight, bias = inputs
    return short_convolution(padded, weight, bias, backend="triton")


def run(inputs: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return with_gradients(by_kernels(leaves), leaves)


def assert_equal_pytorch(inputs: list[Tensor], tolerance: float) -> None:
    assert_kernels_equal(by_kernels, by_pytorch, inputs, tolerance)


@pytest.mark.parametrize(
    "case",
    [
        *(Case(length) for length in (1, 63, 64, 65)),
        *(Case(9, width) for width in (1, 2, 3, 7)),
        Case(500, width=2, channels=1),
        Case(5, channels=130, batch=2),
    ],
    ids=str,
)
def test_results_and_gradients_in_float32(case: Case) -> None:
    assert_equal_pytorch(arguments(case), TOLERANCES[torch.float32])


@pytest.mark.parametrize("case", [Case(65), Case(10, width=2, channels=70, batch=2)], ids=str)
def test_results_and_gradients_in_bfloat16(case: Case) -> None:
    inputs = arguments(case, torch.bfloat16)
    assert by_kernels(inputs).dtype == torch.bfloat16
    assert_equal_pytorch(inputs, TOLERANCES[torch.bfloat16])


def test_weights_may_be_wider_than_the_tokens() -> None:
    padded, weight, bias = arguments(Case(10, width=2), torch.bfloat16)
    inputs = [padded, weight.float(), bias.float()]
    output, *gradients = run(inputs)
    assert output.dtype == torch.float32  # as PyTorch promotes
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in inputs]
    assert_equal_pytorch(inputs, TOLERANCES[torch.bfloat16])


def test_other_strides_are_copied() -> None:
    padded, weight, bias = arguments(Case(6, batch=2))
    strided = [padded.mT.contiguous().mT, weight.mT.contiguous().mT, bias.repeat_interleave(2)[::2]]
    assert torch.equal(by_kernels(strided), by_kernels([padded, weight, bias]))


def test_nothing_is_seen_of_later_tokens_or_other_sequences_and_sums_are_the_same_every_time() -> None:
    inputs = arguments(Case(20, batch=2))
    expected = run(inputs)
    assert all(map(torch.equal, run(inputs), expected))
    inputs[0][0, 3 + 12] = torch.nan
    output, gradient, *_ = run(inputs)
    assert torch.equal(output[0, :12], expected[0][0, :12])
    assert output[0, 12:16].isnan().all()
    assert torch.equal(output[0, 16:], expected[0][0, 16:])
    assert torch.equal(output[1], expected[0][1])
    # What tokens 12 to 15 read gets no gradient from them: padded tokens 12 to 18.
    assert gradient[0, 12:19].isnan().all()
    assert torch.equal(gradient[0, :12], expected[1][0, :12])
    assert torch.equal(gradient[0, 19:], expected[1][0, 19:])
    assert torch.equal(gradient[1], expected[1][1])


def test_second_derivatives_and_transforms_are_those_of_the_definition() -> None:
    padded, weight, bias = arguments(Case(3))

    def loss(padded: Tensor, backend: str) -> Tensor:
        return short_convolution(padded, weight, bias, backend=backend).pow(3).sum()

    assert_second_derivatives_equal(loss, padded)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {0: torch.ones(1, 3, 5)},
            "padded has shape (1, 3, 5); with weight as given it must be [batch, 3 + ",
        ),
        (
            {0: torch.ones(9, 5)},
            "padded has shape (9, 5); with weight as given it must be [batch, 3 + length",
        ),
        ({1: torch.ones(5, 0)}, "weight has shape (5, 0); give it as [channels, width], at least 1 of each"),
        ({2: torch.ones(1)}, "bias has shape (1,); with weight as given it must be (5,)"),
        ({2: torch.ones(5, device="meta")}, "bias is on meta and padded on"),
        (
            {0: torch.ones(1, 9, 5, dtype=torch.float64)},
            "backend 'triton' cannot run this: the tensors are torch.float64, torch.float32; cast them to",
        ),
        (
            {0: torch.ones(1, 20, 5), 1: torch.ones(5, 9)},
            "backend 'triton' cannot run this: width is 9; choose one of 1 to 8, or use backend='torch'",
        ),
        ({0: torch.ones(0, 9, 5)}, "backend 'triton' cannot run this: the tensors are empty; give at least"),
    ],
    ids=["length", "padded", "weight", "bias", "device", "dtype", "width", "empty"],
)
def test_what_does_not_fit_is_refused(changed: dict[int, Tensor], message: str) -> None:
    inputs = arguments(Case(6))
    for position, tensor in changed.items():
        inputs[position] = tensor if tensor.device.type == "meta" else tensor.to(DEVICE)
    with pytest.raises(InputError, match=re.escape(message)):
        by_kernels(inputs)
