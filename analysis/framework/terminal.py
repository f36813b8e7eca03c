"""The output of commands in a terminal: tables, numbers, and where the results are."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from analysis.framework.figures import COLUMN_WIDTH, TEXT_WIDTH
from automata.errors import printable_lines
from implicit.command_line import CommandParser, add_allow_code_flag


def add_output_flag(parser: CommandParser, default: str) -> None:
    """Add ``--out``."""
    parser.add_argument("--out", metavar="FOLDER", help=f"where the results go (default: {default})")


def add_width_flag(parser: CommandParser) -> None:
    """Add ``--width``; `analysis.framework.figures.checked_width` reads it."""
    parser.add_argument(
        "--width",
        metavar="INCHES",
        default=str(TEXT_WIDTH),
        help=f"of figures: {COLUMN_WIDTH} for a column of a page with two, {TEXT_WIDTH} for a whole page "
        "(default: %(default)s)",
    )


def add_runs_argument(parser: CommandParser, *, several: bool) -> None:
    """Add ``RUN`` or, where a command takes several, ``RUN…``, and ``--allow-code``; ``runs`` is a list."""
    given = "run folders, or names of stored runs" if several else "run folder, or the name of a stored run"
    parser.add_argument("runs", metavar="RUN", nargs="+" if several else 1, help=given)
    add_allow_code_flag(parser)


class Terminal(Console):
    r"""A console that shows names as they are: no markup in texts, and no control characters."""

    def __init__(self) -> None:
        super().__init__(markup=False, emoji=False)
        if not (self.is_terminal or self.is_jupyter or "COLUMNS" in os.environ):
            self.width = 10_000  # of a file or a pipe, which cut nothing

    def render(self, *arguments: Any, **options: Any) -> Iterator[Segment]:
        """Escape what is not printable in all that is rendered, cells of tables as well."""
        for segment in super().render(*arguments, **options):
            yield segment if segment.control else segment._replace(text=printable_lines(segment.text))


def print_tables(tables: Iterable[Table | Text | str], written: Iterable[Path]) -> None:
    """Print tables and lines, then where the results are."""
    console = Terminal()
    for table in tables:
        console.print(table)
    for path in written:
        drawn = path.with_suffix(".png").is_file()
        beside = ", with its figure as .png and .pdf and its caption beside it" if drawn else ""
        console.print(f"Written: {path}{beside}", soft_wrap=True, highlight=False)


def percent(value: float, digits: int = 1) -> str:
    """Return a share in percent, or a dash where nothing could be measured. Only all is 100%, only none 0%.

    Example:
        >>> percent(0.1234), percent(0.99999), percent(0.00002), percent(float("nan"))
        ('12.3%', '99.9%', '0.002%', '–')
    """
    if value != value:
        return "–"
    shown = f"{value:.{digits}%}"
    if value > 0 and float(shown[:-1]) == 0:
        return f"{100 * value:.1g}%"
    return f"{100 - 10.0**-digits:.{digits}f}%" if value < 1 and shown.startswith("100") else shown


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table, or a dash where there is none.

    Example:
        >>> number(0.123456), number(1.5e-12), number(None)
        ('0.123', '1.5e-12', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:.{digits}g}"
