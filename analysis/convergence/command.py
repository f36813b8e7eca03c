"""The command ``python -m analysis.convergence`` and the section of the report."""

from analysis.convergence.drawing import caption, draw
from analysis.convergence.measurement import ConvergenceSettings, analyse
from analysis.convergence.reporting import SECTION, tables
from analysis.framework.analysis import RunAnalysis
from analysis.framework.needs import FIXED_POINTS

ANALYSIS = RunAnalysis(
    name="convergence",
    question="How does the search for the fixed points go, and what does it cost?",
    description="Follow the fixed-point iteration of a trained implicit model: residuals, iterations, cost.",
    settings=ConvergenceSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=FIXED_POINTS,
    section=SECTION,
)
main = ANALYSIS.main
