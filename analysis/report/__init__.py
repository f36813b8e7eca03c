"""All analyses of one run or several, in one report: ``python -m analysis.report RUN``."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

from analysis.framework.output import (
    check_writable,
    refuse_other_runs,
    require_different_names,
    written_together,
)
from analysis.framework.terminal import Terminal, add_output_flag, add_runs_argument
from analysis.report.document import collect, markdown, print_report, write_report
from analysis.report.tasks import ReportSettings, comparison_tasks, perform_all, tasks_of, two_processes
from automata.errors import printable
from implicit.checked_config import validated
from implicit.command_line import CommandParser, add_config_flags, given_fields, run_command
from implicit.runs.loading import load_run

__all__ = ["ReportSettings", "collect", "comparison_tasks", "main", "markdown", "print_report", "tasks_of"]


def _command(argv: Sequence[str] | None) -> None:
    parser = CommandParser("python -m analysis.report", "Analyse runs and write one report of them all.")
    add_runs_argument(parser, several=True)
    add_output_flag(parser, "out/report")
    add_config_flags(parser, ReportSettings, title="settings")
    arguments = parser.parse_args(argv)
    settings = validated(ReportSettings, given_fields(arguments, ReportSettings))
    folder = Path(arguments.out if arguments.out is not None else "out/report")
    runs = [load_run(run, allow_code=arguments.allow_code) for run in arguments.runs]
    require_different_names(runs)
    check_writable(folder)
    refuse_other_runs(folder / "report.json", runs)
    console, began = Terminal(), time.monotonic()
    words = argv if argv is not None else sys.argv[1:]
    command = printable(" ".join(["python -m analysis.report", *words]))
    with written_together(folder) as fresh:
        tasks = [task for run in runs for task in tasks_of(run, fresh, settings)]
        tasks += comparison_tasks(runs, fresh, settings)
        with two_processes() as pool:
            parts = perform_all(pool, tasks, console)
        report = collect(runs, fresh, settings, time.monotonic() - began, parts, command)
        write_report(report, fresh)
    print_report(report, folder, console)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    return run_command(_command, argv)
