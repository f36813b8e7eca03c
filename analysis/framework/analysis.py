"""A question about trained models, from whose description the command, the files and the report are made."""

import time
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from matplotlib.figure import Figure

from analysis.framework.figures import TEXT_WIDTH, checked_width, save_figure
from analysis.framework.finding import Finding, Findings, for_caption, for_terminal
from analysis.framework.needs import ANY_MODEL, Need
from analysis.framework.output import (
    FILES,
    RunIdentity,
    check_writable,
    default_folder,
    full_caption,
    json_ready,
    refuse_other_runs,
    require_different_names,
    run_name,
    written_together,
)
from analysis.framework.settings import Settings, fitted
from analysis.framework.terminal import add_output_flag, add_runs_argument, add_width_flag, print_tables
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.fixed_point import NotConvergedWarning
from implicit.runs.environment import describe_environment
from implicit.runs.files import read_json, write_json
from implicit.runs.loading import Run, load_run
from implicit.threads import add_threads_flag, chosen_threads


@contextmanager
def _warned_once() -> Iterator[None]:
    """Show a warning once, and one `NotConvergedWarning` for all: a layer warns at every call of it."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            yield
    finally:
        lost = [each for each in caught if each.category is NotConvergedWarning]
        once = {(each.category, str(each.message)): each for each in caught if each not in lost[1:]}
        for each in once.values():
            more = "; the analysis met more such calls" if each in lost and lost[1:] else ""
            warnings.warn_explicit(f"{each.message}{more}", each.category, each.filename, each.lineno)


class Result(Protocol):
    """The answer of an analysis.

    That of one run has a `Finding` as ``finding``; that of several has ``findings`` by their names.
    """

    def numbers(self) -> dict[str, Any]:
        """Return everything that was computed, for JSON."""
        ...


Outcome = TypeVar("Outcome", bound=Result)


@dataclass(frozen=True, kw_only=True)
class ReportSection:
    """The part of an analysis in the report, which shows its finding and its figure.

    Attributes:
        title: of the verdict's column in the table "In short", if a finding has a verdict.
        settings: the analysis's settings that follow one of the report's, by its name.
        priority: analyses that take longer have a higher one, and start first.
        content: from a run and the analysis's numbers to what the run's entry in ``report.json`` gets.
    """

    title: str = ""
    settings: Mapping[str, str] = field(default_factory=lambda: {"seed": "seed"})
    priority: int = 0
    content: Callable[[Run, Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Analysis(ABC, Generic[Settings, Outcome]):
    """The base of questions about one run and about several."""

    takes_several: ClassVar[bool] = False
    where: ClassVar[str]  # where the results of the command go, for the help

    name: str  # of the module and of the files
    question: str  # one sentence, as python -m analysis lists it
    description: str  # the first line of the help
    settings: type[Settings]  # its fields become flags
    # makes the figure of an answer, so many inches wide; None if it has none
    draw: Callable[[Outcome, float], Figure] | None = None
    # what the figure shows, for its caption; finding, limits, runs and settings are added to it
    shows: str = ""
    needs: Need = ANY_MODEL  # what the models must have
    any_length: bool = False  # whether words come from the task's automaton, at any length
    section: ReportSection | None = None  # its part in the report; None if it has none
    # what the command names as written, in place of <name>.json, which without a figure is not written then
    file: str | None = None

    @abstractmethod
    def folders(self, runs: Sequence[Run], out: Path | None) -> list[Path]:
        """Return the folders of the results, all of them different; ``out`` is what ``--out`` gives."""

    @abstractmethod
    def answer(
        self, runs: Sequence[Run], settings: Settings, folders: Sequence[Path], width: float = TEXT_WIDTH
    ) -> list[Outcome]:
        """Analyse runs and write numbers and figures.

        There is a folder for each result, as `folders` returns them.
        """

    @abstractmethod
    def findings(self, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> Findings:
        """Return what was found of every run, by its name."""

    def caption_of(self, runs: Sequence[Run], outcome: Outcome) -> str:
        """Return the text beside the figure of an answer."""
        return for_caption(self.shows, self.findings(runs, [outcome]))

    @abstractmethod
    def stored_result(self, folder: Path, run: str) -> tuple[Mapping[str, Any], Finding]:
        """Return the numbers of a run and its finding from a folder of results as the report lays it out.

        It holds a comparison's files, and a folder for each run.
        """

    def _write(
        self,
        folder: Path,
        runs: Sequence[Run],
        settings: Settings,
        outcome: Outcome,
        began: float,
        width: float,
    ) -> None:
        """Write the numbers of an answer, and its figure beside them if there is one."""
        seconds = time.monotonic() - began
        identities = [RunIdentity.of(run) for run in runs]
        chosen = settings.model_dump()
        if self.draw is not None:
            caption = full_caption(self.caption_of(runs, outcome), identities, chosen)
            save_figure(self.draw(outcome, width), folder, self.name, caption)
        elif self.file is not None:
            return
        asked = [asdict(one) for one in identities]
        content = {
            "analysis": self.name,
            **({"runs": asked} if isinstance(self, Comparison) else {"run": asked[0]}),
            "settings": chosen,
            "environment": describe_environment(),
            "seconds": seconds,
            "result": outcome.numbers(),
        }
        if found := self.findings(runs, [outcome]):
            content["findings"] = {run: finding.json() for run, finding in found.items()}
        write_json(folder / f"{self.name}.json", json_ready(content))

    def ask(
        self, runs: Sequence[Run], settings: Settings, out: Path | None = None, width: float = TEXT_WIDTH
    ) -> tuple[list[Outcome], list[Path]]:
        """Answer the question and write numbers and figures, as the command does.

        Results go where the command puts them if ``out`` is None. Returned are the answers, one for every run
        or one for all, and the folder of each.

        Raises:
            InputError: for runs that cannot be analysed, or a folder that cannot be written or that holds
                results of other runs.
            OSError: if the results cannot be written.
        """
        require_different_names(runs)
        for run in runs:
            self.needs.require(run)
        folders = self.folders(runs, out)
        files = self._files(folders)
        for file in files:
            check_writable(file.parent, files=(file.name, *(self.name + ending for ending in FILES)))
        for file, of in zip(files, [runs] if len(files) == 1 else [[run] for run in runs], strict=True):
            refuse_other_runs(file, of)
        with _warned_once():
            return self.answer(runs, self.fitted(settings, runs), folders, width), folders

    def fitted(self, settings: Settings, runs: Sequence[Run]) -> Settings:
        """Return settings whose default lengths are those that the tasks have."""
        return settings if self.any_length else fitted(settings, runs)

    def _files(self, folders: Sequence[Path]) -> list[Path]:
        return [folder / (self.file or f"{self.name}.json") for folder in folders]

    def _written(self, folders: Sequence[Path], outcomes: Sequence[Outcome]) -> list[Path]:
        """Return the files that a command names as written."""
        return self._files(folders)

    def command(self, argv: Sequence[str] | None) -> None:
        """Run as a command: ``python -m analysis.<name> RUN [--out FOLDER] [flags of the settings]``."""
        parser = CommandParser(f"python -m analysis.{self.name}", self.description)
        add_runs_argument(parser, several=self.takes_several)
        add_output_flag(parser, self.where.format(name=self.name))
        add_threads_flag(parser)
        add_config_flags(parser, self.settings, title="settings")
        if self.draw is not None:
            add_width_flag(parser)
        arguments = parser.parse_args(argv)
        width = checked_width(getattr(arguments, "width", str(TEXT_WIDTH)))
        settings = validated(self.settings, given_fields(arguments, self.settings))
        runs = [load_run(run, allow_code=arguments.allow_code) for run in arguments.runs]
        out = None if arguments.out is None else Path(arguments.out)
        largest = max(run.model.parameter_count() for run in runs)
        with chosen_threads(arguments.threads, lambda: largest):
            outcomes, folders = self.ask(runs, settings, out, width)
        shown = for_terminal(self.findings(runs, outcomes))
        print_tables(shown, self._written(folders, outcomes))

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command and return its exit code: 2 for bad input, with a sentence on standard error."""
        return run_command(self.command, argv)


