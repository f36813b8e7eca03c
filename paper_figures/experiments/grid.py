"""An experiment: every combination of settings and seeds, and what is measured of each run."""

import hashlib
import itertools
import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from analysis.framework.output import RunIdentity
from automata.data_files import data_file
from automata.errors import InputError
from implicit.config.recipes import recipe
from implicit.training.train import train

TRAINING = "training"  # the name of the training itself among the measurements of a run


@dataclass(frozen=True)
class Point:
    """The settings of one training run."""

    # what was chosen, task, model and seed among them; the recipe of the task fills in the rest
    settings: Mapping[str, Any]
    # more settings, those that all points of an experiment have in common; no name tells them
    base: Mapping[str, Any] = field(default_factory=dict)

    @property
    def all_settings(self) -> dict[str, Any]:
        """Everything that was chosen, the seed last."""
        chosen = {**self.settings, **self.base}
        return {**{name: value for name, value in chosen.items() if name != "seed"}, "seed": chosen["seed"]}

    @cached_property
    def config(self) -> Any:
        """The whole configuration of the run, a `TrainConfig`."""
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
    def name(self) -> str:
        """The settings in a few words, task and model first; no two points of an experiment share it."""
        first = ("task", "model")
        rest = [f"{name}={value}" for name, value in self.settings.items() if name not in (*first, "seed")]
        return "-".join([*(str(self.settings[name]) for name in first), *rest, f"seed-{self.seed}"])

    @cached_property
    def identifier(self) -> str:
        """The name of the run's folder: task, model, seed, and a hash of the whole configuration.

        The hash covers what no axis names, too: after a change of a default, a run is another one.
        """
        chosen, found = {**self.settings, **self.base}, self.config_json
        task, model = (
            found[name] if isinstance(found.get(name), str) else chosen[name] for name in ("task", "model")
        )
        name = f"{task}-{model}-seed-{self.seed}"
        return f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)[:80]}-{_content_hash(self.config_json)}"

    @property
    def command(self) -> str:
        """The command that trains this run."""
        flags = [_flag(name, value) for name, value in self.all_settings.items()]
        return f"python -m implicit.train {' '.join(flags)} --out RUN"

    def train(self, folder: Path, device: str = "cpu") -> Any:
        """Train the run in a folder on a device, or go on with it; return what measurements take."""
        return train(self.config, folder, progress=False, device=device)

    def identity(self, run: Any) -> RunIdentity:
        """Return the identity of a run that `train` has returned."""
        return RunIdentity.of(run)

    def seconds(self, run: Any) -> float:
        """Return the seconds of its training, over all interruptions."""
        return float(run.metrics[-1]["seconds"])


def _content_hash(content: Any) -> str:
    """Return a short hash of JSON content, in which the order of the fields does not matter."""
    text = json.dumps(content, sort_keys=True, ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
    """Every combination of some values, the first axis slowest."""

    # values by name: task, model, seed, any field of the configuration, any size of the model
    axes: Mapping[str, Sequence[Any]]
    base: Mapping[str, Any] = field(default_factory=dict)  # settings that all points have in common
    # what its points are: `Point`, or a subclass for which some settings stand for others
    kind: type[Point] = Point

    def __post_init__(self) -> None:
        for name, values in self.axes.items():
            if not values:
                raise InputError(f"axis {name} has no values; give at least one or leave it out")
            if name in self.base:
                raise InputError(f"axis {name} is set in the base as well; leave it out of one of them")
        for name in ("task", "model", "seed"):
            if name not in self.axes and name not in self.base:
                remedy = "an axis of that name or a value in the base"
                file = ", such as {'file': PATH}" if name == "task" else ""
                raise InputError(f"grid has no {name}; give {remedy}{file}")

    @property
    def points(self) -> tuple[Point, ...]:
        """The points."""
        return tuple(
            self.kind({**self.base, **dict(zip(self.axes, values, strict=True))})
            for values in itertools.product(*self.axes.values())
        )


@dataclass(frozen=True)
class Measurement:
    """Numbers, as JSON takes them, that ``measure(run, settings)`` takes of a finished run.

    The settings are part of what the result is known by. ``keep`` names the values that a figure keeps, or
    maps them to new names; all if None.
    """

    name: str
    measure: Callable[[Any, Any], Any]
    settings: BaseModel | None = None
    keep: Sequence[str] | Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        if self.name == TRAINING or not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise InputError(
                f"measurement is named {self.name!r}; give another name than {TRAINING!r}, in letters, "
                "digits and underscores"
            )

    def kept(self, found: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that a figure keeps, under its names."""
        if self.keep is None:
            return dict(found)
        names = self.keep if isinstance(self.keep, Mapping) else {name: name for name in self.keep}
        return {new: found[name] for name, new in names.items()}

    @property
    def settings_json(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return {} if self.settings is None else self.settings.model_dump(mode="json")

    @property
    def file_name(self) -> str:
        """The file of its result beside those of the same run; other settings have another file."""
        return f"{self.name}-{_content_hash(self.settings_json)}.json"


@dataclass(frozen=True)
class Experiment:
    """Grids of training runs, a point that two share being one, and what is measured of each.

    ``data`` are files that are not in the package, as `automata.data_files` names them. ``overrides`` for
    all points, such as a paper's with ``sizes`` by model, replace what points have in common, the task
    among it.
    """

    name: str
    grids: tuple[Grid, ...]
    measurements: tuple[Measurement, ...]
    data: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [measurement.name for measurement in self.measurements]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"measurement {name} is given twice; name them differently")

    def check_data(self) -> None:
        """Refuse to begin where a file is missing that the runs read."""
        for name in self.data:
            path = data_file(name)
            if not path.is_file():
                raise InputError(f"{self.name} reads {path}, which is not there; put it there")

    @cached_property
    def points(self) -> tuple[Point, ...]:
        """The points of all grids, each once; their names tell the settings in which they differ."""
        points = {point.identifier: point for grid in self.grids for point in grid.points}.values()
        common = {
            name: value
            for point in list(points)[:1]
            for name, value in point.settings.items()
            if all(name in other.settings and other.settings[name] == value for other in points)
        }
        return tuple(self._named(point, common) for point in points)

    def _named(self, point: Point, common: Mapping[str, Any]) -> Point:
        """Return a point whose name tells task, model, seed and what is not common, with the overrides."""
        chosen = {name: value for name, value in self.overrides.items() if name != "sizes"}
        chosen |= self.overrides.get("sizes", {}).get(point.settings["model"], {})
        told = {"task", "model", "seed"} | (point.settings.keys() - common.keys())
        base = {name: value for name, value in {**common, **chosen}.items() if name not in told}
        settings = {name: value for name, value in point.settings.items() if name in told}
        if "task" in common and "task" in chosen:
            settings["task"] = chosen["task"]
        return type(point)(settings, base)
