"""An analysis's finding, told once. Terminal, report, caption, figure title and JSON are made from it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from rich.table import Table
from rich.text import Text

from analysis.framework.palette import RED
from automata.errors import printable

LONGEST_TITLE = 220
"""Letters that fit into two lines of a whole page: of a longer sentence the first parts are the title."""


@dataclass(frozen=True)
class Rows:
    r"""A table of cells in words, as many in a row as headings; the note says what the columns mean.

    Example:
        >>> Rows(["token", "share"], [["0", "50%"]]).markdown()
        '| token | share |\n| --- | --- |\n| 0 | 50% |'
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    note: str = ""

    def terminal(self) -> Table:
        """Return the table for a terminal: names to the left, numbers to the right."""
        table = Table(title=self.title or None, title_justify="left")
        first, *others = self.columns
        table.add_column(first, overflow="fold")
        for heading in others:
            table.add_column(heading, justify="right")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """Return the table as Markdown; bars inside of cells are escaped, and what would undo that."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        cells = ([printable(cell) for cell in line] for line in lines)
        escaped = ([cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in cells)
        return "\n".join(f"| {' | '.join(line)} |" for line in escaped)

    def html(self) -> str:
        """Return the table as HTML, with its title above and its note below."""
        lines = [[f"<th>{escape(cell)}</th>" for cell in self.columns]]
        lines += [[f"<td>{escape(cell)}</td>" for cell in row] for row in self.rows]
        body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in lines)
        caption = f"<caption>{escape(self.title)}</caption>" if self.title else ""
        return f"<table>{caption}{body}</table><p>{escape(self.note)}</p>"

    def paragraphs(self) -> list[str]:
        """Return title, table and note as Markdown, as far as they are there."""
        title = f"{self.title[:1].upper()}{self.title[1:]}:" if self.title else ""
        return [text for text in (title, self.markdown() if self.rows else "", self.note) if text]


@dataclass(frozen=True)
class Finding:
    """The finding about one run.

    Attributes:
        sentence: with its numbers, without a full stop.
        rows: tables of the same, in more detail.
        limits: what does not follow from it.
        warnings: what a reader must not miss, without full stops.
        holds: whether it is what is hoped for; else it is shown in red.
        verdict: a word or two, for a table of runs.

    Example:
        >>> found = Finding("the modes agree at 99% of tokens", holds=False)
        >>> found.color, found.json()["sentence"]
        ('#C00000', 'the modes agree at 99% of tokens')
    """

    sentence: str
    rows: Sequence[Rows] = ()
    limits: str = ""
    warnings: Sequence[str] = ()
    holds: bool = True
    verdict: str = ""

    @property
    def color(self) -> str:
        """The colour of a figure's title."""
        return "black" if self.holds else RED

    def json(self) -> dict[str, Any]:
        """Return the fields for JSON."""
        return {**vars(self), "rows": [vars(rows) for rows in self.rows]}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "Finding":
        """Return the finding that `json` wrote."""
        return cls(**{**content, "rows": [Rows(**rows) for rows in content["rows"]]})


Findings = Mapping[str, Finding]  # findings by the name of the run

MOST_LINES = 10


