"""Fresh texts that a run reads, and its right answers: swapped balls, small programs, Python sessions."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.arrays import IntArray
from analysis.length_generalization import wilson_interval
from automata.checks import check_type
from automata.errors import InputError
from automata.repl.text import PROMPT
from automata.tasks.interface import Task
from automata.tasks.puzzles import SmallPrograms, SwappingBalls
from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, TokenBatch, draw_batch


class AnswerSettings(CheckedConfig):
    """Which texts are drawn, and how the fixed points of implicit models are sought."""

    sequences: PositiveInt = 256  # texts
    batch_size: PositiveInt = 64  # texts at a time
    mode: Mode = "sequential"  # of implicit models: how fixed points are sought
    rtol: PositiveFloat = 1e-3  # relative tolerance of the fixed points
    max_iterations: PositiveInt = 200  # the most self-iterations per token
    seed: NonNegativeInt = 0  # seed of the texts


class Answers(NamedTuple):
    """A run's answers in a batch of texts, on the CPU, without columns that are padding in all of them.

    ``right`` is where the likeliest answer is the target, bool ``[texts, length]``; ``share_converged`` of
    an explicit model is None.
    """

    batch: TokenBatch
    right: Tensor
    share_converged: float | None


@torch.no_grad()
def answers(run: Run, task: Task, length: int, settings: AnswerSettings, *number: int) -> Iterator[Answers]:
    """Let a run read fresh texts, batch by batch.

    ``length`` is that of the rows that hold them; ``number`` tells these texts from others of the same seed.
    """
    solve = Solve(
        settings.mode, stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    for index, first in enumerate(range(0, settings.sequences, settings.batch_size)):
        size = min(settings.batch_size, settings.sequences - first)
        batch = draw_batch(task, size, length, settings.seed, Stream.TEST, *number, index)
        if batch.lengths is not None:
            longest = int(batch.lengths.max())
            cut = {name: getattr(batch, name)[:, :longest] for name in ("tokens", "targets", "weights")}
            batch = batch._replace(**cut)
        there = batch.to(run.model.device)
        output = run.model.run(there.tokens, solve=solve, lengths=there.lengths)
        solution = output.solution
        yield Answers(
            batch,
            output.answers.cpu() == batch.targets,
            None if solution is None else solution.share_converged,
        )


def mean_share(shares: list[float | None]) -> float | None:
    """Return the mean of the shares that are known; None if none is.

    Example:
        >>> mean_share([0.5, 1.0]), mean_share([None])
        (0.75, None)
    """
    known = [share for share in shares if share is not None]
    return sum(known) / len(known) if known else None


class PuzzleSettings(AnswerSettings):
    """The settings of the measurement."""

    # swaps, or statements, of a text
    numbers: tuple[PositiveInt, ...] = Field(default=(1, 2, 4, 8, 16, 32, 64), min_length=1)


def with_number(task: Task, number: int) -> SwappingBalls | SmallPrograms:
    """Return the same puzzle with so many swaps, or statements, in every text."""
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
    """Measure how many answers are right, by the number of swaps or statements."""
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


TRAINED_COMMANDS = 16  # commands in a training sequence


class RevealSettings(AnswerSettings):
    """The settings of the measurement."""

    # commands before the final reveal
    commands: tuple[PositiveInt, ...] = Field(default=(4, 8, 16, 32, 64, 128), min_length=1)


def final_reveal(run: Run, settings: RevealSettings) -> dict[str, Any]:
    """Measure how often the value of the final reveal is right, by the number of commands before it.

    The sessions have a reveal after every k-th command, k as in training. The first n commands of a longer
    session are then distributed as a session of n commands, so that one set of sessions tells of all n.

    Numbers of commands that k does not divide have no reveal and are left out.
    """
    check_type("task", run.task, ReplLanguage, "give a run on Python sessions, such as of repl-3-values")
    assert isinstance(run.task, ReplLanguage)
    every = run.task.form.reveal_every
    known = [commands for commands in settings.commands if commands % every == 0]
    if not known or run.task.form.reveal == "full":
        raise InputError(
            f"commands is {settings.commands} for sessions with {run.task.form.reveal} reveals after every "
            f"{every}; give multiples of {every}, and reveals of one value"
        )
    right, converged = _right_by_commands(run, session_task(run.task, every, max(known)), known, settings)
    accuracy = {commands: float(each.mean()) for commands, each in right.items()}
    return {
        "accuracy": accuracy,
        "interval": {n: wilson_interval(share, settings.sequences) for n, share in accuracy.items()},
        "share_converged": mean_share(converged),
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
    }


Test = Literal["1", "4", "8", "random"]
"""How often values are revealed in the test: after every k-th command, or after one in four at random."""


class SpacingSettings(AnswerSettings):
    """The settings of the measurement."""

    # how often values are revealed
    tests: tuple[Test, ...] = Field(default=("1", "4", "8", "random"), min_length=1)
    # commands before the final reveal
    commands: tuple[PositiveInt, ...] = Field(default=(4, 8, 16, 32, 64, 128), min_length=1)


def session_task(task: ReplLanguage, every: int | Literal["random"], commands: int) -> ReplLanguage:
    """Return sessions as those of a task, of so many commands, with reveals after every so many of them."""
    spacing, count = ("random", 4) if every == "random" else ("fixed", every)
    chosen = {"spacing": spacing, "reveal_every": count, "commands": commands, "predict": "values"}
    return ReplLanguage.from_fields({**task.form.to_fields(), **chosen})


def commands_before(task: ReplLanguage, tokens: IntArray, asked: NDArray[np.bool_]) -> IntArray:
    """Return the number of commands before the reveal of every value that is asked, else 0.

    The reveals of the sessions are of one value, and none comes before any command. All arrays are
    ``[sessions, length]``.
    """
    prompts = (tokens == task.tokenizer.numbers[PROMPT]).cumsum(axis=1)
    return np.where(asked, prompts - asked.cumsum(axis=1) - len(task.form.preamble), 0)


def final_reveals(before: IntArray, commands: int) -> NDArray[np.bool_]:
    """Return where the last value is revealed within the first so many commands, ``[batch, length]``.

    Example:
        >>> final_reveals(np.array([[0, 4, 0, 8, 12]]), 8).astype(int)
        array([[0, 0, 0, 1, 0]])
        >>> final_reveals(np.array([[0, 4, 0, 8, 12]]), 2).any()  # nothing is revealed so soon
        np.False_
    """
    within = np.where(before <= commands, before, 0)
    return (within > 0) & (within == within.max(axis=1, keepdims=True))


def reveals_by_spacing(run: Run, settings: SpacingSettings) -> dict[str, Any]:
    """Measure how often the value of the last reveal within n commands is right, by n, in every test.

    The first n commands of a longer session are distributed as a session of n commands up to its last
    reveal, so that one set of sessions tells of all n. Numbers of commands within which nothing is revealed
    are left out; of sessions with reveals at random those that have none so soon are.
    """
    check_type("task", run.task, ReplLanguage, "give a run on Python sessions, such as of repl-3-values")
    assert isinstance(run.task, ReplLanguage)
    if run.task.form.reveal == "full":
        raise InputError("reveal is 'full'; give a run on sessions with reveals of one value")
    tests, converged = {}, []
    for number, test in enumerate(settings.tests):
        task = session_task(run.task, "random" if test == "random" else int(test), max(settings.commands))
        right, shares = _right_by_commands(run, task, settings.commands, settings, number)
        converged += shares
        tests[test] = {
            str(commands): {
                "accuracy": float(each.mean()),
                "sessions": int(each.size),
                "interval": wilson_interval(float(each.mean()), each.size),
            }
            for commands, each in right.items()
            if each.size
        }
    return {
        "tests": tests,
        "share_converged": mean_share(converged),
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
        "trained_tokens": run.metrics[-1]["length"] if run.metrics else 0,
    }


def _right_by_commands(
    run: Run, task: ReplLanguage, numbers: Sequence[int], settings: AnswerSettings, *number: int
) -> tuple[dict[int, NDArray[np.bool_]], list[float | None]]:
    """Return whether the last value revealed within n commands is right, by n, in the sessions that have one.

    Also the shares of converged tokens; ``number`` is that of the texts.
    """
    right: dict[int, list[NDArray[np.bool_]]] = {commands: [] for commands in numbers}
    converged = []
    for found in answers(run, task, task.longest_session, settings, *number):
        converged.append(found.share_converged)
        before = commands_before(task, found.batch.tokens.numpy(), found.batch.counted.numpy())
        for commands, told in right.items():
            told.append(found.right.numpy()[final_reveals(before, commands)])
    return {commands: np.concatenate(told) for commands, told in right.items()}, converged


def session_tokens(task: str, commands: int) -> int:
    """Return the number of tokens of a session of so many commands.

    Example:
        >>> session_tokens("repl-3-values", 4), session_tokens("repl-3-values", 16)
        (61, 202)
    """
    sessions = registered_task(task)
    assert isinstance(sessions, ReplLanguage)
    return ReplLanguage.from_fields({**sessions.form.to_fields(), "commands": commands}).longest_session


def grown_on(task: str) -> dict[str, Any]:
    """Return a task of sessions and its lengths: 4 commands, or up to the first reveal, and as many more.

    Example:
        >>> grown_on("repl-3-values-8")
        {'task': 'repl-3-values-8', 'length': 181, 'start_length': 98, 'length_growth': 83}
    """
    sessions = registered_task(task)
    assert isinstance(sessions, ReplLanguage)
    first = max(4, sessions.form.reveal_every)
    start = session_tokens(task, first) + 1
    growth = session_tokens(task, 2 * first) + 1 - start
    length = session_tokens(task, TRAINED_COMMANDS) + 1
    return {"task": task, "length": length, "start_length": start, "length_growth": growth}
