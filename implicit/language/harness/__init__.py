"""Language models under `lm-eval`: benchmarks from local files, and state tracking in plain text."""

from implicit.language.harness.catalogue import (
    HARNESS_TASKS as HARNESS_TASKS,
    TASK_FILES as TASK_FILES,
    TRACKING_TASKS as TRACKING_TASKS,
    HarnessTask as HarnessTask,
    TrackingTask as TrackingTask,
    tracking_documents as tracking_documents,
)
from implicit.language.harness.catalogue import TrackingDocument as TrackingDocument
from implicit.language.harness.evaluation import (
    HarnessOptions as HarnessOptions,
    evaluate_folder as evaluate_folder,
    evaluate_model as evaluate_model,
    results_table as results_table,
)
from implicit.language.harness.local_sets import (
    LOCAL_SETS as LOCAL_SETS,
    LocalSet as LocalSet,
    local_rows as local_rows,
)
from implicit.language.harness.shortcuts import (
    Shortcuts as Shortcuts,
    measured_shortcuts as measured_shortcuts,
    shortcut_table as shortcut_table,
)
