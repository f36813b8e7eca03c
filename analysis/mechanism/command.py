"""The command ``python -m analysis.mechanism``."""

from analysis.framework.analysis import Comparison
from analysis.framework.needs import CONSTANT_STATE
from analysis.mechanism.drawing import caption, draw
from analysis.mechanism.measurement import MechanismSettings, compare
from analysis.mechanism.reporting import tables

ANALYSIS = Comparison(
    name="mechanism",
    question="By which mechanism do models track an automaton, and is it the same one?",
    description="Compare how models of one automaton hold its states, whatever their basis.",
    settings=MechanismSettings,
    compare=compare,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=CONSTANT_STATE,
)
main = ANALYSIS.main
