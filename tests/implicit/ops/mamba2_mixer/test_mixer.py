"""The mixer of Mamba-2: our kernels against its definition, in every derivative, at the edges of sizes."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.mamba2_mixer import mamba2_mixer
from implicit.ops.mamba2_mixer.dispatch import definition
from tests.implicit.ops.conftest import with_gradients

pytest.importorskip("numba")

EPSILON = 1e-5


class Arguments(NamedTuple):
    projected: Tensor
    window: Tensor
    taps: Tensor
    bias: Tensor
    dt_bias: Tensor
    A: Tensor
    D: Tensor
    weight: Tensor
    state: Tensor


def draw(
    length: int = 7,
    *,
    batch: int = 2,
    heads: int = 4,
    head_size: int = 3,
    groups: int = 2,
    state_size: int = 5,
    width: int = 4,
    dtype: torch.dtype = torch.float64,
) -> Arguments:
    """Draw arguments of order one; the tokens are a slice of a wider tensor, as after an injection."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    features = heads * head_size
    channels = features + 2 * groups * state_size
    drawn = Arguments(
        normal(batch, length, features + channels + heads + 3)[..., 1:-2],
        normal(batch, channels, width - 1),
        normal(channels, width) / 2,
        normal(channels),
        normal(heads),
        -torch.rand(heads, generator=generator, dtype=torch.float64) * 2,
        normal(heads),
        normal(features),
        normal(batch, heads, head_size, state_size),
    )
    return Arguments(*(part.to(dtype) for part in drawn))


Mixer = Callable[..., tuple[Tensor, Tensor]]


def by_definition(
    *tensors: Tensor, mask: Tensor | None = None, norm_groups: int = 1
) -> tuple[Tensor, Tensor]:
    real = None if mask is None else mask.to(tensors[0].dtype)
    outputs, state = definition(norm_groups, EPSILON)(*tensors, real)
    return outputs, state


def by_kernels(*tensors: Tensor, mask: Tensor | None = None, norm_groups: int = 1) -> tuple[Tensor, Tensor]:
    return mamba2_mixer(*Arguments(*tensors), mask, norm_groups=norm_groups, epsilon=EPSILON, backend="numba")


def results(mixer: Mixer, arguments: Arguments, loss: str = "both", **options: Any) -> dict[str, Tensor]:
    """Outputs, state and all gradients of a loss of both or one of them."""
    leaves = Arguments(*(part.clone().requires_grad_() for part in arguments))
    results = dict(zip(("outputs", "state"), mixer(*leaves, **options), strict=True))
    weighed = {name: part for name, part in results.items() if loss in (name, "both")}
    found = with_gradients(list(weighed.values()), leaves)[len(weighed) :]
    return {**results, **{f"gradient of {n}": g for n, g in zip(Arguments._fields, found, strict=True)}}


def assert_equal(found: dict[str, Tensor], expected: dict[str, Tensor], tolerance: float) -> None:
    for name, part in expected.items():
        if part.numel():
            error = (found[name].double() - part).abs().max().item() / max(part.abs().max().item(), 1e-30)
            assert error <= tolerance, f"{name} is {error:.2g} off"


SIZES: dict[str, dict[str, Any]] = {
    "one-of-each": {"batch": 1, "heads": 1, "groups": 1, "head_size": 1, "state_size": 1},
    "whole-registers": {"heads": 2, "groups": 1, "head_size": 16, "state_size": 16},
    "a-group-a-head": {"heads": 3, "groups": 3},
    "wide-state": {"heads": 2, "groups": 1, "head_size": 2, "state_size": 35},
    "no-window": {"width": 1},
    "two-taps": {"width": 2},
    "longer-window-than-a-run": {"width": 70},
}


