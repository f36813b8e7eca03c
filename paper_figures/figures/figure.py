"""What a figure of the paper is: the runs it needs, the numbers taken from them, and their drawing."""

import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from implicit.config.recipes import recipe
from implicit.runs.environment import describe_environment
from implicit.runs.loading import Run
from implicit.train import train
from paper_figures.stored_results import StoredResults

Results = dict[str, Any]
"""Numbers as JSON takes them."""

CAPTION_WIDTH = 17
"""Characters of the caption's type an inch of the figure's width."""


@dataclass(frozen=True)
class RunRecipe:
    """A training run that a figure needs, made by the recipe of its task.

    Example:
        >>> run = RunRecipe("parity", "lstm", seed=3)
        >>> run.name, run.command
        ('parity-lstm-seed-3', 'python -m implicit.train --task parity --model lstm --seed 3 --out RUN')
    """

    task: str
    model: str
    seed: int

    @property
    def name(self) -> str:
        """The name of the run folder."""
        return f"{self.task}-{self.model}-seed-{self.seed}"

    @property
    def command(self) -> str:
        """The command that trains the run."""
        return (
            f"python -m implicit.train --task {self.task} --model {self.model} --seed {self.seed} --out RUN"
        )

    def train(self, folder: Path) -> Run:
        """Return the run from ``folder/<name>``, trained there if it is missing or unfinished.

        Raises:
            InputError: if that folder holds something else, or a run of other settings.
            OSError: if it cannot be written.
        """
        return train(recipe(self.task, self.model, seed=self.seed), folder / self.name)


Runs = Mapping[RunRecipe, Run]


@dataclass(frozen=True)
class PaperFigure:
    """A figure of the paper.

    Attributes:
        name: of the module, the results and the files.
        title: what it shows, in a line.
        runs: the training runs that it is computed from.
        compute: takes the loaded runs and returns the numbers, ready for JSON.
        draw: draws the numbers; called within the style of `analysis.framework.figures`.
        caption: tells what was drawn, from the numbers; seeds and number of runs are added to it.

    Example:
        >>> figure = PaperFigure(
        ...     name="counts",
        ...     title="Counts",
        ...     runs=(),
        ...     compute=lambda runs: {"runs": len(runs)},
        ...     draw=lambda found: Figure(),
        ...     caption=lambda found: f"{found['runs']} counted.",
        ... )
        >>> stored = figure.recompute(Path("runs"))
        >>> stored.results, stored.command, figure.full_caption(stored)
        ({'runs': 0}, 'python -m paper_figures counts --rerun', '0 counted. No training runs.')
    """

    name: str
    title: str
    runs: tuple[RunRecipe, ...]
    compute: Callable[[Runs], Results]
    draw: Callable[[Results], Figure]
    caption: Callable[[Results], str]

    def recompute(self, folder: Path) -> StoredResults:
        """Train what is missing in the folder and compute the numbers.

        Args:
            folder: the run folders lie in it, by the names of `RunRecipe`.

        Raises:
            InputError: if a run folder holds something else.
            OSError: if a run cannot be written.
        """
        runs = {wanted: wanted.train(folder) for wanted in self.runs}
        began = time.monotonic()
        results = self.compute(runs)
        return StoredResults(
            figure=self.name,
            command=f"python -m paper_figures {self.name} --rerun",
            date=datetime.now(UTC).date().isoformat(),
            environment=describe_environment(),
            seconds=round(time.monotonic() - began, 1),
            seeds=sorted({wanted.seed for wanted in runs}),
            runs=[
                {**asdict(RunIdentity.of(run)), "name": wanted.name, "command": wanted.command}
                for wanted, run in runs.items()
            ],
            results=results,
        )

    def full_caption(self, stored: StoredResults) -> str:
        """Return the caption with the seeds and the number of runs of every model."""
        by_model: dict[str, list[int]] = {}
        for run in stored.runs:
            by_model.setdefault(run["model"], []).append(run["seed"])
        runs = [
            f"{model} {len(seeds)} (seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, sorted(seeds)))})"
            for model, seeds in by_model.items()
        ]
        counted = f"Training runs: {'; '.join(runs)}." if runs else "No training runs."
        return f"{self.caption(dict(stored.results))} {counted}"

    def picture(self, stored: StoredResults) -> Figure:
        """Draw the stored numbers with the caption below them."""
        with styled():
            figure = self.draw(dict(stored.results))
            width = int(CAPTION_WIDTH * figure.get_size_inches()[0])
            caption = textwrap.fill(self.full_caption(stored), width)
            figure.supxlabel(caption, fontsize=8, x=0.01, ha="left", linespacing=1.35)
        return figure
