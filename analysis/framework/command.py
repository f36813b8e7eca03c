"""What the analysis commands share: settings as flags, a run to load, results to write, a table to print."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from matplotlib.figure import Figure
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt
from rich.console import Console
from rich.table import Table

from analysis.framework.output import RunIdentity, check_writable, default_folder, write_analysis
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields
from implicit.runs.files import write_json
from implicit.runs.loading import Run, load_run


class SampleSettings(BaseModel):
    """What every analysis chooses: which sequences of the task it looks at.

    Example:
        >>> SampleSettings(length=128)
        SampleSettings(sequences=16, length=128, seed=0)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    sequences: PositiveInt = Field(default=16, description="sequences of the task that are looked at")
    length: PositiveInt = Field(default=64, description="tokens a sequence")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of all random starts")


class Result(Protocol):
    """What an analysis returns.

    Example:
        >>> class Nothing:
        ...     def numbers(self) -> dict[str, Any]:
        ...         return {}
        >>> result: Result = Nothing()  # accepted by the type checker
    """

    def numbers(self) -> dict[str, Any]:
        """Return everything that was computed, for JSON."""
        ...


Settings = TypeVar("Settings", bound=BaseModel)
Outcome = TypeVar("Outcome", bound=Result)


@dataclass(frozen=True)
class Analysis(Generic[Settings, Outcome]):
    """A question about one run, as a command.

    Attributes:
        name: of the module and of the files.
        description: the first line of the help.
        settings: its fields become flags.
        analyse: answers the question.
        draw: makes the figure of an answer.
        tables: makes the tables of an answer.
        documents: makes further files of JSON from a run and an answer, by file name.

    Example:
        >>> from analysis.jacobian.measurement import ANALYSIS
        >>> ANALYSIS.name, ANALYSIS.settings.__name__
        ('jacobian', 'JacobianSettings')
    """

    name: str
    description: str
    settings: type[Settings]
    analyse: Callable[[Run, Settings], Outcome]
    draw: Callable[[Outcome], Figure]
    tables: Callable[[Outcome], Sequence[Table | str]]
    documents: Callable[[Run, Outcome], Mapping[str, Any]] = lambda _run, _outcome: {}

    def run(self, run: Run, settings: Settings, folder: Path) -> tuple[Outcome, float]:
        """Analyse a run, write numbers and figure; return the answer and the seconds that it took."""
        began = time.monotonic()
        outcome = self.analyse(run, settings)
        figure = self.draw(outcome)
        seconds = time.monotonic() - began
        write_analysis(
            folder,
            self.name,
            runs=RunIdentity.of(run),
            settings=settings.model_dump(),
            result=outcome.numbers(),
            seconds=seconds,
            figure=figure,
        )
        for name, content in self.documents(run, outcome).items():
            write_json(folder / name, content)
        return outcome, seconds

    def command(self, argv: Sequence[str] | None) -> None:
        """Run as a command: ``python -m analysis.<name> RUN [--out FOLDER] [flags of the settings]``.

        Raises:
            InputError: for bad arguments or a run that cannot be analysed.
            OSError: if the results cannot be written.
        """
        parser = CommandParser(f"python -m analysis.{self.name}", self.description)
        parser.add_argument("run", metavar="RUN", help="run folder, or the name of a stored run")
        add_output_flag(parser, f"RUN/analysis/{self.name}, or out/<name>/{self.name} for a stored run")
        add_config_flags(parser, self.settings, title="settings")
        arguments = parser.parse_args(argv)
        settings = validated(self.settings, given_fields(arguments, self.settings))
        run = load_run(arguments.run)
        folder = Path(arguments.out) if arguments.out is not None else default_folder(run, self.name)
        check_writable(folder)
        outcome, _ = self.run(run, settings, folder)
        print_tables(self.tables(outcome), folder / f"{self.name}.json")


def add_output_flag(parser: CommandParser, default: str) -> None:
    """Add ``--out``.

    Example:
        >>> parser = CommandParser("python -m analysis.report", "Report.")
        >>> add_output_flag(parser, "out/report")
        >>> parser.parse_args(["--out", "here"]).out
        'here'
    """
    parser.add_argument("--out", metavar="FOLDER", help=f"where the results go (default: {default})")


def print_tables(tables: Sequence[Table | str], written: Path) -> None:
    """Print tables and lines of rich markup, then where the results are.

    Example:
        >>> print_tables(["one line"], Path("out/one.json"))
        one line
        Written: out/one.json, with its figure as .png and .pdf beside it
    """
    console = Console()
    for table in tables:
        console.print(table)
    console.print(
        f"Written: {written}, with its figure as .png and .pdf beside it", soft_wrap=True, highlight=False
    )


def settings_from(settings: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Return settings made from keyword arguments, for calls from notebooks.

    Raises:
        InputError: for the first fault, naming the setting, its value and the remedy.

    Example:
        >>> settings_from(SampleSettings, {"length": 0})
        Traceback (most recent call last):
        automata.errors.InputError: length is 0; it should be greater than 0
    """
    return validated(settings, values, field="setting")


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table, or a dash where there is none.

    Example:
        >>> number(0.123456), number(1.5e-12), number(None)
        ('0.123', '1.5e-12', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:.{digits}g}"
