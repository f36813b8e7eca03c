"""Python sessions for every family: grids of training runs, and the accuracy of their final reveal."""

from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from analysis.length_generalization import wilson_interval
from automata.checks import check_type
from automata.errors import InputError
from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Grid, Measurement
from paper_figures.figures.answers import AnswerSettings, answers, mean_share

TRAINED_COMMANDS = 16
"""Commands in a training sequence."""


class RevealSettings(AnswerSettings):
    """What is measured.

    Example:
        >>> RevealSettings().commands
        (4, 8, 16, 32, 64, 128)
    """

    commands: tuple[PositiveInt, ...] = Field(
        default=(4, 8, 16, 32, 64, 128), min_length=1, description="commands before the final reveal"
    )


def measure(run: Run, settings: RevealSettings) -> dict[str, Any]:
    """Measure how often the value of the final reveal is right, by the number of commands before it.

    The sessions have a reveal after every k-th command, k as in training. The first n commands of a longer
    session are then distributed as a session of n commands, so that one set of sessions tells of all n.

    Numbers of commands that k does not divide have no reveal and are left out.

    Raises:
        InputError: the task has no sessions with reveals of one value, or k divides no number of commands.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("repl-3-values", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = measure(run, RevealSettings(commands=(4, 8), sequences=16))
        >>> sorted(found), sorted(found["accuracy"])
        (['accuracy', 'interval', 'share_converged', 'updates'], [4, 8])
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
    task = ReplLanguage.from_fields(
        {
            **run.task.form.to_fields(),
            "spacing": "fixed",
            "commands": max(known),
            "predict": "values",
        }
    )
    right, converged = [], []
    for found in answers(run, task, task.longest_session, settings):
        right.append(found.right[found.batch.counted].reshape(len(found.right), -1).numpy())
        converged.append(found.share_converged)
    shares = np.concatenate(right).mean(axis=0)
    accuracy = {commands: float(shares[commands // every - 1]) for commands in known}
    return {
        "accuracy": accuracy,
        "interval": {
            commands: wilson_interval(share, settings.sequences) for commands, share in accuracy.items()
        },
        "share_converged": mean_share(converged),
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
    }


SETTINGS = RevealSettings()
FINAL_REVEAL = Measurement("final_reveal", measure, SETTINGS)


SEEDS = range(3)
REFLECTING = {"negative_eigenvalues": True}
"""Of the delta rules: eigenvalues in [-1, 1], so that a step can reflect, as a swap does."""
NOT_REFLECTING = {"negative_eigenvalues": False}

COMMON: dict[str, Any] = {
    "d_model": 64,
    "learning_rate": 3e-3,
    "gradient_clip": 1.0,
    "carried_share": 0.0,
    "bounded_steps": 0,
    "bounded_length": 40,
    "bounded_iterations": 8,
    "free_max_iterations": 60,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "contraction_weight": 0.003,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
    "evaluation_sequences": 32,
    "evaluate_every": 100,
}
"""What all runs have in common; explicit models ignore what speaks of fixed points."""
GROWING: dict[str, Any] = {
    **COMMON,
    "growth_accuracy": 0.95,
    "steps": 1200,
    "final_steps": 700,
    "batch_size": 32,
}
"""Sequences grow with the accuracy; `grown_on` gives their lengths."""
IMPLICIT: dict[str, Any] = {"learning_rate": 2e-3, "gradient_clip": 0.25}
"""Implicit Mamba-2 is trained at a lower rate: at that of the others it diverged in a trial."""
CLIPPING = (
    f"with gradients clipped at a norm of {COMMON['gradient_clip']:g} (implicit models: "
    f"{IMPLICIT['gradient_clip']:g})"
)


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


REFLECTING_DELTANET: dict[str, Any] = {"model": "deltanet", "layers": 2, **REFLECTING}
NOT_REFLECTING_DELTANET: dict[str, Any] = {"model": "deltanet", "layers": 2, **NOT_REFLECTING}
REFLECTING_GATED_DELTANET: dict[str, Any] = {"model": "gated-deltanet", "layers": 2, **REFLECTING}
NOT_REFLECTING_GATED_DELTANET: dict[str, Any] = {"model": "gated-deltanet", "layers": 2, **NOT_REFLECTING}
TRANSFORMER: dict[str, Any] = {"model": "transformer", "layers": 2}
LSTM: dict[str, Any] = {"model": "lstm", "layers": 1, "d_model": 128}
IMPLICIT_MAMBA2: dict[str, Any] = {"model": "implicit-mamba2", "layers": 1, **IMPLICIT}


def seeds_of(*models: dict[str, Any], **settings: Any) -> tuple[Grid, ...]:
    """Return a grid of three seeds for each model, in these settings.

    Example:
        >>> [len(grid.points) for grid in seeds_of(LSTM, TRANSFORMER, **COMMON, task="repl-3-values")]
        [3, 3]
    """
    return tuple(Grid({"seed": SEEDS}, {**settings, **model}) for model in models)


MAIN_GRIDS = seeds_of(
    REFLECTING_DELTANET,
    NOT_REFLECTING_DELTANET,
    TRANSFORMER,
    LSTM,
    IMPLICIT_MAMBA2,
    {"model": "mamba2", "layers": 2},
    REFLECTING_GATED_DELTANET,
    {**NOT_REFLECTING_DELTANET, "learning_rate": 1e-3},
    {**TRANSFORMER, "learning_rate": 1e-3},
    **GROWING,
    **grown_on("repl-3-values"),
)
"""Three variables, a reveal after every fourth command, loss of the revealed values."""
FIVE_GRIDS = seeds_of(
    REFLECTING_DELTANET,
    NOT_REFLECTING_DELTANET,
    TRANSFORMER,
    REFLECTING_GATED_DELTANET,
    NOT_REFLECTING_GATED_DELTANET,
    **GROWING,
    **grown_on("repl-5-values"),
)
"""Five variables, likewise, with the models of Olmo Hybrid's table: gated DeltaNet in both ranges."""
