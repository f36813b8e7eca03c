"""What is stored of an experiment: a folder per run, a JSON file for its training and for each measurement.

    <store>/runs/<point>/                              the run folder, as implicit.train makes it
    <store>/records/<point>/training.json              that the training ended, and how
    <store>/records/<point>/<measurement>-<hash>.json  what was measured, or why it could not be
    <store>/records/<point>/lock, taken                while somebody works on the point

Experiments share one store: a run that two of them need is trained once.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from analysis.framework.output import RunIdentity, json_ready
from automata.errors import InputError
from implicit.runs.environment import Environment, describe_environment
from implicit.runs.files import read_json, write_json
from paper_figures.experiments.grid import TRAINING, Measurement
from paper_figures.experiments.point import Point

Status = Literal["done", "failed"]
FORMAT = 1


@dataclass(frozen=True)
class Record:
    """How one training or one measurement ended.

    Attributes:
        point: identifier of the point.
        settings: of the point, as the grid gave them.
        config: everything that determines the training run.
        measurement: its name; ``training`` for the training itself.
        measurement_settings: what was chosen for it.
        status: done or failed.
        run: identity of the run with the hash of its weights; None if there are none.
        value: what was measured.
        failure: class of the exception and its sentence; None if it is done.
        seconds: how long it took, over all interruptions for a training.
        date: when it ended, ISO 8601.
        environment: that it ended in.
        format: version of this file's form.

    Example:
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 0})
        >>> record = Record.failed(point, None, ValueError("too  long"), None, 0.5)
        >>> record.status, record.measurement, record.failure
        ('failed', 'training', 'ValueError: too long')
    """

    point: str
    settings: Mapping[str, Any]
    config: Mapping[str, Any]
    measurement: str
    measurement_settings: Mapping[str, Any]
    status: Status
    run: Mapping[str, Any] | None
    value: Any
    failure: str | None
    seconds: float
    date: str
    environment: Environment
    format: int = FORMAT

    @classmethod
    def done(
        cls, point: Point, measurement: Measurement | None, run: RunIdentity, value: Any, seconds: float
    ) -> "Record":
        """Return the record of a training (no measurement) or a measurement that went well."""
        return cls._of(point, measurement, "done", run, value, None, seconds)

    @classmethod
    def failed(
        cls,
        point: Point,
        measurement: Measurement | None,
        error: Exception,
        run: RunIdentity | None,
        seconds: float,
    ) -> "Record":
        """Return the record of one that raised an exception."""
        sentence = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return cls._of(point, measurement, "failed", run, None, sentence, seconds)

    @classmethod
    def _of(
        cls,
        point: Point,
        measurement: Measurement | None,
        status: Status,
        run: RunIdentity | None,
        value: Any,
        failure: str | None,
        seconds: float,
    ) -> "Record":
        return cls(
            point=point.identifier,
            settings=point.all_settings,
            config=point.config_json,
            measurement=TRAINING if measurement is None else measurement.name,
            measurement_settings={} if measurement is None else measurement.settings_json,
            status=status,
            run=None if run is None else asdict(run),
            value=value,
            failure=failure,
            seconds=round(seconds, 3),
            date=datetime.now(UTC).date().isoformat(),
            environment=describe_environment(),
        )


class Store:
    """The folder with the runs and records of experiments.

    Args:
        path: need not exist yet.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> point = Point({"task": "parity", "model": "lstm", "seed": 0})
        >>> with TemporaryDirectory() as folder:
        ...     store = Store(Path(folder))
        ...     store.write(point, None, Record.failed(point, None, ValueError("no"), None, 0.5))
        ...     record = store.read(point, None)
        >>> record.failure
        'ValueError: no'
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def run_folder(self, point: Point) -> Path:
        """Return where the run of a point lies."""
        return self.path / "runs" / point.identifier

    def record_folder(self, point: Point) -> Path:
        """Return where the records of a point lie."""
        return self.path / "records" / point.identifier

    def taken_file(self, point: Point) -> Path:
        """Return the file that is there while somebody works on a point, or died on it."""
        return self.record_folder(point) / "taken"

    def file(self, point: Point, measurement: Measurement | None) -> Path:
        """Return the file of a measurement, or of the training."""
        name = f"{TRAINING}.json" if measurement is None else measurement.file_name
        return self.record_folder(point) / name

    def read(self, point: Point, measurement: Measurement | None) -> Record | None:
        """Return how a measurement, or the training, ended; None if it did not end yet.

        What was measured of other weights than those of the training's record does not count.

        Raises:
            InputError: for a file that is no record.
        """
        path = self.file(point, measurement)
        if not path.is_file():
            return None
        content = read_json(path)
        if not isinstance(content, dict) or set(content) != set(Record.__dataclass_fields__):
            raise InputError(f"{path} is no record of an experiment; remove it to have it made again")
        if content["format"] != FORMAT or content["point"] != point.identifier:
            raise InputError(
                f"{path} is of format {content['format']} and point {content['point']}; remove it to have it "
                "made again"
            )
        record = Record(**content)
        if measurement is None:
            return record
        training = self.read(point, None)
        return record if training is not None and training.run == record.run else None

    def write(self, point: Point, measurement: Measurement | None, record: Record) -> None:
        """Write a record in one stroke.

        Raises:
            OSError: if it cannot be written.
        """
        path = self.file(point, measurement)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, json_ready(asdict(record)))

    def ended(self, point: Point, measurements: tuple[Measurement, ...]) -> bool:
        """Return whether nothing is left to do: all is measured or failed, or the training failed."""
        training = self.read(point, None)
        if training is None:
            return False
        if training.status == "failed":
            return True
        return all(self.read(point, measurement) is not None for measurement in measurements)
