"""docs/scale.md: its tables are what the command prints, and its files fit the code and the memory."""

import re
from pathlib import Path
from typing import Any

import pytest
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import FullyShardedDataParallelPlugin
from accelerate.utils.launch import prepare_multi_gpu_env

from implicit.language import parameter_count, published_config
from implicit.language.cost import Activations, WeightMemory, published_phases
from implicit.language.cost.__main__ import main
from implicit.language.cost.tables import RESERVED, Device
from implicit.language.pretrain import PretrainConfig, read_config
from tests.docs.page import EXAMPLES, page

PAGE = page("scale.md")
FOLDER = EXAMPLES / "pretraining"
RUNS = sorted(FOLDER.glob("pile_*.yaml"))
VOCABULARY = 50_277
"""Tokens of EleutherAI/gpt-neox-20b."""


def test_the_tables_are_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    (table,) = re.findall(
        r"<!-- python -m implicit.language.cost (.*?) -->\n(.*?)\n<!-- end -->", PAGE, re.DOTALL
    )
    main(table[0].split())
    assert capsys.readouterr().out.strip() == table[1]


def sequences_at_a_time(config: PretrainConfig, devices: int, accumulation: int) -> int:
    """Windows that a device takes at once; the run refuses numbers that do not divide."""
    part, rest = divmod(config.sequences, accumulation)
    assert rest == 0
    at_a_time, rest = divmod(part, devices)
    assert rest == 0
    return at_a_time


@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_a_run_is_of_the_published_size_and_fits_into_memory(path: Path) -> None:
    config, text = read_config(path), path.read_text(encoding="utf-8")
    family, size = config.model.family, str(config.model.size)
    assert path.stem == f"pile_implicit_{family}_{size}"
    assert config.phases == published_phases(family)
    # Steps are whole: half of one is a millionth of them.
    assert config.steps * config.tokens_per_step == pytest.approx(207e9, rel=1e-5)
    assert config.optimizer.warmup_steps * config.tokens_per_step == pytest.approx(
        375e6, rel=2e-3
    )  # likewise
    model = config.model.build(VOCABULARY)
    assert parameter_count(model) == parameter_count(published_config(family, size))

    on_64 = int(re.findall(r"On 64 GPUs: --set accumulation=(\d+)", text)[0])
    weights = WeightMemory.of(model, 8, sharded=False).total
    sequence = max(
        Activations.of(
            model,
            config.length,
            phantom_steps=phase.phantom_steps,
            gradient_checkpointing=config.gradient_checkpointing,
        ).total
        for phase in config.phases
    )
    for devices, accumulation in ((8, config.accumulation), (64, on_64)):
        at_a_time = sequences_at_a_time(config, devices, accumulation)
        assert weights + at_a_time * sequence <= (1 - RESERVED) * Device().memory


def environment_of(file: str) -> dict[str, str]:
    """Variables that `accelerate launch` hands on to the processes."""
    given = launch_command_parser().parse_args(["--config_file", str(FOLDER / file), "-m", "module"])
    given, _, _ = _validate_launch_command(given)
    assert given.num_processes == 8
    return prepare_multi_gpu_env(given)


def test_replicated_is_replicated(capsys: Any) -> None:
    assert "ACCELERATE_USE_FSDP" not in environment_of("accelerate_replicated.yaml")


def test_sharded_is_one_unit_of_fsdp2(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = environment_of("accelerate_sharded.yaml")
    assert environment["ACCELERATE_USE_FSDP"] == "true"
    for name, value in environment.items():
        if name.startswith("FSDP_"):
            monkeypatch.setenv(name, value)
    plugin = FullyShardedDataParallelPlugin()
    assert plugin.fsdp_version == 2
    assert plugin.auto_wrap_policy is None
    assert plugin.reshard_after_forward is False
    assert plugin.cpu_ram_efficient_loading is False
