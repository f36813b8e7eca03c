"""The command ``python -m analysis.jacobian`` and the section of the report."""

from analysis.framework.analysis import RunAnalysis
from analysis.framework.needs import CONSTANT_STATE
from analysis.jacobian.drawing import caption, draw
from analysis.jacobian.measurement import JacobianSettings, analyse
from analysis.jacobian.reporting import SECTION, tables

ANALYSIS = RunAnalysis(
    name="jacobian",
    question="Is the state transition non-linear and non-diagonal? Theorem 1, blocks, spectrum.",
    description="Check Theorem 1 at the states that a trained model visits: conditions, verdict, blocks, "
    "spectrum.",
    settings=JacobianSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=CONSTANT_STATE,
    section=SECTION,
)
main = ANALYSIS.main
