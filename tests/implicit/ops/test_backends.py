"""The chooser: which backend runs a request, what is said about it, and what every op's table has to be."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from automata.errors import InputError
from implicit import ops
from implicit.ops import gated_norm, mamba2_mixer, sequential_solve, short_convolution, ssd
from implicit.ops.backends import (
    Backend,
    Backends,
    Preference,
    Requirement,
    TensorsRequest,
    at_most,
    common_device,
    element_types,
    on_device,
    package,
)

FLOAT32 = (torch.float32,)


@dataclass(frozen=True)
class Request:
    device: str
    dtypes: tuple[torch.dtype, ...] = FLOAT32
    width: int = 1


def table(*of_plain: Requirement) -> Backends[Request, str]:
    return Backends(
        {
            "plain": Backend("plain", of_plain),
            "kernel": Backend(
                "kernel", (on_device("cuda", "a CUDA device"), element_types(), at_most(4, "width"))
            ),
            "loop": Backend("loop"),
        },
        on_gpu=Preference("kernel", "where it is quick"),
        elsewhere=Preference("plain", "where it runs"),
        subject="the numbers",
    )


@pytest.mark.parametrize(
    ("request_", "chosen", "reason"),
    [
        (Request("cpu"), "plain", "the numbers are on cpu, where it runs"),
        (Request("mps"), "plain", "the numbers are on mps, where it runs"),
        (Request("cuda"), "kernel", "the numbers are on a GPU, where it is quick"),
        (Request("cuda", width=5), "plain", "kernel cannot run this: width is 5; choose one of 1 to 4"),
        (  # of two needs that are not given, the first is told
            Request("cuda", (torch.float64,), width=5),
            "plain",
            "kernel cannot run this: the tensors are torch.float64; "
            "cast them to torch.float32 or torch.bfloat16",
        ),
    ],
    ids=["cpu", "mps", "gpu", "too wide", "too wide and float64"],
)
def test_auto_and_its_explanation(request_: Request, chosen: str, reason: str) -> None:
    explanation = table().explain(request_)
    assert (explanation.chosen, explanation.reason) == (chosen, reason)
    assert table().choose(request_) == table().choose(request_, "auto") == chosen
    assert table()[chosen].run == chosen
    assert list(explanation.refusals) == ["plain", "kernel", "loop"]
    assert explanation.refusals["loop"] is None


def test_an_override_is_taken_or_refused_with_one_that_can() -> None:
    assert table().choose(Request("cuda"), "loop") == "loop"
    with pytest.raises(InputError) as caught:
        table().choose(Request("cpu"), "kernel")
    assert str(caught.value) == (
        "backend 'kernel' cannot run this: the tensors are on cpu; move them to a CUDA device, "
        "or use backend='plain'"
    )
    with pytest.raises(
        InputError, match=r"^backend 'kernle' is unknown; did you mean 'kernel'\? Known: auto, "
    ):
        table().choose(Request("cpu"), "kernle")


def test_what_auto_takes_is_asked_too_and_the_next_one_named() -> None:
    narrow = table(at_most(2, "width"))
    for override in ("auto", "plain"):
        with pytest.raises(InputError) as caught:
            narrow.choose(Request("cpu", width=3), override)
        assert str(caught.value) == (
            "backend 'plain' cannot run this: width is 3; choose one of 1 to 2, or use backend='loop'"
        )


@pytest.mark.parametrize("error", ["ImportError", "RuntimeError", "OSError", "AttributeError", "SystemExit"])
def test_a_package_that_raises_on_import_is_told_once(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken_by_{error}"
    (tmp_path / f"{name}.py").write_text(f"raise {error}('no such library')")
    monkeypatch.syspath_prepend(tmp_path)
    need = package(name, "pip install broken", module=name)
    with pytest.warns(RuntimeWarning, match="no such library"):
        told = need(None)
    assert told == need(None)  # a second warning would be an error
    ends = "it would end Python: " if error == "SystemExit" else ""
    assert f"cannot be imported ({ends}no such library)" in str(told)
    assert "reinstall it with pip install broken" in str(told)


def test_tensors_of_several_devices_are_refused() -> None:
    tensors = {"x": torch.ones(1), "y": torch.ones(1, device="meta")}
    with pytest.raises(InputError, match=r"^y is on meta and x on cpu; move both to one device$"):
        common_device(tensors)


# What every op of the package promises.
OPS: dict[str, tuple[Backends[Any, Any], Any]] = {
    "ssd": (ssd.BACKENDS, lambda device: ssd.Request(device, FLOAT32 * 3, 64, 128)),
    "gated_norm": (
        gated_norm.dispatch.BACKENDS,
        lambda device: gated_norm.dispatch.Request(device, FLOAT32, features=1536),
    ),
    "short_convolution": (
        short_convolution.dispatch.BACKENDS,
        lambda device: short_convolution.dispatch.Request(device, FLOAT32, width=4),
    ),
    "mamba2_mixer": (
        mamba2_mixer.dispatch.BACKENDS,
        lambda device: TensorsRequest(device, FLOAT32),
    ),
    "sequential_solve": (sequential_solve.solve.BACKENDS, sequential_solve.solve.Request),
}
every_op = pytest.mark.parametrize(("backends", "request_on"), OPS.values(), ids=OPS)


def test_the_table_names_every_op() -> None:
    folder = Path(ops.__file__).parent
    tables = [path for path in folder.glob("*/*.py") if "\nBACKENDS: Backends" in path.read_text()]
    assert set(OPS) == {path.parent.name for path in tables}


@pytest.mark.triton
@every_op
def test_each_op_runs_anywhere_and_prefers_kernels_on_a_gpu(
    backends: Backends[Any, Any], request_on: Any
) -> None:
    assert backends.choose(request_on("mps")) == backends.elsewhere.name
    on_cpu = backends.elsewhere if backends.on_cpu is None else backends.on_cpu
    if on_cpu.name != "numba" or find_spec("numba"):
        assert backends.choose(request_on("cpu")) == on_cpu.name
    assert backends.choose(request_on("cuda")) == backends.on_gpu.name
    assert backends.on_gpu.name == "triton" or "triton" not in backends


@every_op
def test_each_op_without_kernels(
    backends: Backends[Any, Any], request_on: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("implicit.ops.backends.find_spec", lambda name: None)
    assert backends.choose(request_on("cpu")) == backends.elsewhere.name
    assert backends.choose(request_on("cuda")) == backends.elsewhere.name
    if "triton" in backends:
        sentence = (
            r"^backend 'triton' cannot run this: the package triton is not installed; install it with pip "
            rf"install triton \(Linux only\), or use backend='{backends.elsewhere.name}'$"
        )
        with pytest.raises(InputError, match=sentence):
            backends.choose(request_on("cuda"), "triton")
