"""Ask a question of trained runs from Python: what a command does, with the answer returned."""

import os
from pathlib import Path
from typing import Any

from analysis.framework.settings import settings_from
from analysis.questions import question_named
from automata.errors import InputError
from implicit.runs.loading import Run, load_run


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
