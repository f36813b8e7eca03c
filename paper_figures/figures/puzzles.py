"""Swapped balls and small programs: accuracy by the number of swaps and of statements."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.framework.figures import legend_below, new_figure, powers_of_two
from analysis.framework.palette import GREY
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import wilson_interval
from automata.errors import InputError
from automata.tasks.interface import Task
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import SwappingBalls
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import SLIDES, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.repl_traces import look_of, series_name
from paper_figures.figures.repl_training import (
    COMMON,
    LSTM,
    NOT_REFLECTING_DELTANET,
    REFLECTING_DELTANET,
    TRANSFORMER,
    seeds_of,
)

BALLS, PROGRAMS = "swap-balls-3", "small-programs"
TRAINED = {BALLS: 16, PROGRAMS: 8}
"""The most swaps, and statements, of a text in training; a program's text may hold some more short ones."""


class PuzzleSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> PuzzleSettings().numbers
        (1, 2, 4, 8, 16, 32, 64)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    numbers: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 64), min_length=1, description="swaps, or statements, of a text"
    )
    sequences: PositiveInt = Field(default=256, description="texts of each number")
    batch_size: PositiveInt = Field(default=64, description="texts at a time")
    mode: Mode = Field(default="sequential", description="of implicit models: how fixed points are sought")
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the texts")


def with_number(task: Task, number: int) -> SwappingBalls | SmallPrograms:
    """Return the same puzzle with so many swaps, or statements, in every text.

    Raises:
        InputError: the task is neither of the two.

    Example:
        >>> from automata.tasks.registry import registered_task
        >>> with_number(registered_task("swap-balls-3"), 4).swaps
        4
        >>> with_number(registered_task("parity"), 4)
        Traceback (most recent call last):
        ...
        automata.errors.InputError: task 'parity' is no puzzle; give a run on swap-balls-3 or small-programs
    """
    if isinstance(task, SwappingBalls):
        return SwappingBalls(task.balls, number, task.swapped, task.predict)
    if isinstance(task, SmallPrograms):
        grammar = task.grammar
        return SmallPrograms(
            number,
            grammar.variables,
            grammar.modulus,
            grammar.iterations,
            grammar.depth,
            grammar.reversible,
            task.predict,
        )
    raise InputError(f"task {task.name!r} is no puzzle; give a run on swap-balls-3 or small-programs")


