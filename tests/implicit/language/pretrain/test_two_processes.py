"""Two processes, with weights replicated or sharded, train as one process does."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from implicit.language.pretrain import make_accelerator, pretrain
from tests.implicit.language.pretrain.small_runs import small_run
from tests.implicit.language.pretrain.train_on_two_processes import RUNS

ROOT = Path(__file__).parents[4]


def losses(folder: Path, name: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All trainings on two processes, in one launch; they find the same texts as one process does."""
    folder = tmp_path_factory.mktemp("runs")
    small_run(folder / "texts")
    module = "tests.implicit.language.pretrain.train_on_two_processes"
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"]
    done = subprocess.run(
        [*launch, module, str(folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return folder


@pytest.mark.parametrize(("family", "how"), RUNS)
def test_two_processes_train_as_one_does(folder: Path, family: str, how: str, tmp_path: Path) -> None:
    config = small_run(folder / "texts", family)
    expected = pretrain(config, tmp_path / "one", make_accelerator(config, cpu=True))
    out = folder / f"{family}-{how}"
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    assert found["processes"] == 2
    assert found["distributed"] == {"replicated": "MULTI_CPU", "sharded": "FSDP"}[how]
    # float32, sums in another order, eight steps of AdamW; a wrong share of a batch costs some percent
    for name in ("loss", "gradient_norm", "validation_loss"):
        one, two = losses(tmp_path / "one", name), losses(out, name)
        assert len(one) == len(two) == (2 if name == "validation_loss" else 8)
        assert two == pytest.approx(one, rel=1e-4)
    assert found["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-4)
    weights = [load_file(path / "model" / "model.safetensors") for path in (tmp_path / "one", out)]
    assert weights[0].keys() == weights[1].keys()
    for name, weight in weights[0].items():
        # a rate of 1e-3 moves a weight by at most 8e-3; Adam's first steps divide noise by noise
        assert float((weight - weights[1][name]).abs().mean()) < 2e-5, name
