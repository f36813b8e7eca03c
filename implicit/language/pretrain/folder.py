"""The folder of a pretraining run: what it was made of, how it went, checkpoints, the model in the end."""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from automata.errors import InputError
from implicit.language.pretrain.config import PretrainConfig
from implicit.runs.environment import describe_environment
from implicit.runs.files import leftovers, read_json, read_stored, write_bytes, write_json

FORMAT_VERSION = 1


@dataclass(frozen=True)
class PretrainFolder:
    """Where a run is kept.

    | file               | what it holds                                                                  |
    |--------------------|--------------------------------------------------------------------------------|
    | config.json        | the configuration, the format version, and the SHA-256 of the texts as tokens  |
    | environment.json   | versions and platform                                                          |
    | tokenizer/         | as `transformers` stores it                                                    |
    | metrics.jsonl      | a line for every few steps, and for every measurement of the perplexity        |
    | checkpoint-STEP/   | the last state of an unfinished run, as `accelerate` stores it                 |
    | model/             | model and tokenizer of a finished run, for ``from_pretrained``                 |
    | result.json        | what a finished run measured in the end                                        |

    Attributes:
        path: of the folder.

    Example:
        >>> PretrainFolder(Path("runs/one")).finished
        False
    """

    path: Path

    @property
    def metrics(self) -> Path:
        """The file of metrics."""
        return self.path / "metrics.jsonl"

    @property
    def model(self) -> Path:
        """The folder of the finished model."""
        return self.path / "model"

    @property
    def tokenizer(self) -> Path:
        """The folder of the tokenizer."""
        return self.path / "tokenizer"

    @property
    def result(self) -> Path:
        """The file that says that the run is finished."""
        return self.path / "result.json"

    @property
    def config(self) -> Path:
        """The file of the configuration; it is written last of what a run begins with."""
        return self.path / "config.json"

    @property
    def begun(self) -> bool:
        """Whether there is a run."""
        return self.config.exists()

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.result.exists()

    def checkpoint(self, step: int) -> Path:
        """Return the folder of the checkpoint after a step."""
        return self.path / f"checkpoint-{step}"

    def last_checkpoint(self) -> int:
        """Return the step of the last checkpoint, 0 if there is none."""
        steps = [
            int(found.name.removeprefix("checkpoint-"))
            for found in self.path.glob("checkpoint-*")
            if found.name.removeprefix("checkpoint-").isdecimal()
        ]
        return max(steps, default=0)

    def begin(
        self, config: PretrainConfig, texts: dict[str, str], tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Write what the run is made of, or compare it with what is there.

        Raises:
            InputError: the folder holds a run of another configuration or on other texts, or something else.
        """
        made_of = {
            "format_version": FORMAT_VERSION,
            **json.loads(config.model_dump_json()),
            "sha256": texts,
        }
        if self.begun:
            before = read_json(self.config)
            for name in made_of:
                if before.get(name) != made_of[name]:
                    raise InputError(
                        f"{self.path} holds a run whose {name} is {_short(before.get(name))}, not "
                        f"{_short(made_of[name])}; give another --out, or the configuration of that run"
                    )
            return
        written = {self.tokenizer.name, "environment.json", "environment.json.tmp", "config.json.tmp"}
        if self.path.exists():
            written |= {path.name for path in leftovers(self.path)}
            if any(entry.name not in written for entry in self.path.iterdir()):
                raise InputError(f"{self.path} is not empty and holds no run; give another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        tokenizer.save_pretrained(self.tokenizer)
        write_json(self.path / "environment.json", describe_environment())
        write_json(self.config, made_of)

    def keep_metrics_until(self, step: int) -> None:
        """Leave out lines of metrics behind a step, which are about to be written again."""
        if not self.metrics.exists():
            return
        lines = read_stored(self.metrics).decode("utf-8").splitlines(keepends=True)
        kept = [line for line in lines if line.endswith("\n") and json.loads(line)["step"] <= step]
        write_bytes(self.metrics, "".join(kept).encode())

    def add_metrics(self, values: dict[str, Any]) -> None:
        """Append a line of metrics."""
        with open(self.metrics, "a", encoding="utf-8", opener=_no_link) as file:
            file.write(json.dumps(values, allow_nan=False) + "\n")

    def put_in_place(self, temporary: Path, step: int) -> None:
        """Make a folder that was written whole the checkpoint after a step; remove those before it."""
        os.replace(temporary, self.checkpoint(step))
        for found in self.path.glob("checkpoint-*"):
            if found != self.checkpoint(step):
                shutil.rmtree(found)

    def finish(self, result: dict[str, Any]) -> None:
        """Write the result, and remove the checkpoints."""
        write_json(self.result, result)
        self.remove_checkpoints()

    def remove_checkpoints(self) -> None:
        """Remove the checkpoints of a finished run."""
        for found in self.path.glob("checkpoint-*"):
            shutil.rmtree(found)


def _no_link(path: str, flags: int) -> int:
    """Open a file in a folder that may be a stranger's: a link there could lead to any other file."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"
