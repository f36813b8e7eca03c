"""The store of an experiment: a folder per run, a JSON file for its training and for each measurement.

    <store>/runs/<point>/                              the run folder, as implicit.train makes it
    <store>/records/<point>/training.json              that the training ended, and how
    <store>/records/<point>/<measurement>-<hash>.json  what was measured, or why it could not be
    <store>/records/<point>/lock                       held by the process that works on the point

Experiments share one store: a run that two of them need is trained once.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock

from analysis.framework.output import RunIdentity, json_ready
from automata.errors import InputError
from implicit.runs.environment import describe_environment
from implicit.runs.files import read_json, refuse_links, write_json
from implicit.runs.folder import RunFolder
from paper_figures.experiments.grid import TRAINING, Experiment, Measurement, Point

FORMAT = 1
Record = Mapping[str, Any]  # how one training or measurement ended, as its file holds it; see `Store.write`
_FIELDS: dict[str, Any] = {
    "point": str, "settings": dict, "config": dict, "measurement": str, "measurement_settings": dict,
    "status": str, "run": dict | None, "value": object, "failure": str | None, "seconds": int | float,
    "date": str, "environment": dict, "format": int,
}  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The outcome of one point: records by name, without what did not end yet."""

    point: Point
    records: Mapping[str, Record]
    begun: bool  # whether there is a run
    complete: bool

    @property
    def values(self) -> dict[str, Any]:
        """The measured values, by measurement; the training and what failed left out."""
        return {
            name: record["value"]
            for name, record in self.records.items()
            if record["status"] == "done" and record["value"] is not None
        }

    @property
    def failure(self) -> str | None:
        """The first failure, and why; None if nothing failed."""
        return next(
            (f"{name}: {one['failure']}" for name, one in self.records.items() if one["failure"]), None
        )

    @property
    def run(self) -> Mapping[str, Any]:
        """The run with its settings, its command, how it ended, and its identity if it was trained."""
        identity: Record = next((record["run"] for record in self.records.values() if record["run"]), {})
        about = {
            "name": self.point.name,
            "settings": dict(self.point.settings),
            "status": "done" if self.failure is None else "failed",
            "failure": self.failure,
            "command": self.point.command,
        }
        return {**about, **{name: value for name, value in identity.items() if name not in about}}


class Store:
    """The folder with the runs and records of experiments."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def refuse_links(self) -> None:
        """Refuse links through which something would be written outside; the store itself may be one."""
        for written in ("runs", "records", "logs", "results"):
            refuse_links(self.path, written, "--experiments")

    @property
    def logs(self) -> Path:
        """Where processes and jobs write their logs."""
        return self.path / "logs"

    def run_folder(self, point: Point) -> Path:
        """Return where the run of a point lies."""
        return self.path / "runs" / point.identifier

    def file(self, point: Point, measurement: Measurement | None) -> Path:
        """Return the file of a measurement, or of the training."""
        name = f"{TRAINING}.json" if measurement is None else measurement.file_name
        return self.path / "records" / point.identifier / name

    def lock(self, point: Point) -> BaseFileLock:
        """Return the lock of a point. The operating system gives it back when its process dies."""
        folder = self.file(point, None).parent
        folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / "lock")

    def read(self, point: Point, measurement: Measurement | None) -> Record | None:
        """Return how a measurement, or the training, ended; None if it did not end yet.

        A measurement of other weights than those of the training's record does not count.
        """
        path = self.file(point, measurement)
        if not path.is_file():
            return None
        content = read_json(path)
        if not _is_record(content, TRAINING if measurement is None else measurement.name):
            raise InputError(f"{path} is no record of an experiment; remove it to have it made again")
        if content["format"] != FORMAT or content["point"] != point.identifier:
            raise InputError(
                f"{path} is of format {content['format']} and point {content['point']}; remove it to have it "
                "made again"
            )
        if measurement is None:
            return content
        training = self.read(point, None)
        return content if training is not None and training["run"] == content["run"] else None

    def write(
        self,
        point: Point,
        measurement: Measurement | None,
        run: RunIdentity | None,
        seconds: float,
        *,
        value: Any = None,
        error: Exception | None = None,
    ) -> None:
        """Write in one stroke how a measurement of a run ended, or for None its training."""
        record = {
            "point": point.identifier,
            "settings": point.all_settings,
            "config": point.config_json,
            "measurement": TRAINING if measurement is None else measurement.name,
            "measurement_settings": {} if measurement is None else measurement.settings_json,
            "status": "done" if error is None else "failed",
            "run": None if run is None else asdict(run),
            "value": value,
            "failure": None if error is None else f"{type(error).__name__}: {' '.join(str(error).split())}",
            "seconds": round(seconds, 3),
            "date": datetime.now(UTC).date().isoformat(),
            "environment": describe_environment(),
            "format": FORMAT,
        }
        path = self.file(point, measurement)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, json_ready(record))

    def ended(self, point: Point, measurements: tuple[Measurement, ...]) -> bool:
        """Return whether nothing is left to do: all is measured or failed, or the training failed."""
        training = self.read(point, None)
        if training is None or training["status"] == "failed":
            return training is not None
        return all(self.read(point, measurement) is not None for measurement in measurements)

    def outcomes(self, experiment: Experiment) -> list[Outcome]:
        """Read what there is of every point of an experiment."""
        found = []
        for point in experiment.points:
            read = [self.read(point, measurement) for measurement in (None, *experiment.measurements)]
            records = {record["measurement"]: record for record in read if record is not None}
            begun = RunFolder(self.run_folder(point)).begun
            found.append(Outcome(point, records, begun, self.ended(point, experiment.measurements)))
        return found


def _is_record(content: Any, name: str) -> bool:
    """Return whether this is the record of a training or a measurement of that name."""
    return (
        isinstance(content, dict)
        and content.keys() == _FIELDS.keys()
        and all(isinstance(content[field], kind) for field, kind in _FIELDS.items())
        and content["measurement"] == name
        and content["status"] == ("done" if content["failure"] is None else "failed")
        and not any(isinstance(value, dict | list) for value in content["environment"].values())
    )
