"""Who runs the ops around the scan: the choice, its reasons and its refusals."""

import re

import pytest
import torch

from automata.errors import InputError
from implicit.ops import around_scan as backends
from implicit.ops import explain_around_scan
from implicit.ops.around_scan import Request, choose

FLOAT32 = (torch.float32,)


def test_auto_takes_the_kernels_on_a_gpu_and_pytorch_elsewhere() -> None:
    assert choose("auto", Request("cuda", (torch.float32, torch.bfloat16), "features", 1536)) == "triton"
    assert choose("auto", Request("cpu", FLOAT32, "features", 1536)) == "torch"
    assert choose("auto", Request("mps", FLOAT32, "width", 4)) == "torch"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (
            Request("cuda", (torch.float32, torch.float64), "width", 4),
            "a tensor is torch.float64; cast it to",
        ),
        (Request("cuda", FLOAT32, "width", 9), "width is 9; choose one of 1 to 8"),
        (Request("cuda", FLOAT32, "features", 8193), "features is 8193; choose one of 1 to 8192"),
        (
            Request("cuda", FLOAT32, "width", 4, entries=0),
            "the tensors are empty; give at least one sequence",
        ),
    ],
    ids=["dtype", "width", "features", "empty"],
)
def test_what_the_kernels_do_not_take_goes_to_pytorch_or_is_refused(request_: Request, reason: str) -> None:
    assert choose("auto", request_) == "torch"
    with pytest.raises(InputError, match=re.escape(f"backend 'triton' cannot run this: {reason}")):
        choose("triton", request_)


def test_without_triton_pytorch_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    assert choose("auto", Request("cuda", FLOAT32, "width", 4)) == "torch"
    with pytest.raises(InputError, match="triton is not installed; install it with pip install triton"):
        choose("triton", Request("cuda", FLOAT32, "width", 4))


def test_an_unknown_backend_is_refused() -> None:
    with pytest.raises(InputError, match="backend"):
        choose("cuda", Request("cpu", FLOAT32, "width", 4))


def test_the_explanation_names_every_op_and_why() -> None:
    found = explain_around_scan("cuda", torch.float64)
    assert set(found) == {"gated_norm", "short_convolution"}
    for explanation in found.values():
        assert explanation.chosen == "torch"
        assert explanation.reason.startswith("triton cannot run this: a tensor is torch.float64")
    on_gpu = explain_around_scan("cuda", torch.bfloat16, features=9000)
    assert [on_gpu[name].chosen for name in ("gated_norm", "short_convolution")] == ["torch", "triton"]
