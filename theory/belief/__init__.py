"""Bayes filters of probabilistic automata, linear and not: decay, underflow, rescaling, worst sequences.

``python -m theory.belief`` prints the figures of the page *Belief*.
"""

from theory.belief.adversary import (
    LinearPredictor as LinearPredictor,
    MarginalPredictor as MarginalPredictor,
    Predictor as Predictor,
    WorstSequence as WorstSequence,
    confusion_radius as confusion_radius,
    divergence as divergence,
    divergence_radius as divergence_radius,
    sequence_errors as sequence_errors,
    worst_sequence as worst_sequence,
)
from theory.belief.decay import (
    DecayRate as DecayRate,
    WorstDecay as WorstDecay,
    decay_rate as decay_rate,
    entropy_bounds as entropy_bounds,
    stationary_state as stationary_state,
    worst_decay as worst_decay,
)
from theory.belief.filters import BayesFilter as BayesFilter
from theory.belief.reachable import (
    BeliefChain as BeliefChain,
    TokenSource as TokenSource,
    belief_chain as belief_chain,
)
from theory.belief.report import decay_report as decay_report, measured_decay as measured_decay
from theory.belief.rescaling import (
    Gains as Gains,
    best_gains as best_gains,
    edge_gains as edge_gains,
    exit_length as exit_length,
    exit_lengths as exit_lengths,
    format_range as format_range,
)
from theory.belief.underflow import (
    UnderflowLengths as UnderflowLengths,
    observed_underflow as observed_underflow,
    predicted_underflow as predicted_underflow,
)
