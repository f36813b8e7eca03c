"""Swapped balls and small programs: accuracy by the number of swaps and of statements."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from pydantic import Field, PositiveInt

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import wilson_interval
from automata.errors import InputError
from automata.tasks.interface import Task
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import SwappingBalls
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.answers import AnswerSettings, answers, mean_share
from paper_figures.figures.claim import SLIDES, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.repl_traces import convergence, legend_of_all, line_widths, look_of, series_name
from paper_figures.figures.repl_training import (
    CLIPPING,
    COMMON,
    IMPLICIT,
    IMPLICIT_MAMBA2,
    LSTM,
    NOT_REFLECTING_DELTANET,
    REFLECTING_DELTANET,
    TRANSFORMER,
    seeds_of,
)

BALLS, PROGRAMS = "swap-balls-3", "small-programs"
TRAINED = {BALLS: 16, PROGRAMS: 8}
"""The most swaps of a text in training, and the statements of any kind that its rows hold.

Programs of shorter statements have more: about one in five of those in training, up to some 13.
"""
SOLVED_ACCURACY = 0.95
TESTED_SWAPS = 4 * TRAINED[BALLS]


class PuzzleSettings(AnswerSettings):
    """What is measured.

    Example:
        >>> PuzzleSettings().numbers
        (1, 2, 4, 8, 16, 32, 64)
    """

    numbers: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 64), min_length=1, description="swaps, or statements, of a text"
    )


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
        ([2, 4], ['accuracy', 'baseline', 'interval', 'share_converged'])
    """
    accuracy, baseline = {}, {}
    converged: list[float | None] = []
    for number in settings.numbers:
        task = with_number(run.task, number)
        right, targets = [], []
        for found in answers(run, task, task.tokens_of(number), settings, number):
            right.append(found.right[found.batch.counted].numpy())
            targets.append(found.batch.targets[found.batch.counted].numpy())
            converged.append(found.share_converged)
        asked = np.concatenate(targets)
        accuracy[number] = float(np.concatenate(right).mean())
        baseline[number] = float(np.bincount(asked).max() / asked.size)
    return {
        "accuracy": accuracy,
        "interval": {n: wilson_interval(share, settings.sequences) for n, share in accuracy.items()},
        "baseline": baseline,
        "share_converged": mean_share(converged),
    }


SETTINGS = PuzzleSettings()
ACCURACY = Measurement("puzzle_accuracy", measure, SETTINGS)

