"""How fast do right answers advance in the simultaneous mode? ``python -m analysis.front_speed RUN…``."""

from analysis.front_speed.command import ANALYSIS, main
from analysis.front_speed.drawing import draw
from analysis.front_speed.fronts import Front, arrivals
from analysis.front_speed.measurement import FrontSpeedAnalysis, FrontSpeedSettings, RunFront, analyse
from analysis.front_speed.reporting import tables

__all__ = [
    "ANALYSIS",
    "Front",
    "FrontSpeedAnalysis",
    "FrontSpeedSettings",
    "RunFront",
    "analyse",
    "arrivals",
    "draw",
    "main",
    "tables",
]
