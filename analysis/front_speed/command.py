"""The command ``python -m analysis.front_speed``."""

from analysis.framework.analysis import Comparison
from analysis.framework.needs import FIXED_POINTS
from analysis.front_speed.drawing import caption, draw
from analysis.front_speed.measurement import FrontSpeedSettings, analyse
from analysis.front_speed.reporting import tables

ANALYSIS = Comparison(
    name="front_speed",
    question="How fast do right answers advance in the simultaneous mode, and can that be foretold?",
    description="Measure the tokens per sweep of the simultaneous mode; foretell them from short windows.",
    settings=FrontSpeedSettings,
    compare=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=FIXED_POINTS,
)
main = ANALYSIS.main