@dataclass(frozen=True, kw_only=True)
class RunAnalysis(Analysis[Settings, Outcome]):
    """A question about a run by itself.

    Attributes:
        measure: answers the question of a run.
        documents: makes further files of JSON from a run and an answer, by file name.
    """

    where: ClassVar[str] = "RUN/analysis/{name}, or out/<name>/{name} for a stored run"

    measure: Callable[[Run, Settings], Outcome]
    documents: Callable[[Run, Outcome], Mapping[str, Any]] = lambda _run, _outcome: {}

    def folders(self, runs: Sequence[Run], out: Path | None) -> list[Path]:
        """Return a folder for each run: ``out`` if there is one run, else one below it by the run's name."""
        if out is None:
            return [default_folder(run, self.name) for run in runs]
        return [out] if len(runs) == 1 else [out / run_name(run) for run in runs]

    def answer(
        self, runs: Sequence[Run], settings: Settings, folders: Sequence[Path], width: float = TEXT_WIDTH
    ) -> list[Outcome]:
        """Analyse each run by itself."""
        return [
            self._answer_one(run, settings, folder, width) for run, folder in zip(runs, folders, strict=True)
        ]

    def _answer_one(self, run: Run, settings: Settings, folder: Path, width: float) -> Outcome:
        began = time.monotonic()
        outcome = self.measure(run, settings)
        with written_together(folder) as fresh:
            self._write(fresh, [run], settings, outcome, began, width)
            for name, content in self.documents(run, outcome).items():
                write_json(fresh / name, content)
        return outcome

    def findings(self, runs: Sequence[Run], outcomes: Sequence[Outcome]) -> Findings:
        """Return the finding of every answer by the name of its run."""
        found = [getattr(outcome, "finding", None) for outcome in outcomes]
        named = zip(map(run_name, runs), found, strict=True)
        return {name: finding for name, finding in named if finding is not None}

    def stored_result(self, folder: Path, run: str) -> tuple[Mapping[str, Any], Finding]:
        """Return what is in the run's own folder."""
        stored = read_json(folder / run / f"{self.name}.json")
        return stored["result"], Finding.from_json(stored["findings"][run])


