"""The numbers behind a figure, with what is needed to make them again, as one JSON file per figure."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.framework.output import json_ready
from automata.errors import InputError
from implicit.runs.environment import Environment
from implicit.runs.files import read_json, write_bytes

RESULTS = Path(__file__).parent / "results"
"""The results that come with the package."""


@dataclass(frozen=True)
class StoredResults:
    """What a figure is drawn from.

    Attributes:
        figure: name of the figure.
        command: computes these results again.
        date: of the computation, ISO 8601.
        environment: versions, platform, threads and commit.
        seconds: how long the computation took, training left out.
        training_seconds: how long the training took, all runs together, on machines with other work beside
            it unless said; None where it was not stored.
        seeds: of the training runs, ascending.
        runs: for every run its identity, the hash of its weights and the command that trains it.
        results: the numbers, as the figure's ``compute`` returned them.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> stored = StoredResults(
        ...     figure="primes",
        ...     command="python -m paper_figures primes --rerun",
        ...     date="2026-11-20",
        ...     environment={"python": "3.11.7"},
        ...     seconds=0.5,
        ...     training_seconds=60.0,
        ...     seeds=[0],
        ...     runs=[{"name": "parity-lstm-seed-0"}],
        ...     results={"primes": [2, 3, 5]},
        ... )
        >>> with TemporaryDirectory() as folder:
        ...     stored.write(Path(folder))
        ...     StoredResults.read("primes", Path(folder)) == stored
        True
        >>> StoredResults.read("primes", Path("nowhere"))
        Traceback (most recent call last):
        automata.errors.InputError: results of figure primes are missing in nowhere; compute them with --rerun
    """

    figure: str
    command: str
    date: str
    environment: Environment
    seconds: float
    training_seconds: float | None
    seeds: list[int]
    runs: list[Mapping[str, Any]]
    results: Mapping[str, Any]

    @classmethod
    def read(cls, figure: str, folder: Path = RESULTS) -> "StoredResults":
        """Read the results of a figure.

        Raises:
            InputError: if they are missing, not JSON, or lack a field.
        """
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
        """Write the results as ``<figure>.json``, in one stroke.

        Raises:
            OSError: if the folder cannot be written.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(folder / f"{self.figure}.json", compact_json(asdict(self)).encode())


def compact_json(value: Any) -> str:
    """Return indented JSON with every list of plain numbers on one line, so that differences stay readable.

    Example:
        >>> print(compact_json({"lengths": [32, 64], "mode": "sequential"}), end="")
        {
         "lengths": [32, 64],
         "mode": "sequential"
        }
    """
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
