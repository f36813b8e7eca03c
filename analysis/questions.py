"""All questions about trained models, which reports are made from, in the order of the report's sections.

A new question is its own file or package with an `Analysis`, a row of `analysis.__main__.LISTED`, and its
tests; docs/architecture.md lists what else names it.
"""

import os
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import Any

from torch import nn

from analysis import certify
from analysis.__main__ import LISTED, OLD_NAMES
from analysis.framework.analysis import Analysis, ReportSection
from analysis.framework.settings import settings_from
from automata.checks import check_type
from automata.errors import InputError, unknown_name
from automata.tasks.specification import TaskSource
from implicit.models.interface import SequenceModel
from implicit.runs.loading import Run, load_run
from theory.theorem1.check import layer_remedy

QUESTIONS: tuple[Analysis[Any, Any], ...] = tuple(
    import_module(f"analysis.{name}").ANALYSIS
    for name in (*dict.fromkeys(row.split()[0] for row in LISTED), *OLD_NAMES)
)


def question_named(name: str | Analysis[Any, Any]) -> Analysis[Any, Any]:
    """Return the analysis of a name; one of a user's own, which has no name here, is returned as it is.

    InputError for an unknown name, with the nearest known one.
    """
    if isinstance(name, Analysis):
        return name
    by_name = {analysis.name: analysis for analysis in QUESTIONS}
    if name not in by_name:
        raise unknown_name("question", name, by_name.keys() - {*OLD_NAMES})
    return by_name[name]


def reported_questions() -> list[Analysis[Any, Any]]:
    """Return those that have a section in the report, in its order."""
    return [analysis for analysis in QUESTIONS if analysis.section is not None]


def section_of(analysis: Analysis[Any, Any]) -> ReportSection:
    """Return the section of an analysis that the report has."""
    assert analysis.section is not None, f"{analysis.name} has no section in the report"
    return analysis.section


def ask(
    question: str | Analysis[Any, Any],
    *runs: Run | SequenceModel | str | os.PathLike[str],
    task: TaskSource | None = None,
    out: str | os.PathLike[str] | None = None,
    **settings: Any,
) -> Any:
    """Answer a question about runs or models and write its numbers and figures, as its command does.

    InputError for an unknown question or setting, runs that cannot be analysed, several runs where the
    question takes one, or a folder that cannot be written.

    Args:
        question: its name, such as ``"jacobian"``; ``python -m analysis`` lists them all. Or an analysis of
            your own.
        runs: loaded runs, run folders, names of stored runs, or models in memory.
        task: what the models in memory were trained on: a name, a specification, or the object itself. For a
            name or a training length of their own, give ``Run.of(model, task, name=..., length=...)``.
        out: folder of the results; where the command puts them if None. About models in memory nothing is
            written then.
        settings: of the question, by name: the flags of its command, such as ``claim`` of certify.

    Returns:
        The answer. A list of answers if each of several runs is asked by itself (`extraction`, `modes`).

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     answer = ask("extraction", "parity", out=folder, sequences=8, length=8, fresh_words=4)
        ...     sorted(path.name for path in Path(folder).iterdir())
        ['extraction.caption.txt', 'extraction.json', 'extraction.pdf', 'extraction.png']
        >>> answer.verdict
        'equivalent'

        About a model in memory:

        >>> from implicit import LSTM
        >>> model = LSTM(LSTM.config_class(vocabulary_size=2, output_size=2, d_model=4))
        >>> ask("jacobian", model, task="parity", states=4, length=8).report.headline
        'non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)'
    """
    analysis = question_named(question)
    if analysis is certify.ANALYSIS and "claim" in settings:
        analysis = certify.command_of(settings.pop("claim"))
    if not runs:
        raise InputError(f"runs is empty; give a run to ask {analysis.name} of")
    if len(runs) > 1 and not analysis.takes_several:
        raise InputError(f"runs has {len(runs)} entries; {analysis.name} is asked of one run at a time")
    check_type("out", out, (str, os.PathLike, NoneType), "give the path of a folder")
    chosen = settings_from(analysis.settings, settings)
    loaded = [_as_run(run, task) for run in runs]
    with TemporaryDirectory() as nowhere:
        in_memory = any(run.in_memory for run in loaded)
        folder = Path(nowhere) if out is None and in_memory else None if out is None else Path(out)
        answers, _ = analysis.ask(loaded, chosen, folder)
    return answers[0] if len(answers) == 1 else answers


def _as_run(run: Any, task: TaskSource | None) -> Run:
    if isinstance(run, Run):
        return run
    if not isinstance(run, nn.Module):
        return load_run(run)
    if not isinstance(run, SequenceModel) and (remedy := layer_remedy(run)):
        wrapped = "the network around it as implicit.wrap(module, step, state, vocabulary_size=...)"
        check_type("model", run, SequenceModel, f"{remedy}give {wrapped}")
    if task is None:
        raise InputError("task is missing; say what the model was trained on, as in task='parity'")
    return Run.of(run, task)  # type: ignore[arg-type]
