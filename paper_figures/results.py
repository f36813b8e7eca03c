"""The numbers behind a figure: a JSON file with every run and all that was measured of it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from analysis.framework.output import json_ready
from automata.errors import InputError
from implicit.runs.environment import Environment
from implicit.runs.files import read_json, write_bytes
from paper_figures.experiments.grid import TRAINING, Experiment
from paper_figures.experiments.store import Outcome, Record
from paper_figures.rows import MeasuredRun

RESULTS = Path(__file__).parent / "results"  # the results that come with the package
_ABOUT = ("settings", "status", "failure", "command", "values")


@dataclass(frozen=True)
class Results:
    """The numbers that a figure is drawn from."""

    figure: str  # its name
    command: str  # computes these results again
    date: str  # of the newest part, ISO 8601
    environment: Environment  # versions, platform, threads and commit
    seconds: float  # of all measurements together
    training_seconds: float | None  # of all trainings together, on machines with other work beside them
    settings: Mapping[str, Any]  # of each measurement
    shared: Mapping[str, Any]  # numbers that belong to no run
    # for every run its settings, what was measured of it, how it ended, and its identity
    runs: Sequence[Mapping[str, Any]]

    @classmethod
    def none(cls, figure: str) -> "Results":
        """Return results without runs, those of published numbers."""
        return cls(figure, "", "", {}, 0.0, 0.0, {}, {}, [])

    @classmethod
    def collected(
        cls, experiment: Experiment, outcomes: Sequence[Outcome], shared: Mapping[str, Any]
    ) -> "Results":
        """Return the results of an experiment that ended."""
        records = [record for outcome in outcomes for record in outcome.records.values()]
        measured = [record for record in records if record["measurement"] != TRAINING]
        return cls(
            experiment.name,
            f"python -m paper_figures {experiment.name} --rerun",
            max((record["date"] for record in records), default=datetime.now(UTC).date().isoformat()),
            _environment(measured),
            round(sum(record["seconds"] for record in measured), 1),
            round(sum(record["seconds"] for record in records if record["measurement"] == TRAINING), 1),
            {measurement.name: measurement.settings_json for measurement in experiment.measurements},
            shared,
            [{**outcome.run, "values": _values(outcome, experiment)} for outcome in outcomes],
        )

    @property
    def measured(self) -> list[MeasuredRun]:
        """The runs, as figures take them."""
        return [
            MeasuredRun(
                run["settings"],
                run["values"],
                run["status"],
                {name: value for name, value in run.items() if name not in _ABOUT},
            )
            for run in self.runs
        ]

    def runs_sentence(self) -> list[str]:
        """Return how many runs there are, of which seeds, and how many failed; nothing without runs."""
        if not self.runs:
            return []
        seeds = ", ".join(map(str, sorted({run["settings"]["seed"] for run in self.runs})))
        failed = sum(run["status"] == "failed" for run in self.runs)
        return [f"{len(self.runs)} training runs, seeds {seeds}; {failed or 'none'} failed."]

    @classmethod
    def read(cls, figure: str, folder: Path = RESULTS) -> "Results":
        """Read the results of a figure."""
        path = folder / f"{figure}.json"
        if not path.is_file():
            raise InputError(f"results of figure {figure} are missing in {folder}; compute them with --rerun")
        content = read_json(path)
        names = list(cls.__dataclass_fields__)
        if not isinstance(content, dict) or sorted(content) != sorted(names):
            raise InputError(f"{path} does not hold the fields {', '.join(names)}; compute it with --rerun")
        if content["figure"] != figure:
            raise InputError(f"{path} holds figure {content['figure']!r}; compute it with --rerun")
        return cls(**content)

    def write(self, folder: Path = RESULTS) -> None:
        """Write the results as ``<figure>.json``, in one stroke."""
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{self.figure}.json", compact_json(asdict(self)).encode())


def _environment(records: Sequence[Record]) -> Environment:
    """Return the environment of records; where they differ, every value that occurs."""
    together: Environment = {}
    for name in dict.fromkeys(name for record in records for name in record["environment"]):
        values = list(dict.fromkeys(record["environment"].get(name) for record in records))
        together[name] = values[0] if len(values) == 1 else ", ".join(map(str, values))
    return together


def _values(outcome: Outcome, experiment: Experiment) -> dict[str, Any]:
    """Return all values of a run under their names; those of a run that failed are left out."""
    if outcome.failure is not None or not outcome.complete:
        return {}
    values: dict[str, Any] = {"minutes": outcome.records[TRAINING]["seconds"] / 60}
    for measurement in experiment.measurements:
        for name, value in measurement.kept(outcome.values[measurement.name]).items():
            if name in values:
                raise InputError(f"measurement {measurement.name} gives {name!r} again; rename it with keep=")
            values[name] = value
    return values


def compact_json(value: Any) -> str:
    """Return indented JSON with every list of plain numbers on one line, for readable differences."""
    return _laid_out(json_ready(value), "\n") + "\n"


def _laid_out(value: Any, newline: str) -> str:
    """Lay a JSON value out; ``newline`` ends a line and indents the next one as far as the value is."""
    deeper = newline + " "
    if isinstance(value, dict) and value:
        entries = [f"{_scalar(key)}: {_laid_out(entry, deeper)}" for key, entry in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(entries)}{newline}}}"
    if isinstance(value, list) and any(isinstance(entry, list | dict | str) for entry in value):
        return f"[{deeper}{f',{deeper}'.join(_laid_out(entry, deeper) for entry in value)}{newline}]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
