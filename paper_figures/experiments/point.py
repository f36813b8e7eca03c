"""A point of an experiment: the settings of one training run, how it is trained, and what it is known by."""

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from analysis.framework.output import RunIdentity
from implicit.config.recipes import recipe
from implicit.training.train import train

_HASH_DIGITS = 12


@dataclass(frozen=True)
class Point:
    """A point of a grid: the settings of one training run.

    Attributes:
        settings: what was chosen, ``task``, ``model`` and ``seed`` among them; the recipe of the task fills
            in the rest.
        base: more settings, those that all points of an experiment have in common; no name tells them.

    Example:
        >>> point = Point({"task": "parity", "model": "lstm", "steps": 200, "seed": 3})
        >>> point.name, point.config.steps, point.seed
        ('parity-lstm-steps=200-seed-3', 200, 3)
        >>> point.command
        'python -m implicit.train --task parity --model lstm --steps 200 --seed 3 --out RUN'
    """

    settings: Mapping[str, Any]
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_settings(self) -> dict[str, Any]:
        """Everything that was chosen, the seed last."""
        chosen = {**self.settings, **self.base}
        return {**{name: value for name, value in chosen.items() if name != "seed"}, "seed": chosen["seed"]}

    @cached_property
    def config(self) -> Any:
        """The whole configuration of the run, a `TrainConfig`.

        Raises:
            InputError: for an unknown field or a bad value.
        """
        return recipe(**self.all_settings)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.all_settings["seed"])

    @cached_property
    def config_json(self) -> dict[str, Any]:
        """Everything that determines the run, as JSON takes it."""
        found: dict[str, Any] = self.config.as_json()
        return found

    @property
    def variant(self) -> dict[str, Any]:
        """The settings but for the seed: what the runs of one line in a figure have in common."""
        return {name: value for name, value in self.settings.items() if name != "seed"}

    @property
    def name(self) -> str:
        """The settings in a few words, for people; no two points of an experiment have the same."""
        return f"{variant_name(self.variant)}-seed-{self.seed}"

    @cached_property
    def identifier(self) -> str:
        """The name of the run's folder: task, model, seed, and a hash of everything that determines the run.

        The hash covers the whole configuration, also what no axis names: when a default changes, the run
        is another one, and results of the old one are not taken for it.
        """
        chosen, found = {**self.settings, **self.base}, self.config_json
        task, model = (
            found[name] if isinstance(found.get(name), str) else chosen[name] for name in ("task", "model")
        )
        name = f"{task}-{model}-seed-{self.seed}"
        return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:80]}-{content_hash(self.config_json)}"

    @property
    def command(self) -> str:
        """The command that trains this run."""
        flags = [_flag(name, value) for name, value in self.all_settings.items()]
        return f"python -m implicit.train {' '.join(flags)} --out RUN"

    def train(self, folder: Path, device: str = "cpu") -> Any:
        """Train the run in a folder on a device, or go on with it; return what measurements take.

        Raises:
            InputError: the folder holds another run, or the device is not there.
        """
        return train(self.config, folder, progress=False, device=device)

    def identity(self, run: Any) -> RunIdentity:
        """Return which run `train` has returned."""
        return RunIdentity.of(run)

    def seconds(self, run: Any) -> float:
        """Return how long its training took, over all interruptions."""
        return float(run.metrics[-1]["seconds"])


def variant_name(settings: Mapping[str, Any]) -> str:
    """Return settings in a few words, task and model first.

    Example:
        >>> variant_name({"model": "lstm", "task": "parity", "carried_share": 0.0})
        'parity-lstm-carried_share=0.0'
    """
    rest = [f"{name}={value}" for name, value in settings.items() if name not in ("task", "model")]
    return "-".join([str(settings["task"]), str(settings["model"]), *rest])


def content_hash(content: Any) -> str:
    """Return a short hash of JSON content, in which the order of the fields does not matter.

    Example:
        >>> content_hash({"a": 1, "b": 2}) == content_hash({"b": 2, "a": 1})
        True
        >>> content_hash({"a": 1}) == content_hash({"a": 2})
        False
    """
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS]


def _flag(name: str, value: Any) -> str:
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{flag}" if value else f"--no-{flag}"
    if isinstance(value, tuple | list):
        return f"--{flag} {' '.join(map(str, value))}"
    if isinstance(value, dict):
        return f"--{flag} {shlex.quote(json.dumps(value))}"
    return f"--{flag} {'none' if value is None else value}"
