"""The command ``python -m analysis.agreement`` and the section of the report."""

from analysis.agreement.drawing import caption, draw
from analysis.agreement.measurement import AgreementSettings, analyse
from analysis.agreement.reporting import SECTION, tables
from analysis.framework.analysis import RunAnalysis
from analysis.framework.needs import FIXED_POINTS

ANALYSIS = RunAnalysis(
    name="agreement",
    question="Do both modes of evaluation reach the same fixed points? Which others exist?",
    description="Compare the fixed points that simultaneous and sequential evaluation reach, and search for "
    "others.",
    settings=AgreementSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=FIXED_POINTS,
    section=SECTION,
)
main = ANALYSIS.main
