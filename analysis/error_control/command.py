"""The command ``python -m analysis.error_control``."""

from analysis.error_control.drawing import caption, draw
from analysis.error_control.measurement import ErrorControlSettings, analyse
from analysis.error_control.reporting import tables
from analysis.framework.analysis import EachRunAnalysis
from analysis.framework.needs import CONSTANT_STATE

ANALYSIS = EachRunAnalysis(
    name="error_control",
    question="Are errors between the states of an automaton corrected, or do they add up with length?",
    description="Follow errors in the state of a model, and how far states of one class lie apart.",
    settings=ErrorControlSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=CONSTANT_STATE,
)
main = ANALYSIS.main
