"""Does a model hold the exact belief about a hidden state? ``python -m analysis.belief RUN…``."""

from analysis.belief.adversary import WorstRounds, worst_rounds
from analysis.belief.command import ANALYSIS, main
from analysis.belief.decoding import Decoded
from analysis.belief.drawing import draw
from analysis.belief.measurement import BeliefAnalysis, RunBelief, analyse, measure_belief
from analysis.belief.norms import MassRates, Norms
from analysis.belief.prediction import Predictions
from analysis.belief.probe import Probe
from analysis.belief.reporting import tables
from analysis.belief.settings import BeliefSettings
from analysis.belief.statistics import Estimate, Rate

__all__ = [
    "ANALYSIS",
    "BeliefAnalysis",
    "BeliefSettings",
    "Decoded",
    "Estimate",
    "MassRates",
    "Norms",
    "Predictions",
    "Probe",
    "Rate",
    "RunBelief",
    "WorstRounds",
    "analyse",
    "draw",
    "main",
    "measure_belief",
    "tables",
    "worst_rounds",
]
