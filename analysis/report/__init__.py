"""All analyses of one run or several, in one report: ``python -m analysis.report RUN``."""

from analysis.report.command import main
from analysis.report.document import collect, markdown, print_report, write_report
from analysis.report.tasks import (
    ReportSettings,
    Task,
    comparison_tasks,
    finish_tasks,
    perform_quietly,
    tasks_of,
    two_processes,
)

__all__ = [
    "ReportSettings",
    "Task",
    "collect",
    "comparison_tasks",
    "finish_tasks",
    "main",
    "markdown",
    "perform_quietly",
    "print_report",
    "tasks_of",
    "two_processes",
    "write_report",
]
