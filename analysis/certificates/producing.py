"""What every producer of certificates writes at the head of a document."""

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel

from analysis.certificates.answers import Automaton
from analysis.certificates.parts import ARITHMETIC, PRODUCER_PRECISION, Arithmetic, Unchecked
from analysis.framework.needs import word_problem_of
from analysis.framework.output import RunIdentity, json_ready
from implicit.runs.environment import describe_environment
from implicit.runs.loading import Run


def document_head(run: Run, seconds: float, search: BaseModel | None = None) -> dict[str, Any]:
    """Return the fields of a document that say what it is about and who made it; its seal is still empty.

    Args:
        run: that something is proved of.
        seconds: that the proof took.
        search: with which settings it was looked for, if what is proved does not depend on them.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> list(document_head(load_run("parity-small"), 1.0))[:3]
        ['run', 'config', 'arithmetic']
    """
    return {
        "run": identity_of(run),
        "config": json_ready(run.config.as_json()),
        "arithmetic": Arithmetic(producer=ARITHMETIC, precision=PRODUCER_PRECISION),
        "unchecked": Unchecked(
            search={} if search is None else search.model_dump(mode="json"),
            environment=json_ready(describe_environment()),
            seconds=seconds,
        ),
        "sha256": "",
    }


def identity_of(run: Run) -> dict[str, str | int | bool]:
    """Return what a certificate says of its run, and a checker verifies: all but the name of its folder.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> identity_of(load_run("parity-small"))["model"]
        'implicit-mamba2'
    """
    return {name: value for name, value in asdict(RunIdentity.of(run)).items() if name != "name"}


def automaton_of(run: Run) -> Automaton:
    """Return the task of a run as certificates hold it.

    Raises:
        InputError: if it is no word problem.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> automaton_of(load_run("parity-small")).table
        [[0, 1], [1, 0]]
    """
    task = word_problem_of(run)
    return Automaton(initial_state=task.initial_state, table=task.table.tolist())
