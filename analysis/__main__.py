"""List the commands with the questions that they answer: ``python -m analysis``."""

import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from analysis.questions import QUESTIONS
from implicit.command_line import CommandParser, run_command

OTHERS = {
    "check_certificate": ("CERTIFICATE RUN", "Does a certificate hold? Verified by other means."),
    "report": ("RUN…", "All that the report has a section for, for one run or several."),
    "demo": ("", "Trains three models on parity and reports."),
}
"""Commands that are not one question about runs."""


def _command(argv: Sequence[str] | None) -> None:
    CommandParser("python -m analysis", "List the questions that can be asked of trained models.").parse_args(
        argv
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("python -m analysis.…", no_wrap=True)
    table.add_column("question")
    for analysis in QUESTIONS:
        runs = "RUN…" if analysis.takes_several else "RUN"
        table.add_row(f"{analysis.name} {runs}", analysis.question)
    for name, (arguments, question) in OTHERS.items():
        table.add_row(f"{name} {arguments}".rstrip(), question)
    console = Console()
    console.print(table, highlight=False)
    console.print("RUN: a run folder or the name of a stored run. --help after a command shows its settings.")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)


if __name__ == "__main__":
    sys.exit(main())
