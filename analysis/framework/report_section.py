"""How an analysis appears in the report: which settings it takes, and what is said of its numbers.

All functions but ``content`` take what stands in ``report.json``, so that ``report.md`` says nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.text import Text

from implicit.runs.loading import Run

Entry = Mapping[str, Any]
"""What ``report.json`` holds of one run."""


@dataclass(frozen=True, kw_only=True)
class ReportSection:
    """The part of an analysis in the report.

    Attributes:
        key: the entry of a run in ``report.json`` has this key if the analysis was made of it.
        content: from a run and the analysis's numbers to what the entry of the run gets.
        settings: the analysis's settings that follow one of the report's, by its name.
        priority: analyses that take longer have a higher one, and start first.
        columns: cells of the table "In short", by heading.
        overview: paragraphs below that table, from the whole report.
        warnings: sentences of a run that stand in red at the top, without their full stops.
        paragraphs: the section of a run, from its name and its entry.
        lines: what the terminal says of a run.
        limits: what is verified and what is not: items of a Markdown list.

    Example:
        >>> section = ReportSection(key="words", content=lambda run, found: {"words": found["count"]})
        >>> section.applies_to({"words": 8}), section.applies_to({"theorem1": {}})
        (True, False)
    """

    key: str
    content: Callable[[Run, Mapping[str, Any]], Mapping[str, Any]]
    settings: Mapping[str, str] = field(default_factory=lambda: {"seed": "seed"})
    priority: int = 0
    columns: Callable[[Entry], Mapping[str, str]] = lambda _entry: {}
    overview: Callable[[Mapping[str, Any]], Sequence[str]] = lambda _report: ()
    warnings: Callable[[str, Entry], Sequence[str]] = lambda _name, _entry: ()
    paragraphs: Callable[[str, Entry], Sequence[str]] = lambda _name, _entry: ()
    lines: Callable[[Entry], Sequence[Text | str]] = lambda _entry: ()
    limits: str = ""

    def applies_to(self, entry: Entry) -> bool:
        """Return whether the analysis was made of the run of an entry."""
        return self.key in entry
