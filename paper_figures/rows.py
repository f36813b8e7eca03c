"""The runs of a figure, grouped into rows: runs that differ in their seed only."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from analysis.framework.palette import Look, distinct_looks, model_label, model_looks

Settings = Mapping[str, Any]  # what was chosen for a run: task, model, and what differs from the recipe


@dataclass(frozen=True)
class MeasuredRun:
    """A training run as the results of a figure hold it."""

    settings: Settings  # what was chosen, the seed among them
    values: Mapping[str, Any]  # everything measured, by name; empty for a run that failed
    status: str  # done or failed
    identity: Mapping[str, Any]  # model, number of parameters, training length and the like

    def at(self, path: str) -> Any:
        """Return a value by its path, ``accuracy@512``: the entry 512 of ``accuracy``."""
        found: Any = self.values
        for name in path.split("@"):
            found = found[name]
        return found


@dataclass(frozen=True)
class Row:
    """Runs that differ in their seed only, the seeds of those that failed, and how they are drawn."""

    label: str
    settings: Settings
    runs: tuple[MeasuredRun, ...]
    failed: tuple[int, ...]
    look: Look

    @property
    def of(self) -> int:
        """Number of runs, failed ones included."""
        return len(self.runs) + len(self.failed)

    def each(self, path: str) -> list[Any]:
        """Return a value of every measured run."""
        return [run.at(path) for run in self.runs]

    def reaching(self, path: str, least: float) -> int:
        """Return how many runs have at least so much."""
        return sum(value >= least for value in self.each(path))


class Rows(list[Row]):
    """The rows of a figure; ``shared`` are its numbers that belong to no run."""

    def __init__(self, rows: Iterable[Row] = (), shared: Mapping[str, Any] | None = None) -> None:
        super().__init__(rows)
        self.shared = shared or {}


Chosen = str | Callable[[Row], bool]  # some rows: the label of one, or a test


def where(**settings: Any) -> Callable[[Row], bool]:
    """Return the test of rows with these settings."""
    return lambda row: all(row.settings.get(name) == value for name, value in settings.items())


def chosen_rows(rows: Iterable[Row], chosen: Chosen | None) -> list[Row]:
    """Return the rows of this label, or those that pass the test; all for None."""
    if isinstance(chosen, str):
        return [row for row in rows if row.label == chosen]
    return [row for row in rows if chosen is None or chosen(row)]


def model_row(settings: Settings) -> str:
    """Return the label of a row: the model, and what else was set.

    Example:
        >>> model_row({"task": "parity", "model": "lstm", "carried_share": 0.9, "seed": 1})
        'LSTM, carried share 0.9'
    """
    rest = (
        f"{name.replace('_', ' ')} {value}"
        for name, value in settings.items()
        if name not in ("task", "model", "seed")
    )
    return ", ".join([model_label(settings["model"]), *rest])


def rows_of(
    runs: Iterable[MeasuredRun],
    label: Callable[[Settings], str] = model_row,
    looks: Callable[[Settings], Look] | None = None,
    shared: Mapping[str, Any] | None = None,
) -> Rows:
    """Group runs by their label, in the order of the first run of each.

    ``looks`` are those of a row; by default the model's, with other dashes where two rows would look the
    same.
    """
    groups: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        groups.setdefault(label(run.settings), []).append(run)
    common = [
        {name: value for name, value in group[0].settings.items() if name != "seed"}
        for group in groups.values()
    ]
    if looks is None:
        of_model = model_looks(settings["model"] for settings in common)
        chosen = distinct_looks(of_model[settings["model"]] for settings in common)
    else:
        chosen = [looks(settings) for settings in common]
    rows = (
        Row(
            name,
            settings,
            tuple(run for run in group if run.status == "done"),
            tuple(int(run.settings["seed"]) for run in group if run.status != "done"),
            look,
        )
        for (name, group), settings, look in zip(groups.items(), common, chosen, strict=True)
    )
    return Rows(rows, shared)
