"""The command ``python -m analysis.belief``."""

from analysis.belief.drawing import caption, draw
from analysis.belief.measurement import analyse
from analysis.belief.reporting import tables
from analysis.belief.settings import BeliefSettings
from analysis.framework.analysis import Comparison

ANALYSIS = Comparison(
    name="belief",
    question="Does the model hold the exact belief about a hidden state, and for how long?",
    description="Compare predictions and states with the exact posterior, for one run or several.",
    settings=BeliefSettings,
    compare=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
)
main = ANALYSIS.main
