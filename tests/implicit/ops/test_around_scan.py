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
@pytest.mark.parametrize(
    ("backends", "request_", "reason"),
    [
        (
            short_convolution.BACKENDS,
            short_convolution.Request("cuda", (torch.float32, torch.float64), width=4),
            "the tensors are torch.float32, torch.float64; cast them to",
        ),
        (
            short_convolution.BACKENDS,
            short_convolution.Request("cuda", FLOAT32, width=9),
            "width is 9; choose one of 1 to 8",
        ),
        (
            gated_norm.BACKENDS,
            gated_norm.Request("cuda", FLOAT32, features=8193),
            "features is 8193; choose one of 1 to 8192",
        ),
        (
            short_convolution.BACKENDS,
            short_convolution.Request("cuda", FLOAT32, entries=0, width=4),
            "the tensors are empty; give at least one sequence",
        ),
    ],
    ids=["dtype", "width", "features", "empty"],
)
def test_what_the_kernels_do_not_take_goes_to_pytorch_or_is_refused(
    backends: Backends[Any, Any], request_: Any, reason: str
) -> None:
    assert backends.choose(request_) == "torch"
    with pytest.raises(InputError, match=re.escape(f"backend 'triton' cannot run this: {reason}")):
        backends.choose(request_, "triton")


@pytest.mark.triton
def test_two_dtypes_that_the_kernels_take_may_be_mixed() -> None:
    request = gated_norm.Request("cuda", (torch.float32, torch.bfloat16), features=1536)
    assert gated_norm.BACKENDS.choose(request) == "triton"


@pytest.mark.triton
def test_the_explanation_names_every_op_and_why() -> None:
    found = explain_around_scan("cuda", torch.float64)
    assert found.pop("mamba2_mixer").chosen == "ops"
    assert set(found) == {"gated_norm", "short_convolution"}
    for explanation in found.values():
        assert explanation.chosen == "torch"
        assert explanation.reason.startswith("triton cannot run this: the tensors are torch.float64")
    on_gpu = explain_around_scan("cuda", torch.bfloat16, features=9000)
    assert [on_gpu[name].chosen for name in ("gated_norm", "short_convolution")] == ["torch", "triton"]


def test_on_a_cpu_the_mixer_has_kernels_for_float32_and_float64() -> None:
    pytest.importorskip("numba")
    for dtype, chosen in ((torch.float32, "numba"), (torch.float64, "numba"), (torch.bfloat16, "ops")):
        assert explain_around_scan("cpu", dtype)["mamba2_mixer"].chosen == chosen
