"""Who runs the ops around the scan: what their kernels take, and what is said of it."""

import re
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.ops import explain_around_scan
from implicit.ops.backends import Backends
from implicit.ops.gated_norm import dispatch as gated_norm
from implicit.ops.short_convolution import dispatch as short_convolution

FLOAT32 = (torch.float32,)


@pytest.mark.triton
def test_what_the_kernels_do_not_take_goes_to_pytorch_or_is_refused() -> None:
    convolution, norm = short_convolution.Request, gated_norm.Request
    cases: list[tuple[Backends[Any, Any], Any, str]] = [
        (
            short_convolution.BACKENDS,
            convolution("cuda", (torch.float64,), width=4),
            "torch.float64; cast them",
        ),
        (
            short_convolution.BACKENDS,
            convolution("cuda", FLOAT32, width=9),
            "width is 9; choose one of 1 to 8",
        ),
        (
            gated_norm.BACKENDS,
            norm("cuda", FLOAT32, features=8193),
            "features is 8193; choose one of 1 to 8192",
        ),
        (
            short_convolution.BACKENDS,
            convolution("cuda", FLOAT32, entries=0, width=4),
            "the tensors are empty",
        ),
    ]
    for backends, request, reason in cases:
        assert backends.choose(request) == "torch"
        with pytest.raises(InputError, match=re.escape(reason)):
            backends.choose(request, "triton")


@pytest.mark.triton
def test_two_dtypes_that_the_kernels_take_may_be_mixed() -> None:
    request = gated_norm.Request("cuda", (torch.float32, torch.bfloat16), features=1536)
    assert gated_norm.BACKENDS.choose(request) == "triton"


def test_on_a_cpu_the_mixer_has_kernels_for_float32_and_float64() -> None:
    pytest.importorskip("numba")
    for dtype, chosen in ((torch.float32, "numba"), (torch.float64, "numba"), (torch.bfloat16, "ops")):
        assert explain_around_scan("cpu", dtype)["mamba2_mixer"].chosen == chosen