@dataclass(frozen=True, kw_only=True)
class EachRunAnalysis(RunAnalysis[Settings, Outcome]):
    """A question about a run by itself whose command takes several runs and shows them in one table."""

    takes_several: ClassVar[bool] = True
    where: ClassVar[str] = "RUN/analysis/{name}; with several runs every one has its folder below --out"


@dataclass(frozen=True, kw_only=True)
class Comparison(Analysis[Settings, Outcome]):
    """A question about several runs of different names, which ``compare`` answers by the name of the run."""

    takes_several: ClassVar[bool] = True
    where: ClassVar[str] = "RUN/analysis/{name} for one run, out/{name} for several"

    compare: Callable[[Sequence[Run], Settings], Outcome]

    def folders(self, runs: Sequence[Run], out: Path | None) -> list[Path]:
        """Return the one folder of the results."""
        if out is not None:
            return [out]
        return [default_folder(runs[0], self.name) if len(runs) == 1 else Path("out") / self.name]

    def answer(
        self, runs: Sequence[Run], settings: Settings, folders: Sequence[Path], width: float = TEXT_WIDTH
    ) -> list[Outcome]:
        """Compare the runs."""
        began = time.monotonic()
        outcome = self.compare(runs, settings)
        with written_together(folders[0]) as fresh:
            self._write(fresh, runs, settings, outcome, began, width)
        return [outcome]

    def findings(self, _runs: Sequence[Run], outcomes: Sequence[Outcome]) -> Findings:
        """Return the findings of the one answer."""
        found: Findings = getattr(outcomes[0], "findings", {})
        return found

    def stored_result(self, folder: Path, run: str) -> tuple[Mapping[str, Any], Finding]:
        """Return what the file of all runs says of one."""
        stored = read_json(folder / f"{self.name}.json")
        return stored["result"][run], Finding.from_json(stored["findings"][run])
