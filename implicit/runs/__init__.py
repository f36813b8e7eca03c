"""Run folders: the files of a run, written and read back.

- Load: `load_run`, `Run`, `STORED_RUNS`.
- Below: `RunFolder`, `initial_model`, `describe_environment`.
"""

from implicit.runs.environment import describe_environment as describe_environment
from implicit.runs.folder import RunFolder as RunFolder
from implicit.runs.loading import (
    STORED_RUNS as STORED_RUNS,
    Run as Run,
    initial_model as initial_model,
    load_run as load_run,
)
