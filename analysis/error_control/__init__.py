"""Are errors corrected, or do they add up with length? ``python -m analysis.error_control RUN``."""

from analysis.error_control.command import ANALYSIS, main
from analysis.error_control.drawing import draw
from analysis.error_control.following import Followed, Gains, follow_errors
from analysis.error_control.measurement import ErrorControlAnalysis, ErrorControlSettings, analyse
from analysis.error_control.pairs import Pairs, choose_pairs
from analysis.error_control.reporting import tables
from analysis.error_control.spread import Horizon, Spread, measure_spread, visit_ratios

__all__ = [
    "ANALYSIS",
    "ErrorControlAnalysis",
    "ErrorControlSettings",
    "Followed",
    "Gains",
    "Horizon",
    "Pairs",
    "Spread",
    "analyse",
    "choose_pairs",
    "draw",
    "follow_errors",
    "main",
    "measure_spread",
    "tables",
    "visit_ratios",
]
