"""List the questions, ``python -m analysis``, or ask one: ``python -m analysis jacobian RUN``."""

import sys
from collections.abc import Sequence
from importlib import import_module

from rich.table import Table

from analysis.certify import PROOFS, Proving
from analysis.framework.terminal import Terminal
from analysis.questions import QUESTIONS
from automata.errors import unknown_name
from implicit.command_line import CommandParser, run_command

OTHERS = {
    "check_certificate": ("CERTIFICATE RUN", "Does a certificate hold? Verified by other means."),
    "report": ("RUN…", "All that the report has a section for, for one run or several."),
    "demo": ("", "Trains three models on parity and reports."),
}
"""Commands that are not one question about runs."""


def _command(argv: Sequence[str] | None) -> int | None:
    given = list(sys.argv[1:] if argv is None else argv)
    if given and not given[0].startswith("-"):
        names = [*(analysis.name for analysis in QUESTIONS), *OTHERS]
        if given[0] not in names:
            raise unknown_name("question", given[0], names)
        code: int = import_module(f"analysis.{given[0]}").main(given[1:])
        return code
    CommandParser("python -m analysis", "List the questions that can be asked of trained models.").parse_args(
        given
    )
    table = Table(box=None, pad_edge=False)
    table.add_column("python -m analysis.…", no_wrap=True)
    table.add_column("question")
    for analysis in QUESTIONS:
        if isinstance(analysis, Proving):  # a row for each claim, none for the old names
            for claim in PROOFS if analysis.claim else ():
                table.add_row(f"{analysis.name} RUN --claim {claim}", PROOFS[claim][0].question)
            continue
        runs = "RUN…" if analysis.takes_several else "RUN"
        table.add_row(f"{analysis.name} {runs}", analysis.question)
    for name, (arguments, question) in OTHERS.items():
        table.add_row(f"{name} {arguments}".rstrip(), question)
    console = Terminal()
    console.print(table, highlight=False)
    console.print("RUN: a run folder or the name of a stored run. --help after a command shows its settings.")
    return None


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)


if __name__ == "__main__":
    sys.exit(main())
