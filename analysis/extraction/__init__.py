"""Which automaton did a model learn? ``python -m analysis.extraction RUN``."""

from analysis.extraction.command import ANALYSIS, main
from analysis.extraction.drawing import draw
from analysis.extraction.measurement import Difference, ExtractionAnalysis, ExtractionSettings, analyse
from analysis.extraction.reporting import tables

__all__ = [
    "ANALYSIS",
    "Difference",
    "ExtractionAnalysis",
    "ExtractionSettings",
    "analyse",
    "draw",
    "main",
    "tables",
]
