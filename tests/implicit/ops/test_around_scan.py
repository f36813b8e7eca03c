"""The ops around the scan, a short convolution and a gated norm, against PyTorch: passes, kernels, choice.

The kernels run on a GPU where there is one, else in Triton's interpreter.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.ops.gated_norm import dispatch, gated_norm
from implicit.ops.short_convolution import short_convolution
from tests.implicit.ops.conftest import DEVICE, assert_kernels_equal, with_gradients

EPSILON = 0.1  # so large that the norm of a group of one feature has a gradient
# Largest error of the kernels over the largest entry. float32: a few roundings of 6e-8, and sums over up to
# 1,000 entries of either sign. bfloat16: nothing but the results is rounded, by up to 2^-7: the interpreter
# cuts off, a GPU rounds to nearest.
FLOAT32, BFLOAT16 = {"Convolution": 2e-6, "Norm": 3e-6}, 8e-3


def drawn(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    numbers = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes)
    return [tensor.to(DEVICE, dtype) for tensor in numbers]


class Convolution(NamedTuple):
    length: int
    width: int = 4
    channels: int = 5
    batch: int = 1

    def arguments(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """Tokens, weight and bias; the tokens are a slice of a wider tensor."""
        length, width, channels, batch = self
        shapes = (batch, width - 1 + length, channels + 3), (channels, width), (channels,)
        wide, weight, bias = drawn(dtype, *shapes)
        return [wide[..., 1 : 1 + channels], weight, bias]

    def by_pytorch(self, inputs: list[Tensor]) -> Tensor:
        padded, weight, bias = inputs
        return functional.silu(functional.conv1d(padded.mT, weight[:, None], bias, groups=len(weight))).mT

    def by(self, backend: str, inputs: list[Tensor]) -> Tensor:
        padded, weight, bias = inputs
        return short_convolution(padded, weight, bias, backend=backend)


class Norm(NamedTuple):
    length: int
    heads: int = 4
    head_size: int = 3
    groups: int = 2
    batch: int = 1

    def arguments(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        """y, x, D, gate and weight; x and the gate are slices of wider tensors, as in the cell."""
        length, heads, head_size, _, batch = self
        width, tokens = heads * head_size, (batch, length)
        shapes = (
            (*tokens, heads, head_size),
            (*tokens, width + 3),
            (heads,),
            (*tokens, 2 * width + 5),
            (width,),
        )
        y, convolved, D, projected, weight = drawn(dtype, *shapes)
        x = convolved[..., :width].unflatten(-1, (heads, head_size))
        return [y, x, D, projected[..., :width], weight]

    def by_pytorch(self, inputs: list[Tensor]) -> Tensor:
        y, x, D, gate, weight = inputs
        gated = torch.addcmul(y, D[:, None], x).flatten(-2) * functional.silu(gate)
        parts = gated.chunk(self.groups, dim=-1)
        normed = [functional.rms_norm(part, part.shape[-1:], eps=EPSILON) for part in parts]
        return torch.cat(normed, -1) * weight

    def by(self, backend: str, inputs: list[Tensor]) -> Tensor:
        y, x, D, gate, weight = inputs
        return gated_norm(y, x, D, gate, weight, self.groups, EPSILON, backend=backend)


Case = Convolution | Norm


# float64 rounding of sums of 27 terms; float32 against float64, inputs rounded to 6e-8 and a norm of at
# least 0.1.
@pytest.mark.parametrize(
    ("case", "dtype", "tolerance"),
    [
        (Convolution(1, width=1, batch=3), torch.float32, 1e-6),
        (Convolution(9, width=2, batch=3), torch.float64, 1e-13),
        (Convolution(1, width=4, batch=3), torch.float64, 1e-13),
        (Convolution(9, width=4, batch=3), torch.float32, 1e-6),
        (Norm(5, groups=1, batch=2), torch.float64, 1e-13),
        (Norm(5, groups=2, batch=2), torch.float64, 1e-13),
        (Norm(5, groups=2, batch=2), torch.float32, 3e-6),
        (Norm(5, groups=4, batch=2), torch.float32, 3e-6),
    ],
    ids=str,
)
def test_passes_equal_pytorch(case: Case, dtype: torch.dtype, tolerance: float) -> None:
    leaves, exact = (
        [part.requires_grad_() for part in case.arguments(one)] for one in (dtype, torch.float64)
    )
    result = case.by("auto", leaves)
    assert result.is_contiguous()
    expected = with_gradients(case.by_pytorch(exact), exact)
    for ours, theirs in zip(with_gradients(result, leaves), expected, strict=True):
        assert ours.dtype == dtype
        scale = theirs.abs().max().item()
        torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("case", [Convolution(4, 3, channels=2, batch=2), Norm(2)], ids=str)
def test_first_and_second_derivatives_by_finite_differences(case: Case) -> None:
    inputs = [part.requires_grad_() for part in case.arguments(torch.float64)]

    def run(*inputs: Tensor) -> Tensor:
        return case.by("auto", list(inputs))

    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6.
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs)


@pytest.mark.parametrize("scale", [3e-3, 1.0, 1e3])
def test_the_norm_in_float16_is_float32_rounded(scale: float) -> None:
    case = Norm(5, batch=2)
    y, x, *others = case.arguments(torch.float16)
    wide = [part.detach().float().requires_grad_() for part in (y * scale, x * scale, *others)]
    half = [part.detach().half().requires_grad_() for part in wide]
    result, expected = case.by("auto", half), case.by("auto", wide)
    assert result.dtype == torch.float16
    found = result, *torch.autograd.grad(result.sum(), half)
    for ours, theirs in zip(found, (expected, *torch.autograd.grad(expected.sum(), wide)), strict=True):
        # half a unit in the last place, and the inputs are the same but for rounding
        atol = 2e-3 * float(theirs.detach().abs().max())
        torch.testing.assert_close(ours.float(), theirs, rtol=0.0, atol=atol)


def triton(test: Callable[..., None]) -> Any:
    return pytest.mark.triton(pytest.mark.usefixtures("poisoned_memory")(test))


def assert_kernels_equal_pytorch(case: Case, inputs: list[Tensor], tolerance: float) -> None:
    assert_kernels_equal(functools.partial(case.by, "triton"), case.by_pytorch, inputs, tolerance)


def by_kernels(case: Case, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    return with_gradients(case.by("triton", leaves), leaves)


@triton
@pytest.mark.parametrize(
    "case",
    [
        *(Convolution(length, width) for length, width in ((1, 4), (16, 2), (17, 3), (9, 1), (9, 7))),
        Convolution(5, channels=130, batch=2),
        *(Norm(length) for length in (1, 64, 65)),
        Norm(200, heads=3, head_size=5, groups=1),
        Norm(3, heads=1, head_size=1, groups=1),
        Norm(2, heads=6, head_size=40, groups=3, batch=2),
        Norm(2, heads=3, head_size=700, groups=1),
        Norm(5, heads=2, head_size=6, groups=4),
    ],
    ids=str,
)
def test_kernels_and_their_gradients_in_float32(case: Case) -> None:
    assert_kernels_equal_pytorch(case, case.arguments(), FLOAT32[type(case).__name__])


@triton
@pytest.mark.parametrize(
    "case",
    [
        *(Convolution(17), Convolution(10, width=2, channels=70, batch=2)),
        *(Norm(65), Norm(7, heads=3, head_size=100, groups=3, batch=2)),
    ],
    ids=str,
)
def test_kernels_and_their_gradients_in_bfloat16(case: Case) -> None:
    inputs = case.arguments(torch.bfloat16)
    assert case.by("triton", inputs).dtype == torch.bfloat16
    assert_kernels_equal_pytorch(case, inputs, BFLOAT16)


@triton
@pytest.mark.parametrize(("case", "wider"), [(Convolution(10, width=2), (1, 2)), (Norm(10), (2, 4))], ids=str)
def test_weights_may_be_wider_than_the_tokens(case: Case, wider: tuple[int, ...]) -> None:
    inputs = case.arguments(torch.bfloat16)
    inputs = [part.float() if place in wider else part for place, part in enumerate(inputs)]
    output, *gradients = by_kernels(case, inputs)
    assert output.dtype == torch.float32  # as PyTorch promotes
    assert [gradient.dtype for gradient in gradients] == [tensor.dtype for tensor in inputs]
    assert_kernels_equal_pytorch(case, inputs, BFLOAT16)


@triton
@pytest.mark.parametrize("case", [Convolution(18, width=2, channels=1), Norm(195, groups=1)], ids=str)
def test_several_runs_of_several_tiles(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with more than a thousand tiles of the norm, or a sequence of more than 128 padded tokens."""
    kernels = "implicit.ops.{}.triton_kernels"
    monkeypatch.setattr(kernels.format("gated_norm") + ".RUNS", 2)
    monkeypatch.setattr(kernels.format("short_convolution") + ".TILES_A_RUN", 2)
    assert_kernels_equal_pytorch(case, case.arguments(), FLOAT32[type(case).__name__])


