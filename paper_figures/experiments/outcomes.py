"""What came of the points of an experiment: the values measured, or why there are none."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from implicit.runs.environment import Environment
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record, Store


@dataclass(frozen=True)
class Outcome:
    """What came of one point.

    Attributes:
        point: which.
        records: of the training and of the measurements, by name; what did not end yet is left out.
        complete: whether nothing is left to do.

    Example:
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 0})
        >>> failed = Record.failed(point, None, ValueError("no data"), None, 0.0)
        >>> outcome = Outcome(point, {"training": failed}, complete=True)
        >>> outcome.failure, outcome.values
        ('training: ValueError: no data', {})
    """

    point: Point
    records: Mapping[str, Record]
    complete: bool

    @property
    def values(self) -> dict[str, Any]:
        """What was measured, by measurement; the training and what failed left out."""
        return {
            name: record.value
            for name, record in self.records.items()
            if record.status == "done" and record.value is not None
        }

    @property
    def failure(self) -> str | None:
        """What failed first, and why; None if nothing did."""
        for name, record in self.records.items():
            if record.failure is not None:
                return f"{name}: {record.failure}"
        return None

    @property
    def run(self) -> Mapping[str, Any]:
        """The run with its settings, its command, how it ended, and its identity if it was trained."""
        identity = next((record.run for record in self.records.values() if record.run is not None), {})
        about = {
            "name": self.point.name,
            "settings": dict(self.point.settings),
            "status": "done" if self.failure is None else "failed",
            "failure": self.failure,
            "command": self.point.command,
        }
        return {**about, **{name: value for name, value in identity.items() if name not in about}}


def outcomes_of(experiment: Experiment, store: Store) -> list[Outcome]:
    """Read what there is of every point.

    Example:
        >>> from pathlib import Path
        >>> from paper_figures.experiments.grid import Grid
        >>> grid = Grid({"seed": [0, 1]}, {"task": "parity", "model": "lstm"})
        >>> found = outcomes_of(Experiment("e", (grid,), ()), Store(Path("nowhere")))
        >>> [outcome.complete for outcome in found]
        [False, False]
    """
    found = []
    for point in experiment.points:
        stages = (None, *experiment.measurements)
        read = [store.read(point, measurement) for measurement in stages]
        records = {record.measurement: record for record in read if record is not None}
        found.append(Outcome(point, records, store.ended(point, experiment.measurements)))
    return found


def common_environment(records: list[Record]) -> Environment:
    """Return the environment of records; where they differ, every value that occurs.

    Example:
        >>> common_environment([])
        {}
    """
    together: Environment = {}
    for name in dict.fromkeys(name for record in records for name in record.environment):
        values = list(dict.fromkeys(record.environment.get(name) for record in records))
        together[name] = values[0] if len(values) == 1 else ", ".join(map(str, values))
    return together
