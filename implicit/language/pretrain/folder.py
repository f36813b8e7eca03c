"""The folder of a pretraining run: what it was made of, how it went, checkpoints, the model in the end."""

import contextlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from automata.errors import InputError
from implicit.checked_config import validated
from implicit.language.configuration import FixedPoints
from implicit.language.modeling import LanguageModel
from implicit.language.pretrain.config import PretrainConfig, Source
from implicit.language.pretrain.tokens import encoded
from implicit.language.stored_models import load_model
from implicit.runs.environment import describe_environment
from implicit.runs.files import (
    HASHES,
    has_hashes,
    identity,
    read_json,
    refuse_links,
    write_bytes,
    write_hashes,
    write_json,
)
from implicit.runs.folder import ENVIRONMENT, held, left_by_a_beginning, read_entries

FORMAT_VERSION = 1
TIMES = "times.json"
"""In a checkpoint: how long the run took up to it."""


class PretrainFolder:
    """Where a run is kept.

    | file               | what it holds                                                                  |
    |--------------------|--------------------------------------------------------------------------------|
    | config.json        | the configuration, the format version, and the SHA-256 of the texts as tokens  |
    | environment.json   | versions and platform                                                          |
    | tokenizer/         | as `transformers` stores it                                                    |
    | metrics.jsonl      | a line for every few steps, and for every measurement of the perplexity        |
    | checkpoint-STEP/   | the last state of an unfinished run, as `accelerate` stores it, and hashes     |
    | lock               | nothing; locked by the process that trains                                     |
    | model/             | model and tokenizer of a finished run, for ``from_pretrained``, and hashes     |
    | result.json        | what a finished run measured in the end                                        |
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.metrics, self.result = path / "metrics.jsonl", path / "result.json"
        self.model, self.tokenizer = path / "model", path / "tokenizer"
        self.config = path / "config.json"  # written last of what a run begins with
        self.new_checkpoint = path / ".checkpoint.new"  # not yet whole
        self.new_model = path / ".model.new"

    @property
    def begun(self) -> bool:
        """Return whether there is a run."""
        return self.config.exists()

    @property
    def finished(self) -> bool:
        """Return whether nothing is left to do."""
        return self.result.exists()

    @property
    def identity(self) -> str:
        """The hash of the configuration as stored: `implicit.runs.files.identity`."""
        return identity(read_json(self.config))

    def checkpoint(self, step: int) -> Path:
        """Return the folder of the checkpoint after a step."""
        return self.path / f"checkpoint-{step}"

    def last_checkpoint(self) -> int:
        """Return the step of the last checkpoint, 0 if there is none."""
        return max(self._checkpoints(), default=0)

    def _checkpoints(self, *, others: bool = False) -> dict[int, Path]:
        """The checkpoints by step, or other folders with such a name, which are the user's."""
        named = (found for found in self.path.glob("checkpoint-*") if found.name[11:].isdecimal())
        return {
            int(found.name[11:]): found
            for found in named
            if others == (found.is_symlink() or not any((found / name).is_file() for name in (HASHES, TIMES)))
        }

    def held(self) -> contextlib.AbstractContextManager[None]:
        """Keep other processes from training here: `implicit.runs.folder.held`."""
        for part in (self.model, self.new_model, self.tokenizer, self.new_checkpoint):
            refuse_links(self.path, part.name)
        refuse_links(self.path, "tensorboard")
        return held(self.path, lambda: self.begun)

    def begin(
        self, config: PretrainConfig, texts: dict[str, str], tokenizer: PreTrainedTokenizerBase
    ) -> None:
        """Write what the run is made of, or refuse a folder that holds anything else."""
        made_of = {"format_version": FORMAT_VERSION, **json.loads(config.model_dump_json()), "sha256": texts}
        if self.begun:
            before = read_json(self.config)
            before = before if isinstance(before, dict) else {}
            for name in made_of:
                if before.get(name) != made_of[name]:
                    raise InputError(
                        f"{self.path} holds a run whose {name} is {_short(before.get(name))}, not "
                        f"{_short(made_of[name])}; give another --out, or the configuration of that run"
                    )
            if self.model.exists() and not (self.finished or has_hashes(self.model)):
                raise InputError(f"{self.model} is no model of this run, which needs the name; move it away")
            for step, found in self._checkpoints(others=True).items():
                if step == config.steps or step % config.checkpoint_every == 0:
                    raise InputError(
                        f"{found} is no checkpoint of this run, which needs the name; move it away"
                    )
            return
        environment = self.path / ENVIRONMENT
        if self.path.exists():
            written = left_by_a_beginning(self.path)
            # the environment is written first: without it, a tokenizer is the user's
            written |= {self.tokenizer.name} if ENVIRONMENT in written else set()
            if any(entry.name not in written for entry in self.path.iterdir()):
                raise InputError(f"{self.path} is not empty and holds no run; give another --out")
        self.path.mkdir(parents=True, exist_ok=True)
        write_json(environment, describe_environment())
        with writing(self.tokenizer):
            tokenizer.save_pretrained(self.tokenizer)
        write_json(self.config, made_of)

    def read_result(self) -> dict[str, Any]:
        """Return what a finished run measured in the end."""
        found = read_json(self.result)
        if not (isinstance(found, dict) and isinstance(found.get("validation_loss"), float)):
            raise InputError(f"{self.result} does not hold a result; restore it, or delete it to train again")
        return found

    def keep_metrics_until(self, step: int) -> None:
        """Leave out lines of metrics behind a step, which are about to be written again."""
        if self.metrics.exists():
            kept = [line for line in read_entries(self.metrics, partial=True) if line["step"] <= step]
            write_bytes(self.metrics, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def add_metrics(self, values: dict[str, Any]) -> None:
        """Append a line of metrics."""
        with open(self.metrics, "a", encoding="utf-8", opener=_no_link) as file:
            file.write(json.dumps(values, allow_nan=False) + "\n")

    def put_in_place(self, temporary: Path, step: int) -> None:
        """Make a folder that was written whole the checkpoint after a step; remove those before it."""
        write_hashes(temporary)
        os.replace(temporary, self.checkpoint(step))
        self.remove_checkpoints(kept=step)

    def finish(self, result: dict[str, Any]) -> None:
        """Put the new model in its place, write the result, and remove the checkpoints."""
        write_hashes(self.new_model, "*.safetensors")
        if self.model.exists():
            shutil.rmtree(self.model)
        os.replace(self.new_model, self.model)
        write_json(self.result, result)
        self.remove_checkpoints()

    def remove_checkpoints(self, kept: int = 0) -> None:
        """Remove all checkpoints but that after a step."""
        for step, found in self._checkpoints().items():
            if step != kept:
                shutil.rmtree(found)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell in one sentence what other packages raise, each in a class of its own, if a disk is full."""
    remedy = "free some space or mend the file system, and run the same command again"
    with _in_one_sentence(f"{path} cannot be written", remedy, (InputError, OSError)):
        yield


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tell in one sentence what other packages raise of a file that is missing or damaged."""
    with _in_one_sentence(
        f"{path} cannot be read", "restore it or train again into another --out", InputError
    ):
        yield


@contextlib.contextmanager
def _in_one_sentence(fault: str, remedy: str, kept: Any) -> Iterator[None]:
    """Tell any error but those of the classes that are kept by its first line."""
    try:
        yield
    except kept:
        raise
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"{fault} ({reason}); {remedy}") from error