@triton
@pytest.mark.parametrize("case", [Convolution(6, batch=2), Norm(6, batch=2)], ids=str)
def test_other_strides_are_copied(case: Case) -> None:
    inputs = case.arguments()
    strided = [
        part.mT.contiguous().mT if part.ndim > 1 else part.repeat_interleave(2)[::2] for part in inputs
    ]
    expected = case.by("triton", inputs)
    assert torch.equal(case.by("triton", strided), expected)
    if isinstance(case, Norm):  # whose leading axes are free
        first = [part[0, 0] if part.ndim > 2 else part for part in inputs]
        assert torch.equal(case.by("triton", first), expected[0, 0])


@triton
def test_gates_that_are_shut_or_wide_open() -> None:
    case = Norm(2)
    inputs = case.arguments()
    # e^88 would overflow: as it should on a GPU, but NumPy warns of it in the interpreter.
    inputs[3] = torch.where(torch.arange(12, device=DEVICE) % 2 == 0, -80.0, 80.0).expand_as(inputs[3])
    assert_kernels_equal_pytorch(case, inputs, FLOAT32["Norm"])


@triton
def test_a_normed_token_does_not_see_the_others_and_sums_are_the_same_every_time() -> None:
    case = Norm(40)
    inputs = case.arguments()
    expected = by_kernels(case, inputs)
    assert all(map(torch.equal, by_kernels(case, inputs), expected))
    inputs[0][0, 7] = torch.nan
    for result, reference in zip(by_kernels(case, inputs), expected, strict=True):
        if result.ndim > 1:  # the gradients of D and weight sum over tokens
            assert result[0, 7].isnan().any()
            others = torch.arange(40, device=DEVICE) != 7
            assert torch.equal(result[:, others], reference[:, others])


