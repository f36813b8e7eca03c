from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.monoids.cayley import IntArray
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.refusals import refusals
from theory.belief.filters import BayesFilter
from theory.belief.linear_marginals import marginals, swapped_marginals

AUTOMATA: dict[str, Callable[[], ProbabilisticAutomaton]] = {
    "lazy swaps of 3": lambda: lazy_swaps(3),
    "lazy swaps of 4": lambda: lazy_swaps(4, probability=0.3),
    "noisy parity": lambda: noisy_parity(0.2),
}


def trace(
    automaton: ProbabilisticAutomaton, length: int, *, full_reveals: bool, batch: int = 2
) -> tuple[BayesFilter, IntArray, IntArray, Tensor]:
    """Random tokens with the values they show; every third token on average is a reveal."""
    rng = np.random.default_rng(0)
    allowed = [
        number + len(automaton.actions)
        for number, reveal in enumerate(automaton.reveals)
        if full_reveals or not automaton.is_full(reveal)
    ]
    actions = rng.integers(len(automaton.actions), size=(batch, length))
    tokens = np.where(rng.random((batch, length)) < 1 / 3, rng.choice(allowed, size=(batch, length)), actions)
    _, values = automaton.sample(tokens, rng)
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    return belief, tokens, values, belief.observations(tokens, values)


@pytest.mark.parametrize("name", AUTOMATA)
def test_filter_is_the_exact_one_over_10000_steps_where_the_linear_one_has_underflowed(name: str) -> None:
    automaton = AUTOMATA[name]()
    belief, tokens, values, observations = trace(automaton, 10_000, full_reveals=name == "noisy parity")
    found = belief.ssm().run(observations)
    log_beliefs, evidence = automaton.log_beliefs(tokens, values)
    # float64 rounds each step at 2e-16; a reveal of probability m, 0.028 and more here, divides the error by
    # m, and mixing forgets it: 1e-13 is a few hundred roundings; the first wrong update would be off by 0.1
    np.testing.assert_allclose(found, np.exp(log_beliefs), rtol=0, atol=1e-13)

    mass = belief.linear(observations).sum(dim=-1)
    log_evidence = evidence.cumsum(axis=-1)
    for row in range(len(tokens)):
        first = int((mass[row] == 0).int().argmax())
        assert mass[row, first] == 0
        assert mass[row, -1] == 0
        # zero where the probability of the reveals leaves float64, whose smallest number is 2⁻¹⁰⁷⁴; the last
        # subnormal numbers have a few bits only, so not to the bit
        assert abs(log_evidence[row, first] / np.log(2) + 1074) < 30
    assert found[:, -1].sum(dim=-1).tolist() == pytest.approx([1.0] * len(tokens), abs=1e-12)


def test_simultaneous_mode_reaches_the_same_beliefs() -> None:
    automaton = lazy_swaps(3)
    belief, tokens, values, observations = trace(automaton, 40, full_reveals=True)
    start = torch.full((2, 40, 6), 1 / 6, dtype=torch.float64)  # possible under every reveal
    result = belief.ssm().solve(observations, start, tolerance=1e-13)
    assert result.converged.all()
    np.testing.assert_allclose(result.states, automaton.beliefs(tokens, values), rtol=0, atol=1e-12)


def test_marginals_follow_hidden_swaps_linearly() -> None:
    automaton = lazy_swaps(4, probability=0.3)
    names = ["swap 1 2", "swap 2 4", "swap 1 3", "swap 1 2"]
    beliefs = torch.from_numpy(automaton.beliefs(automaton.encode(names), [-1] * 4))
    arrangements = list(permutations(range(4)))
    marginal = torch.eye(4, dtype=torch.float64)
    for name, belief in zip(names, beliefs, strict=True):
        first, second = (int(number) - 1 for number in name.split()[1:])
        marginal = swapped_marginals(marginal, first, second, 0.3)
        torch.testing.assert_close(marginal, marginals(belief, arrangements), rtol=0, atol=1e-14)


def test_an_impossible_reveal_is_not_reported_as_a_belief() -> None:
    coin = BayesFilter([1.0, 0.0], [np.eye(2)], [[0, 1]])
    assert coin.ssm().run(coin.observations([[1, 0]], [[1, -1]])).tolist() == [[[0.0, 0.0], [0.0, 0.0]]]


COIN = BayesFilter([1.0, 0.0], [np.eye(2)], [[0, 1]])
test_bad_input_is_refused = refusals(
    (lambda: COIN.observations([[0, 2]], [[-1, 0]]), "tokens has shape"),
    (lambda: COIN.observations([[0, 1]], [[-1, 2]]), "values holds 2 at position 1"),
    (lambda: COIN.observations([[0, 1]], [[-1, -1]]), "values holds -1 at position 1"),
    (lambda: BayesFilter([1.0, 0.0], [np.eye(3)], [[0, 1]]), "for 2 states give"),
)
