"""The command ``python -m analysis.extraction``."""

from analysis.extraction.drawing import caption, draw
from analysis.extraction.measurement import ExtractionSettings, analyse
from analysis.extraction.reporting import tables
from analysis.framework.analysis import EachRunAnalysis
from analysis.framework.needs import CONSTANT_STATE

ANALYSIS = EachRunAnalysis(
    name="extraction",
    question="Which automaton did the model learn, and which shortest word tells it from its task?",
    description="Extract the automaton behind a model and compare it with that of its task.",
    settings=ExtractionSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    needs=CONSTANT_STATE,
)
main = ANALYSIS.main
