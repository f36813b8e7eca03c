"""All questions about trained models: the one table that commands are listed and reports are made from.

A new question is its own file or package with an `Analysis`, a row here, and its tests; docs/architecture.md
lists what else names it. The order is that of the report's sections.
"""

import os
from pathlib import Path
from typing import Any

from analysis import (
    agreement,
    all_lengths,
    all_words,
    belief,
    certify,
    convergence,
    error_control,
    executed,
    extraction,
    front_speed,
    jacobian,
    length_generalization,
    mechanism,
    modes,
)
from analysis.framework.analysis import Analysis, ReportSection
from analysis.framework.settings import settings_from
from automata.errors import InputError, unknown_name
from implicit.runs.loading import Run, load_run

QUESTIONS: tuple[Analysis[Any, Any], ...] = (
    length_generalization.ANALYSIS,
    jacobian.ANALYSIS,
    agreement.ANALYSIS,
    convergence.ANALYSIS,
    modes.ANALYSIS,
    front_speed.ANALYSIS,
    extraction.ANALYSIS,
    error_control.ANALYSIS,
    belief.ANALYSIS,
    mechanism.ANALYSIS,
    certify.ANALYSIS,
    all_words.ANALYSIS,
    all_lengths.ANALYSIS,
    executed.ANALYSIS,
)


def question_named(name: str) -> Analysis[Any, Any]:
    """Return the analysis of a name.

    Raises:
        InputError: for an unknown name, with the nearest known one.
    """
    by_name = {analysis.name: analysis for analysis in QUESTIONS}
    if name not in by_name:
        raise unknown_name("question", name, by_name)
    return by_name[name]


def reported_questions() -> list[Analysis[Any, Any]]:
    """Return those that have a section in the report, in its order."""
    return [analysis for analysis in QUESTIONS if analysis.section is not None]


def section_of(analysis: Analysis[Any, Any]) -> ReportSection:
    """Return the section of an analysis that the report has."""
    assert analysis.section is not None, f"{analysis.name} has no section in the report"
    return analysis.section


def ask(
    question: str,
    *runs: Run | str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Any:
    """Answer a question about runs and write its numbers and figures, as its command does.

    Args:
        question: its name, such as ``"jacobian"``; ``python -m analysis`` lists them all.
        runs: loaded runs, run folders or names of stored runs.
        out: folder of the results; where the command puts them if None.
        settings: of the question, by name: the flags of its command.

    Returns:
        The answer. A list of answers if each of several runs is asked by itself (`extraction`, `modes`).

    Raises:
        InputError: for an unknown question or setting, runs that cannot be analysed, several runs where the
            question takes one, or a folder that cannot be written.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     answer = ask("extraction", "parity", out=folder, sequences=8, length=8, fresh_words=4)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['extraction.caption.txt', 'extraction.json', 'extraction.pdf', 'extraction.png']
        >>> answer.verdict
        'equivalent'
    """
    analysis = question_named(question)
    if not runs:
        raise InputError(f"runs is empty; give a run to ask {question} of")
    if len(runs) > 1 and not analysis.takes_several:
        raise InputError(f"runs has {len(runs)} entries; {question} is asked of one run at a time")
    chosen = settings_from(analysis.settings, settings)
    loaded = [run if isinstance(run, Run) else load_run(run) for run in runs]
    answers, _ = analysis.ask(loaded, chosen, None if out is None else Path(out))
    return answers[0] if len(answers) == 1 else answers
