"""Pretraining runs small enough for tests."""

import json
from pathlib import Path
from typing import Any

from implicit.language.pretrain import ModelChoice, Phase, PretrainConfig, Source, make_accelerator, pretrain
from implicit.language.pretrain.config import Evaluation
from tests.implicit.language.small_language_models import config_of

PHASES = (
    Phase(share=0.5, iterations=3, phantom_steps=1, rtol=0.0),
    Phase(share=0.5, iterations=12, phantom_steps=2, rtol=0.05),
)
NAMES = {"mamba2": "Mamba2ForCausalLM", "llama": "LlamaForCausalLM"}
LINES = [f"{a} plus {b} is {a + b}, says line {a * b}\n" for a in range(20) for b in range(20)]


def write_texts(folder: Path) -> tuple[Source, Source]:
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in (("train", LINES[40:]), ("valid", LINES[:40])):
        (folder / f"{name}.txt").write_text("".join(lines))
    return Source(files=(str(folder / "train.txt"),)), Source(files=(str(folder / "valid.txt"),))


def small_run(folder: Path, family: str = "mamba2", implicit: bool = True, **changes: Any) -> PretrainConfig:
    train, validation = write_texts(folder)
    sizes = ("hidden_size", "num_hidden_layers") + (
        ("head_dim", "state_size", "conv_kernel")
        if family == "mamba2"
        else ("num_attention_heads", "num_key_value_heads", "intermediate_size")
    )
    config = config_of(("Implicit" if implicit else "Explicit") + NAMES[family])
    fields: dict[str, Any] = {
        "model": ModelChoice(
            family=family, implicit=implicit, fields={name: getattr(config, name) for name in sizes}
        ),
        "train": train,
        "validation": validation,
        "length": 16,
        "sequences": 8,
        "steps": 8,
        "phases": PHASES,
        "log_every": 1,
        "checkpoint_every": 3,
        "evaluation": Evaluation(every=4, tokens=80, sequences=4),
    }
    return PretrainConfig(**{**fields, **changes})


def train(config: PretrainConfig, out: Path, **options: Any) -> dict[str, Any]:
    return pretrain(config, out, make_accelerator(config, cpu=True), **options)


def lines_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def stop_at(step: int) -> Any:
    def stop(line: dict[str, Any]) -> None:
        if line["step"] == step:
            raise KeyboardInterrupt

    return stop
