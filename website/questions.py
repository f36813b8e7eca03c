"""The page that says which analysis answers which question, made from `analysis.questions`."""

from typing import Any

from analysis.__main__ import OTHERS
from analysis.framework.analysis import Analysis
from analysis.questions import QUESTIONS
from website.commands import anchor
from website.names import fields_table

HEAD = """\
# Which analysis answers which question

Each question is a command, `python -m analysis.NAME RUN`, and a function, `analysis.ask("NAME", run)`, which
returns the answer. Both write numbers as JSON and, where there is something to draw, a figure.
`python -m analysis` lists them.

| question | analysis | asked of | shows |
|---|---|---|---|
"""


def questions_page() -> str:
    """Return the page."""
    rows = [_row(question) for question in QUESTIONS]
    rows += [
        f"| {sentence} | {_link(name)} | {f'`{arguments}`' if arguments else 'nothing'} | |"
        for name, (arguments, sentence) in OTHERS.items()
    ]
    return HEAD + "\n".join(rows) + "\n\n## Their settings\n\n" + "\n".join(map(_settings, QUESTIONS))


def _link(name: str) -> str:
    return f"[`{name}`](commands.md#{anchor(f'analysis.{name}')})"


def _row(question: Analysis[Any, Any]) -> str:
    whom = question.needs.remedy.removeprefix("give ") or "any run"
    several = "; several at once" if question.takes_several else ""
    shows = ["figure"] * (question.draw is not None) + ["section of the report"] * bool(question.section)
    return f"| {question.question} | {_link(question.name)} | {whom}{several} | {', '.join(shows)} |"


def _settings(question: Analysis[Any, Any]) -> str:
    """The settings of a question, which are keyword arguments in Python and flags of the command."""
    table = fields_table("setting", question.settings.model_fields)
    return f"### {question.name}\n\n{question.description}\n\n{table}\n"