@triton
def test_a_convolution_sees_no_later_tokens_or_other_sequences_and_sums_are_the_same_every_time() -> None:
    case = Convolution(20, batch=2)
    inputs = case.arguments()
    expected = by_kernels(case, inputs)
    assert all(map(torch.equal, by_kernels(case, inputs), expected))
    inputs[0][0, 3 + 12] = torch.nan
    # What tokens 12 to 15 read gets no gradient from them: padded tokens 12 to 18.
    for found, whole, spoilt in zip(by_kernels(case, inputs), expected, ((12, 16), (12, 19)), strict=False):
        first, end = spoilt
        assert found[0, first:end].isnan().all()
        assert torch.equal(found[0, :first], whole[0, :first])
        assert torch.equal(found[0, end:], whole[0, end:])
        assert torch.equal(found[1], whole[1])


CANNOT = "backend 'triton' cannot run this: "
REFUSED: dict[str, tuple[Case, dict[int, Tensor], str]] = {
    "length": (Convolution(6), {0: torch.ones(1, 3, 5)}, "padded has shape (1, 3, 5); with weight as given"),
    "padded": (Convolution(6), {0: torch.ones(9, 5)}, "(9, 5); with weight as given it must be"),
    "taps": (Convolution(6), {1: torch.ones(5, 0)}, "weight has shape (5, 0); give it as [channels, width],"),
    "bias": (Convolution(6), {2: torch.ones(1)}, "bias has shape (1,); with weight as given it must be (5,)"),
    "device": (Convolution(6), {2: torch.ones(5, device="meta")}, "bias is on meta and padded on"),
    "dtype": (
        Convolution(6),
        {0: torch.ones(1, 9, 5, dtype=torch.float64)},
        f"{CANNOT}the tensors are torch.float64, torch.float32; cast them to",
    ),
    "width": (
        Convolution(6),
        {0: torch.ones(1, 20, 5), 1: torch.ones(5, 9)},
        f"{CANNOT}width is 9; choose one of 1 to 8, or use backend='torch'",
    ),
    "empty": (Convolution(6), {0: torch.ones(0, 9, 5)}, f"{CANNOT}the tensors are empty; give at least"),
    "y": (Norm(5), {0: torch.ones(3)}, "y has shape (3,); give it as [..., heads, head_size]"),
    "x": (Norm(5), {1: torch.ones(5, 4, 2)}, "x has shape (5, 4, 2); with y as given it must be"),
    "D": (Norm(5), {2: torch.ones(3)}, "D has shape (3,); with y as given it must be (4,)"),
    "gate": (Norm(5), {3: torch.ones(1, 5, 4, 3)}, "gate has shape (1, 5, 4, 3); with y as given it must be"),
    "weight": (Norm(5), {4: torch.ones(1)}, "weight has shape (1,); with y as given it must be (12,)"),
    "groups": (Norm(5, groups=5), {}, "groups is 5; it must divide"),
    "norm, device": (Norm(5), {4: torch.ones(12, device="meta")}, "weight is on meta and y on"),
    "norm, empty": (Norm(0), {}, "the tensors are empty; give at least one sequence"),
}


@triton
@pytest.mark.parametrize(("case", "changed", "message"), REFUSED.values(), ids=REFUSED)
def test_what_does_not_fit_is_refused(case: Case, changed: dict[int, Tensor], message: str) -> None:
    inputs = case.arguments()
    for position, tensor in changed.items():
        inputs[position] = tensor if tensor.device.type == "meta" else tensor.to(DEVICE)
    with pytest.raises(InputError, match=re.escape(message)):
        case.by("triton", inputs)


def test_the_norm_of_no_tokens_is_empty() -> None:
    assert Norm(0).by("auto", Norm(0).arguments()).shape == (1, 0, 12)


@pytest.mark.triton
def test_the_norm_on_a_gpu_takes_mixed_dtypes_and_up_to_8192_features() -> None:
    for features, chosen in ((8192, "triton"), (8193, "torch")):
        request = dispatch.Request("cuda", (torch.float32, torch.bfloat16), features=features)
        assert dispatch.BACKENDS.choose(request) == chosen
