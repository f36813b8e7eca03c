"""Is the state transition non-linear and non-diagonal? ``python -m analysis.jacobian RUN``."""

from analysis.jacobian.command import ANALYSIS, main
from analysis.jacobian.drawing import draw
from analysis.jacobian.measurement import JacobianAnalysis, JacobianSettings, Spectrum, analyse
from analysis.jacobian.reporting import tables

__all__ = [
    "ANALYSIS",
    "JacobianAnalysis",
    "JacobianSettings",
    "Spectrum",
    "analyse",
    "draw",
    "main",
    "tables",
]
