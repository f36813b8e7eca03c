"""How does accuracy change with length? ``python -m analysis.length_generalization RUN…``."""

from analysis.length_generalization.command import ANALYSIS, main
from analysis.length_generalization.drawing import draw
from analysis.length_generalization.measurement import (
    LengthAnalysis,
    LengthSettings,
    RunAccuracy,
    analyse,
    wilson_interval,
)
from analysis.length_generalization.reporting import tables

__all__ = [
    "ANALYSIS",
    "LengthAnalysis",
    "LengthSettings",
    "RunAccuracy",
    "analyse",
    "draw",
    "main",
    "tables",
    "wilson_interval",
]
