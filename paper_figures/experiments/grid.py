"""What an experiment is: every combination of settings and seeds, and what is measured of each run."""

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from automata.data_files import data_file
from automata.errors import InputError
from paper_figures.experiments.point import Point, content_hash

TRAINING = "training"
"""What the training itself is called among the measurements of a run."""


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
        keep: names of the values that a figure keeps, or ``{name: new name}``; all if None.
        trains_again: whether it repeats the training of the run.

    Example:
        >>> measurement = Measurement("loss", lambda run, settings: run.metrics[-1]["loss"])
        >>> measurement.file_name
        'loss-44136fa355b3.json'
    """

    name: str
    measure: Callable[[Any, Any], Any]
    settings: BaseModel | None = None
    keep: Sequence[str] | Mapping[str, str] | None = None
    trains_again: bool = False

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
        return f"{self.name}-{content_hash(self.settings_json)}.json"


@dataclass(frozen=True)
class Experiment:
    """Grids of training runs, and what is measured of each.

    Attributes:
        name: of the experiment.
        grids: one or several; a point that two of them share is one point.
        measurements: taken of every run.
        data: files that are not in the package and that the runs read, as `automata.data_files` names them.
        overrides: settings for all points, such as those of a paper, with ``sizes`` by model. They replace
            what points have in common, the task among it; what tells points apart stays.

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
    data: tuple[str, ...] = ()
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = [measurement.name for measurement in self.measurements]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"measurement {name} is given twice; name them differently")

    def check_data(self) -> None:
        """Refuse to begin where a file is missing that the runs read.

        Raises:
            InputError: naming the file.

        Example:
            >>> Experiment("texts", (), (), data=("/nowhere/train.txt",)).check_data()
            Traceback (most recent call last):
            automata.errors.InputError: texts reads /nowhere/train.txt, which is not there; put it there
        """
        for name in self.data:
            path = data_file(name)
            if not path.is_file():
                raise InputError(f"{self.name} reads {path}, which is not there; put it there")

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