def _no_link(path: str, flags: int) -> int:
    """Open a file in a folder that may be a stranger's: a link there could lead to any other file."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:79] + "…"


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """The contents of a finished run, which `finished_run` reads.

    The model is in evaluation mode and does not warn of tokens without a fixed point; ``metrics`` are the
    lines of ``metrics.jsonl``.
    """

    path: Path
    config: PretrainConfig
    model: LanguageModel
    tokenizer: PreTrainedTokenizerBase
    result: dict[str, Any]
    metrics: list[dict[str, Any]]

    def tokens(self, *files: str) -> Tensor:
        """Return texts as the tokens of the run, int64 ``[tokens]``, each ended by the end-of-text token.

        InputError if a file cannot be read, or holds no text.
        """
        return torch.as_tensor(encoded(Source(files=files), self.tokenizer)[0].astype("int64"))


def finished_run(path: str | os.PathLike[str]) -> FinishedRun:
    """Read the folder of a run that ended.

    InputError if the folder holds no run, or one that did not end, or something of it cannot be read.
    """
    folder = PretrainFolder(Path(path))
    if not (folder.begun and folder.finished):
        raise InputError(
            f"{path} holds no pretraining run that ended; finish it with python -m implicit.language.pretrain"
        )
    config = _config(folder)
    loaded, tokenizer = load_model(folder.model)
    model = cast(LanguageModel, loaded)
    if isinstance(model.config, FixedPoints):
        model.config.unconverged = "ignore"
    return FinishedRun(
        folder.path, config, model, tokenizer, folder.read_result(), read_entries(folder.metrics)
    )


def _config(folder: PretrainFolder) -> PretrainConfig:
    values, fields = read_json(folder.config), PretrainConfig.model_fields
    if (
        not isinstance(values, dict)
        or values.get("format_version") != FORMAT_VERSION
        or not fields.keys() <= values.keys()
    ):
        raise InputError(
            f"{folder.config} is of no pretraining run of format version {FORMAT_VERSION}; give the folder "
            "of one, or train again"
        )
    return validated(PretrainConfig, {name: values[name] for name in fields})
