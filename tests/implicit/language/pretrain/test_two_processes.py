"""Two processes, with weights replicated or sharded, train as one process does."""

import json
from pathlib import Path
from typing import Any

import pytest
from accelerate import debug_launcher
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import DistributedType, FullyShardedDataParallelPlugin
from safetensors.torch import load_file

from implicit.language.pretrain import make_accelerator, pretrain
from tests.implicit.language.pretrain.small_runs import small_run

SHORT: dict[str, Any] = {"steps": 4, "checkpoint_every": 2}
RUNS = [("llama", "replicated"), ("mamba2", "sharded")]


def one_of_two(folder: Path) -> None:
    """Train all runs, in a fork."""
    for state in (PartialState, AcceleratorState, GradientState):  # those of other tests
        state._reset_state()
    process_group = PartialState(cpu=True)
    for family, how in RUNS:
        config = small_run(folder / "texts", family, **SHORT)
        options = {}
        if how == "sharded":
            # accelerate shards on accelerators only: nothing but this line says that there is none
            process_group.distributed_type = DistributedType.MULTI_XPU
            options["fsdp_plugin"] = FullyShardedDataParallelPlugin(
                fsdp_version=2, auto_wrap_policy="no_wrap", cpu_ram_efficient_loading=False
            )
        accelerator = make_accelerator(config, cpu=True, **options)
        assert accelerator.num_processes == 2
        out = folder / f"{family}-{how}"
        if how == "sharded":  # and goes on from a checkpoint of shards

            def stop(line: dict[str, object]) -> None:
                if line["step"] == 3:
                    raise InterruptedError

            try:
                pretrain(config, out, accelerator, watch=stop)
            except InterruptedError:
                accelerator.wait_for_everyone()
            accelerator.free_memory()
        pretrain(config, out, accelerator)
        accelerator.free_memory()
        AcceleratorState._reset_state()
        GradientState._reset_state()


def losses(folder: Path, name: str) -> list[float]:
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line[name] for line in lines if name in line]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All trainings on two processes, in one launch; they find the same texts as one process does."""
    folder = tmp_path_factory.mktemp("runs")
    small_run(folder / "texts")
    debug_launcher(one_of_two, (folder,), num_processes=2)
    return folder


@pytest.mark.parametrize(("family", "how"), RUNS)
def test_two_processes_train_as_one_does(folder: Path, family: str, how: str, tmp_path: Path) -> None:
    config = small_run(folder / "texts", family, **SHORT)
    expected = pretrain(config, tmp_path / "one", make_accelerator(config, cpu=True))
    out = folder / f"{family}-{how}"
    found: dict[str, Any] = json.loads((out / "result.json").read_text())
    assert found["processes"] == 2
    assert found["distributed"] == {"replicated": "MULTI_CPU", "sharded": "FSDP"}[how]
    # float32, sums in another order, four steps of AdamW; a wrong share of a batch costs some percent
    for name in ("loss", "gradient_norm", "validation_loss"):
        one, two = losses(tmp_path / "one", name), losses(out, name)
        assert len(one) == len(two) == (1 if name == "validation_loss" else 4)
        assert two == pytest.approx(one, rel=1e-4)
    assert found["perplexity"] == pytest.approx(expected["perplexity"], rel=1e-4)
    weights = [load_file(path / "model" / "model.safetensors") for path in (tmp_path / "one", out)]
    assert weights[0].keys() == weights[1].keys()
    for name, weight in weights[0].items():
        # a rate of 1e-3 moves a weight by at most 4e-3; Adam's first steps divide noise by noise
        assert float((weight - weights[1][name]).abs().mean()) < 2e-5, name
