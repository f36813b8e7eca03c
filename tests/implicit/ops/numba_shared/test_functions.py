# mypy: allow-untyped-decorators
"""The elementary functions of the kernels against extended precision."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

numba = pytest.importorskip("numba")

from implicit.ops.numba_shared import functions  # noqa: E402
from implicit.ops.numba_shared.jit import OPTIONS  # noqa: E402
from implicit.ops.numba_shared.matrices import memory  # noqa: E402

DTYPES = [np.float32, np.float64]
MOST_ULPS = 4
"""The assumption about functions of one number in proofs of floats (docs/compiled_automata_floats.md)."""
sigmoid = functions.sigmoid


def elementwise(function: Any) -> Any:
    @numba.njit(**OPTIONS)
    def run(x: Any, out: Any) -> None:
        for i in range(len(x)):
            out[i] = function(x[i])

    return run


@numba.njit(**OPTIONS)
def silu(x: Any) -> Any:
    return x * sigmoid(x)


EXPONENTIAL = elementwise(functions.exp)
FUNCTIONS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "exp": (EXPONENTIAL, np.exp),
    "sigmoid": (elementwise(sigmoid), lambda x: 1 / (1 + np.exp(-x))),
    "softplus": (elementwise(functions.softplus), lambda x: np.where(x > 20, x, np.log1p(np.exp(x)))),
    "silu": (elementwise(silu), lambda x: x / (1 + np.exp(-x))),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_within_the_ulps_that_proofs_assume(name: str, dtype: Any) -> None:
    function, by_numpy = FUNCTIONS[name]
    generator = np.random.default_rng(0)
    x = np.concatenate([generator.uniform(-80, 80, 20_000), generator.normal(size=20_000)]).astype(dtype)
    out = np.empty_like(x)
    function(x, out)
    exact = by_numpy(x.astype(np.longdouble))
    if name == "softplus" and dtype == np.float64:  # PyTorch's threshold, rounded away at float32
        exact = np.log1p(np.exp(x.astype(np.longdouble)))
        assert np.abs(out - exact).max() <= 3e-9
        x = x[x <= 20]
        out, exact = np.empty_like(x), np.log1p(np.exp(x.astype(np.longdouble)))
        function(x, out)
    ulps = np.abs(out - exact) / np.spacing(np.abs(exact).astype(dtype))
    assert float(ulps.max()) <= MOST_ULPS


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_exponential_at_and_beyond_its_ends(dtype: Any) -> None:
    x = np.array([-np.inf, -1e4, 0, 1e4, np.inf, np.nan], dtype)
    out = np.empty_like(x)
    EXPONENTIAL(x, out)
    assert (out[:2] <= 2 * np.finfo(dtype).tiny).all()
    assert out[2] == 1
    assert (out[3:5] == np.inf).all()
    assert np.isnan(out[5])


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_zero_and_begins_with_a_line_of_the_cache(dtype: Any) -> None:
    room = memory(1000, dtype)
    assert (room.shape, room.dtype) == ((1000,), dtype)
    assert not room.any()
    assert room.ctypes.data % 64 == 0
