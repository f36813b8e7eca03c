"""The command that waits for a GPU, as far as it goes without one."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from benchmarks import gpu

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
