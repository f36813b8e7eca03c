"""Swapped balls and small programs: how many answers are right, by the number of swaps or statements."""

from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from analysis.length_generalization import wilson_interval
from automata.errors import InputError
from automata.tasks.interface import Task
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import SwappingBalls
from implicit.runs.loading import Run
from paper_figures.measurements.answers import AnswerSettings, answers, mean_share


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


def puzzle_accuracy(run: Run, settings: PuzzleSettings) -> dict[str, Any]:
    """Measure how many answers are right, by the number of swaps or statements.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("swap-balls-3", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = puzzle_accuracy(run, PuzzleSettings(numbers=(2, 4), sequences=16))
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