@torch.no_grad()
def measure(run: Run, settings: PuzzleSettings) -> dict[str, Any]:
    """Measure how many answers are right, by the number of swaps or statements.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("swap-balls-3", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = measure(run, PuzzleSettings(numbers=(2, 4), sequences=16))
        >>> sorted(found["accuracy"]), sorted(found)
        ([2, 4], ['accuracy', 'baseline', 'interval'])
    """
    solve = Solve(
        settings.mode, stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    accuracy, baseline = {}, {}
    for number in settings.numbers:
        task = with_number(run.task, number)
        right, targets = [], []
        for index, first in enumerate(range(0, settings.sequences, settings.batch_size)):
            size = min(settings.batch_size, settings.sequences - first)
            length = task.tokens_of(number)
            batch = draw_batch(task, size, length, settings.seed, Stream.TEST, number, index)
            output = run.model.run(batch.tokens, solve=solve, lengths=batch.lengths)
            asked = batch.counted
            right.append((output.logits.argmax(dim=-1) == batch.targets)[asked].numpy())
            targets.append(batch.targets[asked].numpy())
        answers = np.concatenate(targets)
        accuracy[number] = float(np.concatenate(right).mean())
        baseline[number] = float(np.bincount(answers).max() / answers.size)
    return {
        "accuracy": accuracy,
        "interval": {n: wilson_interval(share, settings.sequences) for n, share in accuracy.items()},
        "baseline": baseline,
    }


SETTINGS = PuzzleSettings()
ACCURACY = Measurement("puzzle_accuracy", measure, SETTINGS)

TRAINING: dict[str, Any] = {**COMMON, "steps": 600, "batch_size": 32, "growth_accuracy": None}
EXPERIMENT = Experiment(
    "puzzles",
    (
        *seeds_of(
            REFLECTING_DELTANET,
            NOT_REFLECTING_DELTANET,
            TRANSFORMER,
            LSTM,
            **TRAINING,
            task=BALLS,
            length=82,
            start_length=12,
            length_growth=10,
            length_growth_every=40,
        ),
        *seeds_of(REFLECTING_DELTANET, TRANSFORMER, LSTM, **TRAINING, task=PROGRAMS, length=125),
    ),
    (ACCURACY,),
)


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect accuracies by task, series and seed.

    Example:
        >>> collect([])["tasks"]
        {}
    """
    tasks: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, ACCURACY.name):
        settings = group["settings"]
        tasks.setdefault(settings["task"], {})[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "seeds": group["seeds"],
            "failed": group["failed"],
        }
    return {"settings": SETTINGS.model_dump(mode="json"), "trained": TRAINED, "tasks": tasks}


def accuracies(series: Mapping[str, Any], number: int) -> list[float]:
    """Return the accuracy of every run at a number of swaps or statements.

    Example:
        >>> accuracies({"seeds": {"0": {"accuracy": {"8": 0.5}}}}, 8)
        [0.5]
    """
    return [float(run["accuracy"][str(number)]) for run in series["seeds"].values()]


def draw(found: Results, width: float) -> Figure:
    """Draw a panel for each puzzle.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("puzzles").results, 3.3).axes)
        2
    """
    figure = new_figure(width, 3.6 if width < 5 else 3.2)
    numbers = found["settings"]["numbers"]
    panels = figure.subplots(1, 2, sharey=True)
    texts = {BALLS: ("where a ball ends up", "swaps"), PROGRAMS: ("what a program prints", "statements")}
    for axes, (task, (title, unit)) in zip(panels, texts.items(), strict=True):
        series = found["tasks"].get(task, {})
        for name, one in series.items():
            runs = np.transpose([accuracies(one, number) for number in numbers])
            draw_runs(axes, numbers, runs, look_of(one), name, breadth=1.2)
        baselines = [run["baseline"] for one in series.values() for run in one["seeds"].values()]
        if baselines:
            axes.plot(
                numbers,
                [baselines[0][str(n)] for n in numbers],
                color=GREY,
                linestyle=":",
                label="most frequent",
            )
        axes.axvline(found["trained"][task], color=GREY, linewidth=0.9, linestyle="--")
        powers_of_two(axes, numbers)
        axes.set(xlabel=unit, title=title, ylim=(0, 1.05))
        legend_below(axes)
    panels[0].set_ylabel("accuracy of the answers")
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn and how the models were trained.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("puzzles").results))
        "swap ball 1 and 3, …. Where does ball 2 end up?" with three balls, ...
    """
    settings = found["settings"]
    at_most = "; ".join(
        f"{task}, {found['trained'][task]}: "
        + ", ".join(
            f"{name} {min(values):.3f} to {max(values):.3f}"
            for name, one in series.items()
            if (values := accuracies(one, found["trained"][task]))
        )
        for task, series in found["tasks"].items()
    )
    return (
        '"swap ball 1 and 3, …. Where does ball 2 end up?" with three balls, the numbers naming balls '
        "wherever they lie; and small Python programs of assignments, loops and conditions on three "
        "variables modulo 10, whose printed values are asked: share of the answers that are right over "
        f"{settings['sequences']} fresh texts of each size, data seed {settings['seed']}. {RUN_LINES} "
        f"{interval_sentence(settings['sequences'])} "
        "Dotted: the most frequent answer; dashed: the most swaps in training, and the statements that fit "
        "into a training row at most, where programs with short ones hold more. Most values that a long "
        "program prints depend on its last statements only. "
        f"{TRAINING['steps']:,} updates of {TRAINING['batch_size']} texts at a peak rate of "
        f"{COMMON['learning_rate']:g}; rows of balls grow from 12 tokens by 10 every 40 updates to 82, those "
        "of programs have 125; only answers are in the loss. Width 64 and two layers (LSTM: 128 and one), "
        f"not matched in parameters. At the size of training, lowest to highest run: {at_most}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that a recurrent model answers the puzzle of the balls beyond its training where attention fails.

    Reproduced if at four times the swaps of training every run of DeltaNet [-1, 1] or every run of the LSTM
    answers at least 0.95, and no run of the Transformer does; not reproduced if no recurrent run does; partly
    otherwise.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    series = found["tasks"].get(BALLS, {})
    tested = 4 * TRAINED[BALLS]
    solved = {name: [a >= 0.95 for a in accuracies(one, tested)] for name, one in series.items()}
    because = f"at least 0.95 after {tested} swaps: " + ", ".join(
        f"{name} {sum(runs)} of {len(runs)}" for name, runs in solved.items()
    )
    recurrent = [runs for name, runs in solved.items() if name != "Transformer" and runs]
    if not any(any(runs) for runs in recurrent):
        return Verdict("not reproduced", because)
    complete = any(all(runs) for runs in recurrent) and not any(solved.get("Transformer", [True]))
    return Verdict("reproduced" if complete else "partly", because)


FIGURE = PaperFigure(
    title="Swapped balls and small programs",
    claim=Claim(
        "following swapped balls through a text needs a state: recurrent models do it beyond the lengths "
        "they were trained at, a Transformer does not",
        SLIDES,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
