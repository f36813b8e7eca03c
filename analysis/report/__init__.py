"""All analyses of one run or several, in one report: ``python -m analysis.report RUN``."""

from analysis.report.collection import (
    ReportSettings,
    Task,
    accuracy_task,
    collect,
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
    "accuracy_task",
    "collect",
    "finish_tasks",
    "main",
    "perform_quietly",
    "print_report",
    "tasks_of",
    "two_processes",
    "write_report",
]
