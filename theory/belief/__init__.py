"""Bayes filters of probabilistic automata, linear and not: decay, underflow, rescaling, worst sequences.

``python -m theory.belief`` prints the figures of the page *Belief*.
"""

from theory.belief.adversary import WorstSequence, sequence_errors, worst_sequence
from theory.belief.decay import (
    DecayRate,
    WorstDecay,
    decay_rate,
    entropy_bounds,
    stationary_state,
    worst_decay,
)
from theory.belief.filters import BayesFilter
from theory.belief.linear_marginals import LinearMarginals, marginals, swapped_marginals
from theory.belief.predictors import (
    LinearPredictor,
    MarginalPredictor,
    Predictor,
    confusion_radius,
    divergence,
    divergence_radius,
)
from theory.belief.reachable import BeliefChain, belief_chain
from theory.belief.report import decay_report, measured_decay
from theory.belief.rescaling import (
    Gains,
    best_gains,
    edge_gains,
    exit_length,
    exit_lengths,
    format_range,
)
from theory.belief.spectra import largest_lyapunov_exponent, word_spectrum
from theory.belief.token_source import TokenSource
from theory.belief.underflow import UnderflowLengths, observed_underflow, predicted_underflow

__all__ = [
    "BayesFilter",
    "BeliefChain",
    "DecayRate",
    "Gains",
    "LinearMarginals",
    "LinearPredictor",
    "MarginalPredictor",
    "Predictor",
    "TokenSource",
    "UnderflowLengths",
    "WorstDecay",
    "WorstSequence",
    "belief_chain",
    "best_gains",
    "confusion_radius",
    "decay_rate",
    "decay_report",
    "divergence",
    "divergence_radius",
    "edge_gains",
    "entropy_bounds",
    "exit_length",
    "exit_lengths",
    "format_range",
    "largest_lyapunov_exponent",
    "marginals",
    "measured_decay",
    "observed_underflow",
    "predicted_underflow",
    "sequence_errors",
    "stationary_state",
    "swapped_marginals",
    "word_spectrum",
    "worst_decay",
    "worst_sequence",
]