TRAINING: dict[str, Any] = {**COMMON, "steps": 600, "batch_size": 32, "growth_accuracy": None}
ROWS = {"length": 82, "start_length": 12, "length_growth": 10, "length_growth_every": 40}
"""Tokens of the rows that hold puzzles of balls; the longest hold 16 swaps."""
PROGRAM_ROW = 125
"""Tokens of the rows that hold programs: 8 statements of any kind, whatever they need."""
EXPERIMENT = Experiment(
    "puzzles",
    (
        *seeds_of(
            REFLECTING_DELTANET,
            NOT_REFLECTING_DELTANET,
            TRANSFORMER,
            LSTM,
            IMPLICIT_MAMBA2,
            **TRAINING,
            task=BALLS,
            **ROWS,
        ),
        *seeds_of(
            REFLECTING_DELTANET,
            TRANSFORMER,
            LSTM,
            NOT_REFLECTING_DELTANET,
            IMPLICIT_MAMBA2,
            **TRAINING,
            task=PROGRAMS,
            length=PROGRAM_ROW,
        ),
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
    """Draw a panel for each puzzle, and one legend for both.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("puzzles").results, 3.3).axes)
        2
    """
    narrow = width < 5
    figure = new_figure(width, 4.6 if narrow else 2.9)
    numbers = found["settings"]["numbers"]
    panels = figure.subplots(*((2, 1) if narrow else (1, 2)), sharey=True)
    widths = line_widths(found["tasks"])
    texts = {
        BALLS: ("(a) where a ball ends up", "swaps"),
        PROGRAMS: ("(b) what a program prints", "statements"),
    }
    for axes, (task, (title, unit)) in zip(panels, texts.items(), strict=True):
        series = found["tasks"].get(task, {})
        for name, one in series.items():
            runs = np.transpose([accuracies(one, number) for number in numbers])
            draw_runs(axes, numbers, runs, look_of(one), name, breadth=widths[name])
        baselines = [run["baseline"] for one in series.values() for run in one["seeds"].values()]
        if baselines:
            shares = [baselines[0][str(n)] for n in numbers]
            axes.plot(numbers, shares, color=GREY, linestyle=":", label="most frequent answer")
        axes.axvline(found["trained"][task], color=GREY, linewidth=0.9, linestyle="--")
        powers_of_two(axes, numbers)
        axes.set(xlabel=unit, title=title, ylim=(0, 1.05))
        if narrow or axes is panels[0]:
            axes.set_ylabel("accuracy of the answers")
    legend_of_all(figure, panels, 2 if narrow else 5)
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn and how the models were trained.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("puzzles").results))
        (a) "swap ball 1 and 3, …. Where does ball 2 end up?" with three balls, ...
    """
    settings = found["settings"]
    units = {BALLS: "swaps", PROGRAMS: "statements"}
    at_training = "; ".join(
        f"with {found['trained'][task]} {units[task]} "
        + ", ".join(
            f"{name} {min(values):.3f} to {max(values):.3f}"
            for name, one in series.items()
            if (values := accuracies(one, found["trained"][task]))
        )
        for task, series in found["tasks"].items()
    )
    return (
        '(a) "swap ball 1 and 3, …. Where does ball 2 end up?" with three balls, the numbers naming balls '
        "wherever they lie: who misses one of the swaps knows nothing of the answer. (b) Small Python "
        "programs of assignments, swaps, arithmetic, loops and conditions on three variables modulo 10, "
        "whose three printed values are asked, the true ones before each being read: in programs of 64 "
        "statements some six in ten printed values do not depend on the values at the beginning. Share of "
        f"the answers that are right over {settings['sequences']} freshly drawn texts of each size, data "
        f"seed {settings['seed']}, the same for all models; {convergence(found)}. {RUN_LINES} Lines are "
        f"drawn broader the earlier they stand in the legend. {interval_sentence(settings['sequences'])} In "
        "b the texts are its units, too. Dotted: the share of the most frequent answer among those asked; "
        "dashed: in a the most swaps "
        f"of a text in training, in b the {found['trained'][PROGRAMS]} statements, of whatever kind, that a "
        "training row holds; of short ones it holds more, and about one training program in five has more. "
        f"{TRAINING['steps']:,} updates of {TRAINING['batch_size']} texts, the same for all models of a "
        f"seed, at a peak rate of {COMMON['learning_rate']:g} (implicit Mamba-2: "
        f"{IMPLICIT['learning_rate']:g}), {CLIPPING}; rows of balls grow from "
        f"{ROWS['start_length']} tokens by {ROWS['length_growth']} every {ROWS['length_growth_every']} "
        f"updates to {ROWS['length']}, those of programs have {PROGRAM_ROW}; only answers are in the loss. "
        "Width 64 (LSTM: 128), two layers (LSTM and implicit Mamba-2: one), MLPs in the Transformer only, "
        "not matched in parameters. Lowest to highest run "
        f"{at_training or 'none'}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that recurrent models follow the balls beyond their training where attention fails.

    Reproduced if at four times the swaps of training every run of DeltaNet [-1, 1] or every run of the LSTM
    answers at least 0.95 right, and no run of the Transformer does, of which one at least ended well; not
    reproduced if no run of any recurrent model does; partly otherwise. A run that failed answers nothing.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    series = found["tasks"].get(BALLS, {})
    solved = {
        name: [accuracy >= SOLVED_ACCURACY for accuracy in accuracies(one, TESTED_SWAPS)]
        for name, one in series.items()
    }
    of = {name: len(solved[name]) + len(one["failed"]) for name, one in series.items()}
    because = (
        f"runs with at least {SOLVED_ACCURACY} after {TESTED_SWAPS} swaps, {TRAINING['steps']} updates: "
        + (
            ", ".join(
                f"{name} {sum(runs)} of {of[name]} ({_span(accuracies(series[name], TESTED_SWAPS))})"
                for name, runs in solved.items()
            )
            or "no runs"
        )
    )
    attention = solved.pop("Transformer", [])
    if not any(any(runs) for runs in solved.values()):
        return Verdict("not reproduced", because)
    by_every_run = any(
        solved.get(name) and sum(solved[name]) == of[name] for name in ("DeltaNet [-1, 1]", "LSTM")
    )
    only = bool(attention) and not any(attention)
    return Verdict("reproduced" if by_every_run and only else "partly", because)


def _span(values: Sequence[float]) -> str:
    return f"{min(values):.3f} to {max(values):.3f}" if values else "none ended well"


FIGURE = PaperFigure(
    title="Swapped balls and small programs",
    claim=Claim(
        "following swapped balls through a text needs a state, which Transformers do not keep (the slides); "
        "recurrent models do it beyond the lengths they were trained at (this toolkit)",
        SLIDES,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
