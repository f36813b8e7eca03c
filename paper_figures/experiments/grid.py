"""What an experiment is: every combination of settings and seeds, and what is measured of each run."""

import hashlib
import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from automata.errors import InputError
from implicit.config.recipes import recipe
from implicit.config.run import TrainConfig
from implicit.runs.loading import Run

TRAINING = "training"
"""What the training itself is called among the measurements of a run."""
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
    def config(self) -> TrainConfig:
        """The whole configuration of the run.

        Raises:
            InputError: for an unknown field or a bad value.
        """
        return recipe(**self.all_settings)

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return self.config.seed

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
        config = self.config.as_json()
        task = config["task"] if isinstance(config["task"], str) else self.settings.get("task", "task")
        name = f"{task}-{config['model']}-seed-{self.seed}"
        return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:80]}-{content_hash(config)}"

    @property
    def command(self) -> str:
        """The command that trains this run."""
        flags = [_flag(name, value) for name, value in self.all_settings.items()]
        return f"python -m implicit.train {' '.join(flags)} --out RUN"


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


@dataclass(frozen=True)
class Grid:
    """Every combination of some values, the first axis slowest.

    Attributes:
        axes: values by name: ``task``, ``model``, ``seed``, any field of the configuration, any size of the
            model.
        base: settings that all points have in common.
        kind: what its points are: `Point`, or a subclass for which some settings stand for others.

    Raises:
        InputError: for an axis without values, or one that the base sets as well.

    Example:
        >>> grid = Grid(
        ...     axes={"model": ["lstm", "mamba2"], "carried_share": [0.0, 0.9], "seed": range(3)},
        ...     base={"task": "parity", "steps": 200},
        ... )
        >>> len(grid.points), grid.points[0].name
        (12, 'parity-lstm-steps=200-carried_share=0.0-seed-0')
    """

    axes: Mapping[str, Sequence[Any]]
    base: Mapping[str, Any] = field(default_factory=dict)
    kind: type[Point] = Point

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if not values:
                raise InputError(f"axis {name} has no values; give at least one or leave it out")
            if name in self.base:
                raise InputError(f"axis {name} is set in the base as well; leave it out of one of them")
        for name in ("task", "model", "seed"):
            if name not in self.axes and name not in self.base:
                raise InputError(f"grid has no {name}; give an axis of that name or a value in the base")

    @property
    def points(self) -> tuple[Point, ...]:
        """The points."""
        return tuple(
            self.kind({**self.base, **dict(zip(self.axes, values, strict=True))})
            for values in itertools.product(*self.axes.values())
        )


@dataclass(frozen=True)
class Measurement:
    """Something that is measured of a finished run.

    Attributes:
        name: of the measurement, and of its files.
        measure: takes the run and the settings; returns numbers as JSON takes them.
        settings: what was chosen; part of what the result is known by.

    Example:
        >>> measurement = Measurement("loss", lambda run, settings: run.metrics[-1]["loss"])
        >>> measurement.file_name
        'loss-44136fa355b3.json'
    """

    name: str
    measure: Callable[[Run, Any], Any]
    settings: BaseModel | None = None

    def __post_init__(self) -> None:
        if self.name == TRAINING or not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise InputError(
                f"measurement is named {self.name!r}; give another name than {TRAINING!r}, in letters, "
                "digits and underscores"
            )

    @property
    def settings_json(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {} if self.settings is None else self.settings.model_dump(mode="json")

    @property
    def file_name(self) -> str:
        """The file of its result beside those of the same run; other settings have another file."""
        return f"{self.name}-{content_hash(self.settings_json)}.json"


@dataclass(frozen=True)
class Experiment:
    """Grids of training runs, and what is measured of each.

    Attributes:
        name: of the experiment.
        grids: one or several; a point that two of them share is one point.
        measurements: taken of every run.

    Raises:
        InputError: for two measurements of one name.

    Example:
        >>> seeds = Grid({"seed": range(3)}, {"task": "parity", "model": "lstm"})
        >>> more = Grid({"seed": range(5)}, {"task": "parity", "model": "lstm"})
        >>> [point.seed for point in Experiment("lstm", (seeds, more), ()).points]
        [0, 1, 2, 3, 4]
    """

    name: str
    grids: tuple[Grid, ...]
    measurements: tuple[Measurement, ...]

    def __post_init__(self) -> None:
        names = [measurement.name for measurement in self.measurements]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"measurement {name} is given twice; name them differently")

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The points of all grids, each once; their names tell the settings in which they differ.

        Raises:
            InputError: for an unknown field or a bad value in any of them.
        """
        points = {point.identifier: point for grid in self.grids for point in grid.points}.values()
        common = {
            name: value
            for point in list(points)[:1]
            for name, value in point.settings.items()
            if name not in ("task", "model", "seed")
            and all(name in other.settings and other.settings[name] == value for other in points)
        }
        return tuple(
            type(point)({name: value for name, value in point.settings.items() if name not in common}, common)
            for point in points
        )
