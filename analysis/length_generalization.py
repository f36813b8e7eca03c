"""How does accuracy change with length? ``python -m analysis.length_generalization RUN…``.

One evaluation of the longest sequences tells about all shorter ones: every model here is causal, and the
first L tokens of a random sequence are distributed as a sequence of L tokens. Accuracy is the mean over the
last ten tokens.
"""

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.stats
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from rich.table import Table
from tqdm import tqdm

from analysis.framework.command import add_output_flag, print_tables, settings_from
from analysis.framework.figures import COLORS, GREY, MODEL_COLORS, new_figure, powers_of_two, styled
from analysis.framework.output import (
    RunIdentity,
    check_writable,
    default_folder,
    require_different_names,
    write_analysis,
)
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.fixed_point import Stopping
from implicit.models.implicit_mamba2 import ImplicitMamba2, Mode
from implicit.runs.loading import Run, load_run
from implicit.training.evaluation import REPORTED_TOKENS
from implicit.training.streams import Stream, draw_batch

NAME = "length_generalization"
DESCRIPTION = "Measure accuracy against sequence length, with confidence intervals, for one run or several."


class LengthSettings(BaseModel):
    """What is measured.

    Example:
        >>> LengthSettings().lengths
        (32, 64, 128, 256)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    lengths: tuple[PositiveInt, ...] = Field(
        default=(32, 64, 128, 256), min_length=1, description="lengths of the sequences, in tokens"
    )
    sequences: PositiveInt = Field(default=256, description="sequences")
    batch_size: PositiveInt = Field(default=64, description="sequences at a time; all wait for the slowest")
    mode: Mode = Field(
        default="sequential",
        description="of implicit models: sequential (several times faster at length 256) or simultaneous",
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations a token")
    confidence: float = Field(default=0.95, gt=0, lt=1, description="level of the confidence intervals")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


def wilson_interval(mean: float, count: int, confidence: float = 0.95) -> tuple[float, float]:
    """Return a confidence interval for the mean of independent values in [0, 1].

    The values are one a sequence: the share of its last ten tokens that are right. Their errors come
    together, so that the sequences are the independent units. A variable in [0, 1] with mean p has variance
    at most p (1 − p), that of a coin; the interval for a coin is therefore wide enough. It does not shrink
    to a point at 100%.

    Source:
        Wilson 1927, "Probable inference, the law of succession, and statistical inference".

    Args:
        mean: of the values.
        count: how many values.
        confidence: level.

    Example:
        >>> [round(bound, 4) for bound in wilson_interval(1.0, 512)]
        [0.9926, 1.0]
    """
    z = float(scipy.stats.norm.ppf((1 + confidence) / 2))
    center = (mean + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * (mean * (1 - mean) / count + z**2 / (4 * count**2)) ** 0.5
    return max(0.0, center - half), min(1.0, center + half)


@dataclass(frozen=True, eq=False)
class RunAccuracy:
    """What one run got right.

    Attributes:
        run: which run.
        correct: ``[sequences, longest length]``.
        share_converged: by length, of all tokens; None for a model without fixed points.
        chance: accuracy of guessing one class.

    Example:
        >>> identity = RunIdentity("parity", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> correct = np.array([[True] * 12, [False] * 2 + [True] * 10])
        >>> found = RunAccuracy(identity, correct, None, 0.5)
        >>> found.accuracy(12), found.accuracy(2)
        (1.0, 0.5)
    """

    run: RunIdentity
    correct: NDArray[np.bool_]
    share_converged: dict[int, float] | None
    chance: float

    def accuracy(self, length: int) -> float:
        """Return the accuracy at a length: mean over its last ten tokens, or all if there are fewer."""
        return float(self.correct[:, max(0, length - REPORTED_TOKENS) : length].mean())

    def interval(self, length: int, confidence: float = 0.95) -> tuple[float, float]:
        """Return the confidence interval of the accuracy at a length."""
        return wilson_interval(self.accuracy(length), len(self.correct), confidence)


@dataclass(frozen=True, eq=False)
class LengthAnalysis:
    """What `analyse` returns.

    Attributes:
        settings: what was chosen.
        runs: one entry a run.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = analyse(run, lengths=(16, 32), sequences=64)
        >>> list(found.numbers()["lstm"]["accuracy"])
        [16, 32]
    """

    settings: LengthSettings
    runs: tuple[RunAccuracy, ...]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON, by the name of the run."""
        return {found.run.name: self._run_numbers(found) for found in self.runs}

    def _run_numbers(self, found: RunAccuracy) -> dict[str, Any]:
        lengths, confidence = self.settings.lengths, self.settings.confidence
        return {
            "run": asdict(found.run),
            "accuracy": {length: found.accuracy(length) for length in lengths},
            "interval": {length: found.interval(length, confidence) for length in lengths},
            "accuracy_by_position": found.correct.mean(axis=0),
            "share_converged": found.share_converged,
            "chance": found.chance,
        }


def analyse(
    runs: Run | Iterable[Run], settings: LengthSettings | None = None, **chosen: Any
) -> LengthAnalysis:
    """Measure the accuracy of runs against length.

    Args:
        runs: a loaded run, or several with different names.
        settings: what to measure.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, or two runs of the same name.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> analyse(run, lengths=(16,), sequences=8).runs[0].correct.shape
        (8, 16)
    """
    settings = settings or settings_from(LengthSettings, chosen)
    several = [runs] if isinstance(runs, Run) else list(runs)
    require_different_names(several)
    return LengthAnalysis(settings, tuple(_measure(run, settings) for run in several))


@torch.no_grad()
def _measure(run: Run, settings: LengthSettings) -> RunAccuracy:
    longest = max(settings.lengths)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    correct, converged = [], []
    firsts = range(0, settings.sequences, settings.batch_size)
    for index, first in enumerate(tqdm(firsts, desc=run.path.name, unit="batch", leave=False, disable=None)):
        size = min(settings.batch_size, settings.sequences - first)
        tokens, labels = draw_batch(run.task, size, longest, settings.seed, Stream.TEST, longest, index)
        if isinstance(run.model, ImplicitMamba2):
            solution = run.model.solve(tokens, settings.mode, stopping=stopping)
            converged.append(solution.converged.numpy())
            logits = solution.logits
        else:
            logits = run.model(tokens)
        correct.append((logits.argmax(dim=-1) == labels).numpy())
    share = None
    if converged:
        tokens_converged = np.concatenate(converged)
        share = {length: float(tokens_converged[:, :length].mean()) for length in settings.lengths}
    return RunAccuracy(RunIdentity.of(run), np.concatenate(correct), share, 1 / run.task.state_count)


def draw(found: LengthAnalysis) -> Figure:
    """Draw accuracy against length, and against the position in the longest sequences.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), lengths=(16,), sequences=2)
        >>> [axes.get_xlabel() for axes in draw(found).axes]
        ['length (tokens)', 'position of the token']
    """
    settings = found.settings
    lengths = sorted(settings.lengths)
    tasks = sorted({result.run.task for result in found.runs})
    seeds = sorted({result.run.seed for result in found.runs})
    with styled():
        figure = new_figure(
            9,
            3.8,
            f"{', '.join(tasks)}: {len(found.runs)} run{'s' * (len(found.runs) > 1)} of training seed "
            f"{', '.join(map(str, seeds))}, {settings.sequences} sequences each",
        )
        by_length, by_position = figure.subplots(1, 2, sharey=True)
        spare = [color for color in COLORS if color not in MODEL_COLORS.values()]
        several_of_a_model = len({result.run.model for result in found.runs}) < len(found.runs)
        for number, (result, marker) in enumerate(
            zip(found.runs, _cycled("osD^v<>", len(found.runs)), strict=True)
        ):
            color = (
                COLORS[number % len(COLORS)]
                if several_of_a_model
                else MODEL_COLORS.get(result.run.model, spare[0])
            )
            # The first is drawn broadest, so that runs of equal accuracy show behind one another.
            breadth = 1 - number / max(1, len(found.runs) - 1)
            accuracies = np.array([result.accuracy(length) for length in lengths])
            bounds = np.array([result.interval(length, settings.confidence) for length in lengths]).T
            by_length.errorbar(
                lengths,
                accuracies,
                yerr=np.abs(bounds - accuracies),
                marker=marker,
                color=color,
                capsize=3 + 3 * breadth,
                linewidth=1.2 + 3 * breadth,
                elinewidth=1.2,
                markersize=5 + 5 * breadth,
                label=result.run.name,
            )
            by_position.plot(
                _running(result.correct.mean(axis=0)),
                color=color,
                linewidth=1.2 + 3 * breadth,
                label=result.run.name,
            )
        for axes in (by_length, by_position):
            for chance in {result.chance for result in found.runs}:
                axes.axhline(chance, color=GREY, linewidth=0.8, linestyle=":", label="chance")
            for length in {result.run.training_length for result in found.runs}:
                axes.axvline(length, color=GREY, linewidth=0.8, linestyle="--", label="training length")
            axes.set_ylim(-0.02, 1.03)
        by_length.set(
            title=f"last {REPORTED_TOKENS} tokens, with {settings.confidence:.0%} intervals (Wilson)",
            xlabel="length (tokens)",
            ylabel="accuracy (share of tokens)",
        )
        by_position.set(
            title=f"along the longest sequences, mean of {REPORTED_TOKENS} tokens",
            xlabel="position of the token",
        )
        powers_of_two(by_length, lengths)
        by_length.legend(loc="lower left")
        return figure


def tables(found: LengthAnalysis) -> list[Table | str]:
    """Return a table with a line for every run, for the terminal.

    Example:
        >>> identity = RunIdentity("mine", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> accuracy = RunAccuracy(identity, np.ones((8, 16), bool), None, 0.5)
        >>> found = LengthAnalysis(LengthSettings(lengths=(16,), sequences=8), (accuracy,))
        >>> table = tables(found)[0]
        >>> [list(column.cells) for column in table.columns]
        [['mine'], ['1.000 (0.676–1.000)']]
    """
    table = Table(
        title=f"accuracy over the last {REPORTED_TOKENS} tokens, {found.settings.sequences} sequences, with "
        f"{found.settings.confidence:.0%} intervals",
        title_justify="left",
    )
    table.add_column("run")
    for length in found.settings.lengths:
        table.add_column(str(length), justify="right")
    for result in found.runs:
        cells = []
        for length in found.settings.lengths:
            low, high = result.interval(length, found.settings.confidence)
            cells.append(f"{result.accuracy(length):.3f} ({low:.3f}–{high:.3f})")
        table.add_row(result.run.name, *cells)
    lines: list[Table | str] = [table]
    for result in found.runs:
        share = (result.share_converged or {}).get(max(found.settings.lengths), 1.0)
        if share < 1:
            lines.append(f"{result.run.name}: {1 - share:.2%} of tokens have no converged fixed point")
    return lines


def write(found: LengthAnalysis, folder: Path, seconds: float) -> None:
    """Write numbers and figure to a folder.

    Raises:
        OSError: if it cannot be written.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> found = analyse(load_run("parity"), lengths=(16,), sequences=2)
        >>> with TemporaryDirectory() as folder:
        ...     write(found, Path(folder), seconds=0.0)
        ...     sorted(path.suffix for path in Path(folder).iterdir())
        ['.json', '.pdf', '.png']
    """
    write_analysis(
        folder,
        NAME,
        runs=tuple(result.run for result in found.runs),
        settings=found.settings.model_dump(),
        result=found.numbers(),
        seconds=seconds,
        figure=draw(found),
    )


def _running(accuracy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean over a token and the nine before it: what the accuracy of a sequence that ends there would be."""
    sums = np.concatenate([[0.0], np.cumsum(accuracy)])
    ends = np.arange(1, len(accuracy) + 1)
    starts = np.maximum(0, ends - REPORTED_TOKENS)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _cycled(markers: str, count: int) -> str:
    return (markers * (count // len(markers) + 1))[:count]


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser(f"python -m analysis.{NAME}", DESCRIPTION)
    parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, or names of stored runs")
    add_output_flag(parser, f"RUN/analysis/{NAME} for one run, out/{NAME} for several")
    add_config_flags(parser, LengthSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(LengthSettings, given_fields(arguments, LengthSettings))
    runs = [load_run(run) for run in arguments.runs]
    folder = default_folder(runs[0], NAME) if len(runs) == 1 else Path("out") / NAME
    folder = folder if arguments.out is None else Path(arguments.out)
    check_writable(folder)
    began = time.monotonic()
    found = analyse(runs, settings)
    write(found, folder, time.monotonic() - began)
    print_tables(tables(found), folder / f"{NAME}.json")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Example:
        The exit code is 2 for bad input; the sentence that says why goes to standard error.

        >>> main(["no/such/run"])
        2
    """
    return run_command(_command, argv)


if __name__ == "__main__":
    sys.exit(main())