# Every size once, every length and the longest window at a length beyond it.
@pytest.mark.usefixtures("poisoned_memory")
@pytest.mark.parametrize(("name", "length"), list(zip(SIZES, (1, 33, 64, 65, 130, 33, 130), strict=True)))
def test_equals_the_definition_with_all_gradients(name: str, length: int) -> None:
    arguments = draw(length, **SIZES[name])
    # float64 sums of up to 130 tokens, whose terms cancel to a hundredth.
    assert_equal(results(by_kernels, arguments), results(by_definition, arguments), 1e-11)


@pytest.mark.usefixtures("poisoned_memory")
@pytest.mark.parametrize(("loss", "norm_groups"), [("outputs", 2), ("state", 4)])
def test_gradients_that_come_through_one_result_and_groups_of_the_norm(loss: str, norm_groups: int) -> None:
    found, expected = (
        results(mixer, draw(70), loss, norm_groups=norm_groups) for mixer in (by_kernels, by_definition)
    )
    assert_equal(found, expected, 1e-11)


def test_padding_leaves_the_state() -> None:
    arguments = draw(70)
    mask = torch.arange(70) < torch.tensor([[70], [41]])
    masked = results(by_kernels, arguments, mask=mask)
    assert_equal(masked, results(by_definition, arguments, mask=mask), 1e-11)
    shorter = arguments._replace(
        projected=arguments.projected[1:, :41],
        **{name: getattr(arguments, name)[1:] for name in ("window", "state")},
    )
    torch.testing.assert_close(by_kernels(*shorter)[1][0], masked["state"][1], rtol=1e-13, atol=1e-13)


# Rounded inputs, 6e-8, and sums of 130 tokens in float32, forwards and backwards.
def test_in_float32() -> None:
    exact = results(by_definition, draw(130))
    found = results(by_kernels, draw(130, dtype=torch.float32))
    assert all(part.dtype == torch.float32 for part in found.values())
    assert_equal(found, exact, 5e-6)


def test_first_and_second_derivatives_by_finite_differences() -> None:
    arguments = draw(3, batch=1, heads=2, head_size=2, groups=1, state_size=2, width=2)
    leaves = tuple(part.clone().requires_grad_() for part in arguments)
    # gradcheck's own tolerances: central differences in float64 with a step of 1e-6. Second ones in random
    # directions.
    assert torch.autograd.gradcheck(by_kernels, leaves)
    assert torch.autograd.gradgradcheck(by_kernels, leaves, fast_mode=True)


def test_the_number_of_threads_does_not_matter() -> None:
    arguments, threads = draw(65, batch=3), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        alone = results(by_kernels, arguments)
        torch.set_num_threads(2)
        together = results(by_kernels, arguments)
    finally:
        torch.set_num_threads(threads)
    for name, part in alone.items():
        assert torch.equal(together[name], part), name


def test_without_the_kernels_each_op_runs_by_itself() -> None:
    arguments = draw(20)
    found = results(lambda *tensors: mamba2_mixer(*Arguments(*tensors), backend="ops"), arguments)
    assert_equal(found, results(by_definition, arguments), 1e-11)
    half = Arguments(*(part.bfloat16() for part in arguments))
    assert mamba2_mixer(*half)[0].dtype == torch.bfloat16
    with pytest.raises(InputError, match="backend 'numba' cannot run this: the tensors are"):
        mamba2_mixer(*half, backend="numba")


def test_shapes_that_do_not_fit_are_refused() -> None:
    for name in ("projected", "window", "bias", "dt_bias", "A", "D", "weight", "mask"):
        with pytest.raises(InputError, match=rf"{name} has shape \(2, 6, 1\); with state and taps"):
            mamba2_mixer(**{**draw(5)._asdict(), name: torch.ones(2, 6, 1)})
    for name, shape, message in (
        ("projected", (2, 0, 36), "at least one sequence"),
        ("taps", (13, 4), "channels per group"),
        ("state", (2, 4, 3), "heads"),
    ):
        with pytest.raises(InputError, match=message):
            mamba2_mixer(**{**draw(5)._asdict(), name: torch.ones(shape)})
