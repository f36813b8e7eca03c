"""What every producer of certificates writes at the head of a document."""

from dataclasses import asdict
from typing import Any

import numpy as np
from pydantic import BaseModel

from analysis.certificates.answers import Automaton
from analysis.certificates.parts import ARITHMETIC, PRODUCER_PRECISION, Arithmetic
from analysis.framework.needs import word_problem_of
from analysis.framework.output import RunIdentity, json_ready
from implicit.runs.environment import describe_environment
from implicit.runs.loading import Run


def document_head(run: Run, settings: BaseModel, seconds: float) -> dict[str, Any]:
    """Return the fields of a document that say what it is about and who made it; its seal is still empty.

    Args:
        run: that something is proved of.
        settings: of the proof.
        seconds: that it took.

    Example:
        >>> from analysis.framework.settings import SampleSettings
        >>> from implicit.runs.loading import load_run
        >>> list(document_head(load_run("parity-small"), SampleSettings(), 1.0))[:3]
        ['run', 'config', 'settings']
    """
    return {
        "run": asdict(RunIdentity.of(run)),
        "config": json_ready(run.config.as_json()),
        "settings": settings.model_dump(),
        "arithmetic": Arithmetic(producer=ARITHMETIC, precision=PRODUCER_PRECISION),
        "environment": json_ready({**describe_environment(), "numpy": np.__version__}),
        "seconds": seconds,
        "sha256": "",
    }


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
