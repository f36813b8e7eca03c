"""The command that waits for a GPU, as far as it goes without one; and the adapter of its rival."""

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from benchmarks import gpu
from benchmarks.fla_scan import FLA, ssd_simple_gla
from implicit.ops.ssd import Request, ssd_reference

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]


def test_without_a_gpu_one_sentence_and_nothing_written(
    tmp_path: Path, refuses: Refuses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    out = tmp_path / "gpu.json"
    assert "torch finds no GPU" in refuses(gpu.main, ["--out", str(out)])
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def scripts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules that steps can run."""
    (tmp_path / "one_that_reports.py").write_text(
        "import json, os, sys\n"
        "print('measuring', *sys.argv[1:-2])\n"
        "open(sys.argv[-1], 'w').write(json.dumps({'interpreted': os.environ.get('TRITON_INTERPRET')}))\n"
    )
    (tmp_path / "one_that_fails.py").write_text("raise SystemExit('wrong results')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(gpu, "ROOT", tmp_path)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    return tmp_path


def test_reports_and_failures_are_stored_side_by_side(scripts: Path) -> None:
    out = scripts / "results" / "gpu.json"
    good = gpu.Step("good", "one_that_reports", ("--length", "8"), ("--length", "2"))
    assert gpu.run([good], out, quick=True)
    assert not gpu.run([good, gpu.Step("bad", "one_that_fails"), gpu.Step("none", "one_not_there")], out)
    stored = json.loads(out.read_text())
    assert stored["steps"] == {
        # Kernels are compiled there, whatever this process does.
        "good": {"exit_code": 0, "report": {"interpreted": None}, "printed": ["measuring --length 8"]},
        "bad": {"exit_code": 1, "report": None, "printed": ["wrong results"]},
        "none": {"exit_code": None, "report": None, "printed": ["there is no module one_not_there"]},
    }
    assert {"gpu", "cuda", "triton", "mamba-ssm", "commit"} <= set(stored["environment"])


def recurrence_of_simple_gla(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, scale: float, initial_state: Tensor, output_final_state: bool
) -> tuple[Tensor, Tensor]:
    """What fla documents: q and k are ``[B, T, H, K]``, v ``[B, T, H, V]``, states ``[B, H, K, V]``."""
    assert output_final_state
    state, outputs = initial_state, []
    for t in range(q.shape[1]):
        state = g[:, t, :, None, None].exp() * state + k[:, t, :, :, None] * v[:, t, :, None, :]
        outputs.append(scale * (q[:, t, :, None, :] @ state).squeeze(-2))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("groups", [1, 2])
def test_the_adapter_of_fla_asks_for_the_ssd_scan(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("fla.ops.simple_gla")
    package.chunk_simple_gla = recurrence_of_simple_gla  # type: ignore[attr-defined]
    for name in ("fla", "fla.ops"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "fla.ops.simple_gla", package)
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    arguments = (
        normal(2, 5, 4, 3),
        normal(2, 5, 4).exp(),
        -normal(4).exp(),
        normal(2, 5, groups, 6),
        normal(2, 5, groups, 6),
        normal(2, 4, 3, 6),
    )
    # The same sums of at most 5 products in float32: equal to a few units in the last place.
    for ours, theirs in zip(ssd_reference(*arguments), ssd_simple_gla(*arguments), strict=True):
        torch.testing.assert_close(theirs, ours, rtol=1e-5, atol=1e-5)


def test_fla_is_refused_with_a_remedy() -> None:
    types = (torch.float32,) * 3
    assert "move them to a CUDA device" in str(FLA.refusal(Request("cpu", types, 16, 16)))
