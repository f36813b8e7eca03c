"""Run folders: the files of a run, written and read back.

- Load: `load_run`, `Run`, `STORED_RUNS`.
- Below: `RunFolder`, `initial_model`, `describe_environment`.
"""

from implicit.runs.environment import describe_environment
from implicit.runs.folder import RunFolder
from implicit.runs.loading import STORED_RUNS, Run, initial_model, load_run

__all__ = ["STORED_RUNS", "Run", "RunFolder", "describe_environment", "initial_model", "load_run"]
