"""Does a model hold the exact belief about a hidden state? ``python -m analysis.belief RUN…``."""

from analysis.belief.command import ANALYSIS, main
from analysis.belief.decoding import Decoded
from analysis.belief.drawing import draw
from analysis.belief.measurement import BeliefAnalysis, RunBelief, analyse, measure_belief
from analysis.belief.norms import MassRates, Norms
from analysis.belief.prediction import Predictions, divergence
from analysis.belief.probe import Probe, fit_probe, nearest_distributions, total_variation
from analysis.belief.reporting import tables
from analysis.belief.settings import BeliefSettings
from analysis.belief.statistics import Estimate, Rate, estimate, fitted_rate

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
    "analyse",
    "divergence",
    "draw",
    "estimate",
    "fit_probe",
    "fitted_rate",
    "main",
    "measure_belief",
    "nearest_distributions",
    "tables",
    "total_variation",
]
