"""Experiments of tiny runs, and runs of untrained models, small enough for everything to take a moment."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from automata.tasks.registry import make_task
from implicit.models.implicit_mamba2 import ImplicitMamba2
from implicit.runs.loading import Run, initial_model
from paper_figures.experiments.grid import Measurement, Point
from paper_figures.experiments.outcomes import Outcome, outcomes_of
from paper_figures.experiments.records import Record

SIZES: dict[str, dict[str, Any]] = {
    "implicit-mamba2": {"d_model": 4, "head_size": 4, "d_state": 2, "residual": False},
    "mamba2": {"d_model": 4, "head_size": 4, "d_state": 2},
    "lstm": {"d_model": 4},
}
