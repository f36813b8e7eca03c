"""Language models under `lm-eval`: benchmarks from local files, and state tracking in plain text."""

from implicit.language.harness.catalogue import (
    HARNESS_TASKS,
    TASK_FILES,
    TRACKING_TASKS,
    HarnessTask,
    TrackingTask,
    tracking_documents,
)
from implicit.language.harness.documents import TrackingDocument
from implicit.language.harness.evaluation import (
    HarnessOptions,
    evaluate_folder,
    evaluate_model,
    results_table,
)
from implicit.language.harness.local_sets import LOCAL_SETS, LocalSet, local_rows
from implicit.language.harness.shortcuts import Shortcuts, measured_shortcuts, shortcut_table

__all__ = [
    "HARNESS_TASKS",
    "LOCAL_SETS",
    "TASK_FILES",
    "TRACKING_TASKS",
    "HarnessOptions",
    "HarnessTask",
    "LocalSet",
    "Shortcuts",
    "TrackingDocument",
    "TrackingTask",
    "evaluate_folder",
    "evaluate_model",
    "local_rows",
    "measured_shortcuts",
    "results_table",
    "shortcut_table",
    "tracking_documents",
]
