"""The command ``python -m analysis.length_generalization`` and the section of the report."""

from analysis.framework.analysis import Comparison
from analysis.length_generalization.drawing import caption, draw
from analysis.length_generalization.measurement import LengthSettings, analyse
from analysis.length_generalization.reporting import SECTION, tables

ANALYSIS = Comparison(
    name="length_generalization",
    question="How does accuracy change with length?",
    description="Measure accuracy against sequence length, with confidence intervals, for one run or "
    "several.",
    settings=LengthSettings,
    compare=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    section=SECTION,
)
main = ANALYSIS.main