class Answer:
    """The answer of an analysis: shown as its findings, with their tables in a notebook.

    It has a `Finding` as ``finding`` with its ``run``, or ``runs`` that have these.
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__repr__ = Answer.__repr__  # type: ignore[method-assign]  # before a dataclass makes its own

    @property
    def findings(self) -> Findings:
        """The finding of every run, by its name."""
        answers: Sequence[Any] = getattr(self, "runs", (self,))
        return {answer.run.name: answer.finding for answer in answers}

    @property
    def sentence(self) -> str:
        """The findings of all runs, in one line."""
        return "; ".join(finding.sentence for finding in self.findings.values())

    def __repr__(self) -> str:
        lines = [
            printable(f"{name}: {sentence}.")
            for name, finding in self.findings.items()
            for sentence in (finding.sentence, *finding.warnings)
            if sentence
        ]
        return "\n".join(lines if len(lines) <= MOST_LINES else [*lines[: MOST_LINES - 1], "…"])

    def _repr_html_(self) -> str:
        found = self.findings
        limits = dict.fromkeys(f"Limits: {finding.limits}" for finding in found.values() if finding.limits)
        lines = [*repr(self).splitlines(), *limits]
        return "".join(
            [*(f"<p>{escape(line)}</p>" for line in lines), *(rows.html() for rows in merged_rows(found))]
        )


def merged_rows(findings: Findings) -> list[Rows]:
    """Return the tables of a run, or of several: those with the same headings as one with a column of names.

    Tables of two columns, a quantity and its value, become one with a column for each run.
    """
    if len(findings) == 1:
        return [rows for finding in findings.values() for rows in finding.rows]
    groups: dict[tuple[str, ...], dict[str, Rows]] = {}
    for name, finding in findings.items():
        for rows in finding.rows:
            groups.setdefault((rows.title, *rows.columns), {})[name] = rows
    return [_side_by_side(of) if len(columns) == 3 else _below(of) for columns, of in groups.items()]


def _below(tables: Mapping[str, Rows]) -> Rows:
    first = next(iter(tables.values()))
    rows = [[name, *row] for name, table in tables.items() for row in table.rows]
    return replace(first, columns=["run", *first.columns], rows=rows)


def _side_by_side(tables: Mapping[str, Rows]) -> Rows:
    first = next(iter(tables.values()))
    values = {name: {row[0]: row[1] for row in table.rows} for name, table in tables.items()}
    quantities = dict.fromkeys(quantity for cells in values.values() for quantity in cells)
    rows = [[quantity, *(cells.get(quantity, "–") for cells in values.values())] for quantity in quantities]
    return replace(first, columns=[first.columns[0], *values], rows=rows)


def for_terminal(findings: Findings) -> Iterator[Table | Text | str]:
    """Yield tables, what their columns mean, every sentence, the warnings in red, and the limits."""
    tables = merged_rows(findings)
    for rows in tables:
        yield rows.terminal()
    yield from dict.fromkeys(rows.note for rows in tables if rows.note)
    for name, finding in findings.items():
        if finding.sentence:
            yield Text(f"{name}: {finding.sentence}.", "" if finding.holds else "bold red")
        for warning in finding.warnings:
            yield Text(f"{name}: {warning}.", "bold red")
    yield from dict.fromkeys(finding.limits for finding in findings.values() if finding.limits)


def for_caption(shows: str, findings: Findings) -> str:
    """Return the text beside a figure: what it shows and, for one run, what was found; then the limits."""
    one = next(iter(findings.values())) if len(findings) == 1 else None
    found = f"Found: {one.sentence}." if one is not None and one.sentence else ""
    limits = dict.fromkeys(finding.limits for finding in findings.values() if finding.limits)
    parts = [" ".join(filter(None, [shows, found])), *(f"Limits: {text}" for text in limits)]
    return "\n\n".join(filter(None, parts))


def for_title(title: str, finding: Finding) -> dict[str, Any]:
    r"""Return title and colour of a figure of one run, as `new_panels` takes them."""
    sentence = finding.sentence
    if len(sentence) > LONGEST_TITLE:
        cut = max(sentence.rfind(end, 0, LONGEST_TITLE) for end in ("; ", ". "))
        sentence = sentence[:cut] if cut > 0 else f"{sentence[: LONGEST_TITLE - 1]}…"
    return {"title": f"{title}\n{sentence}", "color": finding.color}


def red(sentence: str) -> str:
    """Return a sentence, given without its full stop, in red, with a mark where a viewer drops colours."""
    return f'<span style="color:#c00000">🔴 **{sentence}.**</span>'


def for_report(finding: Finding) -> list[str]:
    """Return the paragraphs of a report's section: the sentence, in red unless it holds, and tables."""
    sentence = finding.sentence[:1].upper() + finding.sentence[1:]
    first = [f"{sentence}." if finding.holds else red(sentence)] if sentence else []
    return [*first, *(text for rows in finding.rows for text in rows.paragraphs())]
