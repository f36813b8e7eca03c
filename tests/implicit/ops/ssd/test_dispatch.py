"""The choice of the backend, and what is refused before any of them runs."""

import re
from importlib.util import find_spec
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit.ops import explain
from implicit.ops.ssd import BACKENDS, ssd
from tests.processes import run_python

ARGUMENTS: dict[str, Any] = {
    "x": torch.ones(2, 3, 4, 16),
    "dt": torch.ones(2, 3, 4),
    "A": -torch.ones(4),
    "B": torch.ones(2, 3, 1, 16),
    "C": torch.ones(2, 3, 1, 16),
    "initial_state": torch.ones(2, 4, 16, 16),
}


@pytest.mark.triton
@pytest.mark.parametrize(
    ("dtype", "size", "chosen"),
    [
        (torch.float32, 64, "triton"),
        (torch.bfloat16, 256, "triton"),
        (torch.float64, 64, "chunked"),
        (torch.float32, 257, "chunked"),
    ],
    ids=str,
)
def test_on_a_gpu_auto_is_triton_where_it_can(dtype: torch.dtype, size: int, chosen: str) -> None:
    explanation = explain("cuda", dtype, head_size=size, state_size=size)
    assert explanation.chosen == chosen
    assert (explanation.refusals["triton"] is None) == (chosen == "triton")
    if chosen == "chunked":
        assert str(explanation.refusals["triton"]) in explanation.reason


ALONE = """
import os, sys; os.environ["TRITON_INTERPRET"] = "0"
import torch
from implicit import load_run
from implicit.ops.ssd import explain, ssd
load_run("parity")
print({"triton", "mamba_ssm", "torch._dynamo"} & set(sys.modules))
print(explain("cpu").refusals["triton"])
sys.modules["triton"] = None  # what an absent package looks like to an import
x = torch.ones(1, 2, 1, 16)
for _ in range(2):
    print(ssd(x, x[..., 0], -torch.ones(1), x, x)[0].shape, explain("cuda").chosen)
"""


def test_in_an_interpreter_of_its_own() -> None:
    """Nothing is imported before it is used, nor needed, nor has numba to compile."""
    done = run_python("-c", ALONE, NUMBA_DISABLE_JIT="1")
    imported, refusal, *without = done.stdout.splitlines()
    assert imported == "set()"
    assert refusal == "the tensors are on cpu; move them to a GPU, or debug with TRITON_INTERPRET=1"
    assert without == ["torch.Size([1, 2, 1, 16]) chunked"] * 2
    if find_spec("numba"):
        assert done.stderr.count("NUMBA_DISABLE_JIT is set") == 1


NO_SIZE = "give at least one head, and a head_size and a state_size of at least 1"
BAD: list[tuple[dict[str, Any], str]] = [
    ({"x": torch.ones(2, 0, 4, 16)}, "x has shape (2, 0, 4, 16); give at least one sequence and one token"),
    ({"x": torch.ones(2, 3, 4, 16).long()}, "x is torch.int64; cast it to a floating dtype"),
    ({"B": torch.ones(2, 3, 1, 16, device="meta")}, "B is on meta and x on cpu; move both to one device"),
    ({"initial_state": torch.ones(2, 4, 16, 16, device="meta")}, "initial_state is on meta and x on cpu; "),
    ({"x": torch.ones(2, 3, 4, 0)}, f"x has shape (2, 3, 4, 0) and B (2, 3, 1, 16); {NO_SIZE}"),
    ({"B": torch.ones(2, 3, 1, 0)}, f"x has shape (2, 3, 4, 16) and B (2, 3, 1, 0); {NO_SIZE}"),
    ({"x": torch.ones(3, 4, 16)}, "x has shape (3, 4, 16)"),
    ({"dt": torch.ones(2, 2, 4)}, "dt has shape (2, 2, 4)"),
    ({"dt": torch.ones(2, 3, 4, 1)}, "dt has shape (2, 3, 4, 1)"),
    ({"A": torch.ones(3)}, "A has shape (3,)"),
    ({"B": torch.ones(2, 3, 2, 16)}, "C has shape (2, 3, 1, 16)"),
    ({"B": torch.ones(2, 3, 0, 16)}, "B has 0 groups"),
    ({"B": torch.ones(2, 3, 3, 16)}, "B has 3 groups for 4 heads"),
    ({"B": torch.ones(3, 1, 16)}, "B (3, 1, 16)"),
    ({"C": torch.ones(2, 3, 1, 4)}, "C has shape (2, 3, 1, 4)"),
    ({"initial_state": torch.ones(2, 4, 16, 5)}, "initial_state has shape (2, 4, 16, 5)"),
]


@pytest.mark.parametrize("backend", ["auto", *BACKENDS])
def test_bad_requests_are_refused_alike_by_every_backend(backend: str) -> None:
    for changes, message in BAD:
        with pytest.raises(InputError, match=re.escape(message)):
            ssd(**{**ARGUMENTS, **changes}, backend=backend)


@pytest.mark.triton
@pytest.mark.parametrize("backend", ["auto", "chunked", "triton"])
def test_several_dtypes_are_refused_with_what_takes_them(backend: str) -> None:
    arguments = {**ARGUMENTS, "x": ARGUMENTS["x"].double()}
    with pytest.raises(InputError, match="cast them to one dtype, or use backend='reference'"):
        ssd(**arguments, backend=backend)
    assert ssd(**arguments, backend="reference")[0].dtype == torch.float64
