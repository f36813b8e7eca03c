"""What commands show in a terminal: tables, numbers, and where the results are."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from implicit.command_line import CommandParser


def add_output_flag(parser: CommandParser, default: str) -> None:
    """Add ``--out``.

    Example:
        >>> parser = CommandParser("python -m analysis.report", "Report.")
        >>> add_output_flag(parser, "out/report")
        >>> parser.parse_args(["--out", "here"]).out
        'here'
    """
    parser.add_argument("--out", metavar="FOLDER", help=f"where the results go (default: {default})")


def add_runs_argument(parser: CommandParser, *, several: bool) -> None:
    """Add ``RUN`` or, where a command takes several, ``RUN…``; either way the parsed ``runs`` is a list.

    Example:
        >>> parser = CommandParser("python -m analysis.report", "Report.")
        >>> add_runs_argument(parser, several=True)
        >>> parser.parse_args(["runs/a", "runs/b"]).runs
        ['runs/a', 'runs/b']
    """
    if several:
        parser.add_argument("runs", metavar="RUN", nargs="+", help="run folders, or names of stored runs")
    else:
        parser.add_argument(
            "runs", metavar="RUN", type=lambda run: [run], help="run folder, or the name of a stored run"
        )


def print_tables(tables: Iterable[Table | str], written: Sequence[Path], *, with_figure: bool) -> None:
    """Print tables and lines of rich markup, then where the results are.

    Args:
        tables: and lines.
        written: the files of numbers.
        with_figure: whether each has a figure beside it.

    Example:
        >>> print_tables(["one line"], [Path("out/one.json")], with_figure=True)
        one line
        Written: out/one.json, with its figure as .png and .pdf beside it
    """
    console = Console()
    for table in tables:
        console.print(table)
    beside = ", with its figure as .png and .pdf beside it" if with_figure else ""
    for path in written:
        console.print(f"Written: {path}{beside}", soft_wrap=True, highlight=False)


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for a table, or a dash where there is none.

    Example:
        >>> number(0.123456), number(1.5e-12), number(None)
        ('0.123', '1.5e-12', '–')
    """
    if value is None or value != value:
        return "–"
    return f"{value:.{digits}g}"
