"""The assumptions about PyTorch's operations in float32 and float64 on a CPU, measured against FLINT."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from flint import arb, ctx
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from theory.rigorous.rounded import FLOAT32, FLOAT64, FloatFormat

COUNT = 20_000
Function = tuple[Callable[[Tensor], Tensor], Callable[[arb], arb], float, float]
FUNCTIONS: dict[str, Function] = {
    "exp": (torch.exp, lambda x: x.exp(), -80.0, 5.0),
    "exp2": (torch.exp2, lambda x: (x * arb(2).log()).exp(), -120.0, 0.0),
    "log1p": (torch.log1p, lambda x: x.log1p(), 0.0, 20.0),
    "softplus": (functional.softplus, lambda x: x.exp().log1p(), -69.0, 20.0),
    "sigmoid": (torch.sigmoid, lambda x: 1 / (1 + (-x).exp()), -80.0, 30.0),
    "softplus near 20": (functional.softplus, lambda x: x.exp().log1p(), 15.0, 20.0),
    "silu": (functional.silu, lambda x: x / (1 + (-x).exp()), -80.0, 90.0),
    "silu near 0": (functional.silu, lambda x: x / (1 + (-x).exp()), -2.0, 2.0),
    "rsqrt": (torch.rsqrt, lambda x: x.rsqrt(), 1e-5, 1e5),
    "sqrt": (torch.sqrt, lambda x: x.sqrt(), 1e-5, 1e5),
}


@pytest.mark.parametrize("form", [FLOAT32, FLOAT64], ids=lambda form: form.name)
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("size", [COUNT, 3])
def test_functions_are_within_the_assumed_ulps(name: str, size: int, form: FloatFormat) -> None:
    """In vectors and in their remainders of a few entries, which other code computes."""
    function, exact, low, high = FUNCTIONS[name]
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.uniform(low, high, COUNT).astype(form.name))
    found = torch.cat([function(part) for part in x[: min(COUNT, 100 * size)].split(size)])
    before, ctx.prec = ctx.prec, 160
    try:
        values = [(arb(v), exact(arb(t))) for v, t in zip(found.tolist(), x.tolist(), strict=False)]
        worst = max(float((abs(v / right - 1) / form.unit_roundoff).upper()) for v, right in values)
    finally:
        ctx.prec = before
    assert worst <= 2 * form.ulps


def test_softplus_is_its_argument_above_20() -> None:
    """So that in float64 it is not within ulps there; `theory.rigorous.rounded` allows for the difference."""
    x = torch.linspace(20.001, 60, 1000, dtype=torch.float64)
    assert torch.equal(functional.softplus(x), x)
    below = torch.linspace(19, 20, 1000, dtype=torch.float64)
    assert bool((functional.softplus(below) > below).all())


def test_silu_fades_to_zero_and_not_beyond() -> None:
    """Where e^−x overflows or the result is denormal: between the exact result and 0, to the assumed ulps."""
    x = torch.linspace(-200, -80, COUNT)
    exact = functional.silu(x.double())
    found = functional.silu(x).double()
    assert bool((found <= 0).all())
    assert bool((found >= exact * (1 + FLOAT32.function) - 2.0**-126).all())
    assert not found[x < -110].any()


@pytest.mark.parametrize("name", ["exp", "exp2"])
def test_denormal_results_are_within_the_least_normal_number(name: str) -> None:
    """Where they are rounded to the nearest of few, some lie far above the exact result."""
    x = torch.linspace(-200, -60, COUNT)
    function = getattr(torch, name)
    exact, found = function(x.double()), function(x).double()
    small = exact < 2.0**-100
    within = (found - exact).abs() <= FLOAT32.function * exact + 2.0**-126 * small
    assert bool((within | (found < exact) & small).all())


def test_elementary_operations_are_rounded_exact_results() -> None:
    """The oracle is float64: exact for products, and sums of numbers of like size; quotients to 2⁻⁵³."""
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(COUNT, generator=generator) for _ in range(2))
    for operation in (torch.add, torch.sub, torch.mul, torch.div):
        exact = operation(a.double(), b.double())
        error = (operation(a, b).double() - exact).abs()
        assert bool((error <= FLOAT32.unit_roundoff * (1 + 2.0**-20) * exact.abs()).all())


@pytest.mark.parametrize("terms", [1, 7, 64, 650, 3000])
@pytest.mark.parametrize("rows", [1, 3000])
def test_products_of_matrices_are_sums_in_some_order(terms: int, rows: int) -> None:
    """Through MKL and, for the large ones, oneDNN; the oracle is float64, exact to 2⁻⁵³ of the terms."""
    from implicit.ops.linear import linear

    generator = torch.Generator().manual_seed(terms)
    x = torch.randn(rows, terms, generator=generator)
    weight = torch.randn(5, terms, generator=generator)
    found = linear(x, weight).double()
    allowed = FLOAT32.gamma(terms) * (x.abs().double() @ weight.abs().double().T)
    assert bool(((found - x.double() @ weight.double().T).abs() <= allowed).all())


def test_products_with_zeros_are_exactly_zero() -> None:
    """So closed gates, idle latents and empty rows are exactly 0."""
    x = torch.randn(50, 64)
    weight = torch.zeros(8, 64)
    weight[3, 5] = 2.0
    product = functional.linear(x, weight)
    assert not product[:, :3].any()
    assert torch.equal(product[:, 3], 2 * x[:, 5])
    assert functional.silu(torch.zeros(37)).count_nonzero() == 0


def test_a_format_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="float16, which keeps nothing of sums of 2000 terms"):
        FloatFormat("float16", 2.0**-11).gamma(2000)
