"""All questions about trained models: the one table that commands are listed and reports are made from.

A new question is its own file or package with an `Analysis`, a row here, and its tests. The order is that of
the report's sections.
"""

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
from automata.errors import unknown_name

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

    Example:
        >>> question_named("jacobian").settings.__name__
        'JacobianSettings'
        >>> question_named("jacobain")
        Traceback (most recent call last):
        automata.errors.InputError: question 'jacobain' is unknown; did you mean 'jacobian'? Known: ...
    """
    by_name = {analysis.name: analysis for analysis in QUESTIONS}
    if name not in by_name:
        raise unknown_name("question", name, by_name)
    return by_name[name]


def reported_questions() -> list[Analysis[Any, Any]]:
    """Return those that have a section in the report, in its order.

    Example:
        >>> [analysis.name for analysis in reported_questions()]
        ['length_generalization', 'jacobian', 'agreement', 'convergence']
    """
    return [analysis for analysis in QUESTIONS if analysis.section is not None]


def section_of(analysis: Analysis[Any, Any]) -> ReportSection:
    """Return the section of an analysis that the report has.

    Example:
        >>> section_of(question_named("jacobian")).title
        'Theorem 1'
    """
    assert analysis.section is not None, f"{analysis.name} has no section in the report"
    return analysis.section
