"""What a figure of the paper is: an experiment, the numbers collected from it, and their drawing."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import TEXT_WIDTH, styled
from paper_figures.experiments.grid import TRAINING, Experiment
from paper_figures.experiments.outcomes import Outcome, common_environment
from paper_figures.figures.claim import Claim
from paper_figures.figures.shown import Shown
from paper_figures.stored_results import RESULTS, StoredResults

Results = dict[str, Any]
"""Numbers as JSON takes them."""


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes:
        title: what it shows, in a line.
        experiment: the training runs and what is measured of them; the figure has its name.
        collect: takes what came of the points, failed ones included, and returns what is drawn.
        draw: draws that, so many inches wide; called within the style of `analysis.framework.figures`.
        caption: tells what was drawn; the runs, their seeds and what failed are added to it.
        claim: of a paper, that the results judge.
        full: the experiment at the size of the paper, for a GPU; None if there is none.
        in_full: whether `experiment` is that one.

    Example:
        >>> from paper_figures.figures.claim import Verdict
        >>> figure = PaperFigure(
        ...     title="Counts",
        ...     claim=Claim("there are many", "folklore", lambda found: Verdict("partly", "some")),
        ...     experiment=Experiment("counts", (), ()),
        ...     collect=lambda outcomes: {"runs": len(outcomes)},
        ...     draw=lambda found, width: Figure((width, 2)),
        ...     caption=lambda found: f"{found['runs']} counted.",
        ... )
        >>> stored = figure.stored([])
        >>> stored.results, stored.command, figure.full_caption(stored)
        ({'runs': 0}, 'python -m paper_figures counts --rerun', '0 counted. No training runs.')
    """

    title: str
    claim: Claim
    experiment: Experiment
    collect: Callable[[Sequence[Outcome]], Results]
    draw: Callable[[Results, float], Figure]
    caption: Callable[[Results], str]
    full: Experiment | None = None
    in_full: bool = False

    @property
    def name(self) -> str:
        """The name of the stored results and files: that of the experiment, at full size with ``_full``."""
        return f"{self.experiment.name}_full" if self.in_full else self.experiment.name

    @property
    def command(self) -> str:
        """The command that draws it."""
        return f"python -m paper_figures {self.experiment.name}{' --full' if self.in_full else ''}"

    def at_full_size(self) -> "PaperFigure":
        """Return the same figure of the experiment at the size of the paper, which there has to be."""
        assert self.full is not None
        return replace(self, experiment=self.full, full=None, in_full=True)

    def stored(self, outcomes: Sequence[Outcome]) -> StoredResults:
        """Return what is stored of an experiment that ended: the numbers, and how they came about."""
        records = [record for outcome in outcomes for record in outcome.records.values()]
        measured = [record for record in records if record.measurement != TRAINING]
        return StoredResults(
            figure=self.name,
            command=f"{self.command} --rerun",
            date=max((record.date for record in records), default=datetime.now(UTC).date().isoformat()),
            environment=common_environment(measured),
            seconds=round(sum(record.seconds for record in measured), 1),
            training_seconds=round(
                sum(record.seconds for record in records if record.measurement == TRAINING), 1
            ),
            seeds=sorted({outcome.point.seed for outcome in outcomes}),
            runs=[outcome.run for outcome in outcomes],
            results=self.collect(outcomes),
        )

    def full_caption(self, stored: StoredResults) -> str:
        """Return the caption with the number of runs, their seeds, and which failed."""
        return f"{self.caption(dict(stored.results))} {runs_sentence(stored.runs)}"

    def picture(self, stored: StoredResults, width: float = TEXT_WIDTH) -> Figure:
        """Draw the stored numbers, so many inches wide."""
        with styled():
            return self.draw(dict(stored.results), width)

    def stored_in(self, results: Path = RESULTS) -> bool:
        """Return whether a folder has results of it."""
        return (results / f"{self.name}.json").is_file()

    def shown(self, results: Path = RESULTS) -> Shown:
        """Return what is shown of it, from the stored results in a folder.

        Raises:
            InputError: if they are missing or not those of this figure.
        """
        stored = StoredResults.read(self.name, results)
        return Shown(
            lambda width: self.picture(stored, width),
            self.full_caption(stored),
            self.claim.judge(stored.results),
            stored,
        )


def runs_sentence(runs: Sequence[Mapping[str, Any]]) -> str:
    """Tell how many training runs there are, of what settings and seeds, and which failed.

    Args:
        runs: as `StoredResults` holds them.

    Example:
        >>> run = {"settings": {"task": "parity", "model": "lstm", "seed": 0}, "status": "done"}
        >>> other = {"settings": {"task": "parity", "model": "lstm", "seed": 1}, "status": "failed"}
        >>> runs_sentence([run])
        'Training runs: 1, none failed: lstm 1 (seed 0).'
        >>> runs_sentence([run, other])
        'Training runs: 2, 1 failed: lstm 1 of 2 (seed 0; failed: 1).'
    """
    if not runs:
        return "No training runs."
    several_tasks = len({run["settings"]["task"] for run in runs}) > 1
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for run in runs:
        settings = dict(run["settings"])
        task, model = settings.pop("task"), settings.pop("model")
        settings.pop("seed")
        words = [
            model,
            *([f"on {task}"] if several_tasks else []),
            *(f"{k}={'none' if v is None else v}" for k, v in settings.items()),
        ]
        groups.setdefault(" ".join(words), []).append(run)
    failed = sum(run["status"] == "failed" for run in runs)
    listed = "; ".join(f"{name} {_seeds(group)}" for name, group in groups.items())
    return f"Training runs: {len(runs)}, {failed or 'none'} failed: {listed}."


def _seeds(group: Sequence[Mapping[str, Any]]) -> str:
    """How many runs of one kind there are, with their seeds and those that failed."""
    done = sorted(run["settings"]["seed"] for run in group if run["status"] == "done")
    failed = sorted(run["settings"]["seed"] for run in group if run["status"] != "done")
    words = [f"seed{'s' * (len(done) > 1)} {', '.join(map(str, done))}"] if done else []
    if failed:
        words.append(f"failed: {', '.join(map(str, failed))}")
    count = f"{len(done)} of {len(group)}" if failed else f"{len(done)}"
    return f"{count} ({'; '.join(words)})"
