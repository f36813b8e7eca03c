"""Points of an experiment that are pretraining runs of language models."""

import hashlib
import json
import shlex
from abc import abstractmethod
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from analysis.framework.output import RunIdentity
from automata.errors import InputError
from implicit.checked_config import validated
from paper_figures.experiments.point import Point

if TYPE_CHECKING:
    from implicit.language.pretrain import FinishedRun, PretrainConfig


class PretrainingPoint(Point):
    """A pretraining run: settings that stand for fields of `PretrainConfig`.

    Its settings name a task, which is the text, a model and a seed, for people; `fields` says what they mean.
    """

    example: str
    """The YAML file that the command names, from the root of the repository."""

    @property
    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """The fields of the configuration, nested as in YAML."""

    @cached_property
    def config(self) -> "PretrainConfig":
        """The whole configuration of the run.

        Raises:
            InputError: for an unknown field or a bad value, or where pretraining is not installed.
        """
        try:
            from implicit.language.pretrain import PretrainConfig
        except ImportError as error:
            raise InputError(
                f"{self.settings['task']} needs a package that is missing ({error}); install "
                "implicit-ssm[pretraining]"
            ) from error
        return validated(PretrainConfig, self.fields)

    @cached_property
    def config_json(self) -> dict[str, Any]:
        """Everything that determines the run, as JSON takes it."""
        found: dict[str, Any] = json.loads(self.config.model_dump_json())
        return found

    @property
    def command(self) -> str:
        """The command that trains this run, from the root of the repository."""
        changes = " ".join(
            f"--set {shlex.quote(f'{name}={json.dumps(value)}')}" for name, value in self.fields.items()
        )
        return f"python -m implicit.language.pretrain {self.example} {changes} --out RUN"

    def train(self, folder: Path, device: str = "cpu") -> "FinishedRun":
        """Train the run in a folder on a device, or go on with it; return it.

        Raises:
            InputError: the folder holds another run, or a text is missing.
        """
        import torch

        from implicit.language.pretrain import finished_run, make_accelerator, pretrain

        accelerator = make_accelerator(self.config, cpu=torch.device(device).type == "cpu")
        pretrain(self.config, folder, accelerator)
        return finished_run(folder)

    def identity(self, run: "FinishedRun") -> RunIdentity:
        """Return which run `train` has returned."""
        weights = (run.path / "model" / "model.safetensors").read_bytes()
        return RunIdentity(
            name=run.path.resolve().name,
            task=str(self.all_settings["task"]),
            model=str(self.all_settings["model"]),
            parameters=int(run.result["parameters"]),
            training_length=run.config.length,
            seed=run.config.seed,
            weights_sha256=hashlib.sha256(weights).hexdigest(),
        )

    def seconds(self, run: "FinishedRun") -> float:
        """Return how long its training took, over all interruptions."""
        return float(run.result["seconds"])
