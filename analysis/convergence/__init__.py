"""How does the search for the fixed points go? ``python -m analysis.convergence RUN``."""

from analysis.convergence.command import ANALYSIS, main
from analysis.convergence.drawing import draw
from analysis.convergence.measurement import (
    MODES,
    ConvergenceAnalysis,
    ConvergenceSettings,
    ModeConvergence,
    RecordingPicard,
    analyse,
    follow,
)
from analysis.convergence.reporting import tables

__all__ = [
    "ANALYSIS",
    "MODES",
    "ConvergenceAnalysis",
    "ConvergenceSettings",
    "ModeConvergence",
    "RecordingPicard",
    "analyse",
    "draw",
    "follow",
    "main",
    "tables",
]
