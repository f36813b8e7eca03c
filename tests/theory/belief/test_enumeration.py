"""Random small automata: three filters against the enumeration of all hidden outcomes."""

import numpy as np

from tests.automata.probabilistic.random_automata import (
    SMALL,
    enumerated_masses,
    random_automaton,
    random_trace,
)
from theory.belief.filters import BayesFilter


def test_all_filters_agree_with_enumeration_on_random_automata() -> None:
    rng = np.random.default_rng(0)
    partial = 0
    for number in range(SMALL):
        automaton = random_automaton(rng)
        # 5 states and 6 actions have 15,625 outcomes for each start: one automaton in 50 goes that far
        length = 6 if number % 50 == 0 else int(rng.integers(1, 5))
        tokens, values = random_trace(automaton, rng, length, automaton.reveals)
        masses = enumerated_masses(automaton, tokens, values)
        likelihood = masses.sum()
        assert likelihood > 0
        expected = masses / likelihood
        log_beliefs, evidence = automaton.log_beliefs(tokens, values)

        belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
        observations = belief.observations(tokens[None], values[None])
        updated = belief.initial
        for observation in observations[0]:
            updated = belief.update(updated, observation)
        linear = belief.linear(observations)[0, -1].numpy()

        # sums and products of a few non-negative float64 numbers: relative errors of some 1e-16 each
        for found in (np.exp(log_beliefs[-1]), updated.numpy(), linear / linear.sum()):
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
        np.testing.assert_allclose(linear, masses, rtol=1e-12, atol=0)
        np.testing.assert_allclose(np.exp(evidence.sum()), likelihood, rtol=1e-12)
        partial += not all(automaton.is_full(reveal) for reveal in automaton.reveals)
    assert partial > SMALL / 2
