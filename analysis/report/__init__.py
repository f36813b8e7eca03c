"""All analyses of one run or several, in one report: ``python -m analysis.report RUN``."""

from analysis.report.collection import (
    ReportSettings,
    Task,
    collect,
    comparison_tasks,
    finish_tasks,
    main,
    perform_quietly,
    print_report,
    tasks_of,
    two_processes,
    write_report,
)

__all__ = [
    "ReportSettings",
    "Task",
    "collect",
    "comparison_tasks",
    "finish_tasks",
    "main",
    "perform_quietly",
    "print_report",
    "tasks_of",
    "two_processes",
    "write_report",
]
