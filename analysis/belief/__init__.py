"""Does a model hold the exact belief about a hidden state? ``python -m analysis.belief RUN…``."""

from analysis.belief.adversary import WorstRounds, worst_rounds
from analysis.belief.drawing import draw
from analysis.belief.measurement import BeliefAnalysis, RunBelief, analyse, measure_belief
from analysis.belief.norms import MassRates, Norms
from analysis.belief.prediction import Predictions
from analysis.belief.probe import Decoded, Probe
from analysis.belief.reading import BeliefSettings
from analysis.belief.statistics import Estimate, Rate
from analysis.framework.analysis import Comparison

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
    "worst_rounds",
]

ANALYSIS = Comparison(
    name="belief",
    question="Does the model hold the exact belief about a hidden state, and for how long?",
    description="Compare predictions and states with the exact posterior, for one run or several.",
    settings=BeliefSettings,
    compare=analyse,
    draw=draw,
    shows="Divergence: KL from the exact posterior, by tokens read, and since the last full reveal or a "
    "known beginning. Loss above Bayes: log loss less the exact filter's. Decoded belief: total variation "
    "of the belief that a linear probe decodes from the exact one (from b) and from the Bayes update of "
    "the one before (one step); dotted: the mean belief. Norm: of each layer's state; dash-dotted: log "
    "mass of the exact linear filter. Thick lines are medians of runs, bands their range, or intervals of "
    "a single run.",
)
main = ANALYSIS.main
