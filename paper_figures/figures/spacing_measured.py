"""Is a revealed value right, by how often values are revealed? One run, tested at every spacing."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from analysis.length_generalization import wilson_interval
from automata.checks import check_type
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.repl.commands import PROMPT
from automata.tasks.repl_language import ReplLanguage
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Measurement
from paper_figures.figures.answers import AnswerSettings, answers, mean_share

Test = Literal["1", "4", "8", "random"]
"""How often values are revealed in the test: after every k-th command, or after one in four at random."""


class SpacingSettings(AnswerSettings):
    """What is measured.

    Example:
        >>> SpacingSettings().tests
        ('1', '4', '8', 'random')
    """

    tests: tuple[Test, ...] = Field(
        default=("1", "4", "8", "random"), min_length=1, description="how often values are revealed"
    )
    commands: tuple[PositiveInt, ...] = Field(
        default=(4, 8, 16, 32, 64, 128), min_length=1, description="commands before the final reveal"
    )


def session_task(task: ReplLanguage, test: Test, commands: int) -> ReplLanguage:
    """Return sessions as those of a task, of so many commands, with reveals as often as the test says.

    Example:
        >>> session_task(ReplLanguage(3), "8", 16)
        <ReplLanguage repl: 3 variables, 15 tokens>
        >>> session_task(ReplLanguage(3), "8", 16).form.reveal_every
        8
    """
    when = (
        {"spacing": "random", "reveal_every": 4}
        if test == "random"
        else {"spacing": "fixed", "reveal_every": int(test)}
    )
    fields = {**task.form.to_fields(), **when, "commands": commands, "predict": "values"}
    return ReplLanguage.from_fields(fields)


def commands_before(task: ReplLanguage, tokens: IntArray, asked: NDArray[np.bool_]) -> IntArray:
    """Return the number of commands before the reveal of every value that is asked, else 0.

    Args:
        task: the sessions, with reveals of one value, of which none comes before any command.
        tokens: ``[sessions, length]``.
        asked: where the value of a reveal is asked, ``[sessions, length]``.

    Returns:
        int64, ``[sessions, length]``.

    Example:
        >>> task = ReplLanguage(3, commands=8, predict="values")
        >>> batch = task.batch(1, task.longest_session, np.random.default_rng(0))
        >>> commands_before(task, batch.tokens, batch.counted)[batch.counted].tolist()
        [4, 8]
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


def measure(run: Run, settings: SpacingSettings) -> dict[str, Any]:
    """Measure how often the value of the last reveal within n commands is right, by n, in every test.

    The first n commands of a longer session are distributed as a session of n commands up to its last
    reveal, so that one set of sessions tells of all n. Numbers of commands within which nothing is revealed
    are left out; of sessions with reveals at random those that have none so soon are.

    Raises:
        InputError: the task has no sessions with reveals of one value.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("repl-3-values-random", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = measure(run, SpacingSettings(tests=("8",), commands=(4, 8), sequences=16))
        >>> list(found["tests"]["8"]), found["tests"]["8"]["8"]["sessions"]
        (['8'], 16)
    """
    check_type("task", run.task, ReplLanguage, "give a run on Python sessions, such as of repl-3-values")
    assert isinstance(run.task, ReplLanguage)
    if run.task.form.reveal == "full":
        raise InputError("reveal is 'full'; give a run on sessions with reveals of one value")
    converged: list[float | None] = []
    tests = {test: _in_test(run, run.task, settings, test, converged) for test in settings.tests}
    return {
        "tests": tests,
        "share_converged": mean_share(converged),
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
        "trained_tokens": run.metrics[-1]["length"] if run.metrics else 0,
    }


def _in_test(
    run: Run, trained: ReplLanguage, settings: SpacingSettings, test: Test, converged: list[float | None]
) -> dict[str, dict[str, Any]]:
    task = session_task(trained, test, max(settings.commands))
    right: dict[int, list[NDArray[np.bool_]]] = {commands: [] for commands in settings.commands}
    for found in answers(run, task, task.longest_session, settings, settings.tests.index(test)):
        converged.append(found.share_converged)
        before = commands_before(task, found.batch.tokens.numpy(), found.batch.counted.numpy())
        for commands, told in right.items():
            told.append(found.right.numpy()[final_reveals(before, commands)])
    measured = {}
    for commands, told in right.items():
        each = np.concatenate(told)
        if each.size:
            share = float(each.mean())
            measured[str(commands)] = {
                "accuracy": share,
                "sessions": int(each.size),
                "interval": wilson_interval(share, each.size),
            }
    return measured


SETTINGS = SpacingSettings()
REVEALS = Measurement("reveals_by_spacing", measure, SETTINGS)
