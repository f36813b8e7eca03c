import numpy as np
import torch

from automata.probabilistic.marginal_filter import MarginalFilter
from automata.probabilistic.named_pfsas import lazy_swaps
from theory.belief.filters import BayesFilter
from theory.belief.linear_marginals import LinearMarginals, marginals


def test_the_affine_map_is_exact_with_full_reveals_and_does_not_decay() -> None:
    automaton = lazy_swaps(4, 0.3)
    filtered = MarginalFilter(automaton, automaton.reveals[1:])
    linear = LinearMarginals(filtered)
    rng = np.random.default_rng(0)
    tokens = np.where(rng.random((3, 400)) < 0.1, 6, rng.integers(6, size=(3, 400)))
    _, values = automaton.sample(tokens, rng)
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    states = linear.states(belief.observations(tokens, values))
    found = states.reshape(3, 400, 4, 4)
    # sums and products of non-negative numbers, begun anew at each full reveal
    np.testing.assert_allclose(found, filtered.of(automaton.beliefs(tokens, values)), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.sum(dim=-1), 1, rtol=0, atol=1e-12)
    torch.testing.assert_close(linear.read(states), found, rtol=0, atol=1e-12)


def test_partial_reveals_make_it_wrong() -> None:
    automaton = lazy_swaps(3, 0.25)
    linear = LinearMarginals(MarginalFilter(automaton, automaton.reveals[1:]))
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    tokens, values = [[0, 1, 4, 2]], [[-1, -1, 0, -1]]
    found = linear.read(linear.states(belief.observations(tokens, values)))[0]
    arrangements = [[int(digit) - 1 for digit in state] for state in automaton.states]
    exact = marginals(torch.from_numpy(automaton.beliefs(tokens, values)[0]), arrangements)
    torch.testing.assert_close(found[:2], exact[:2], rtol=0, atol=1e-12)
    assert (found[3] - exact[3]).abs().max() > 0.01
