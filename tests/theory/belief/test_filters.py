from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.monoids.cayley import IntArray
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.automata.probabilistic.random_automata import (
    SMALL,
    enumerated_masses,
    random_automaton,
    random_trace,
)
from tests.refusals import refusals
from theory.belief.filters import BayesFilter

AUTOMATA: dict[str, Callable[[], ProbabilisticAutomaton]] = {
    "lazy swaps of 4": lambda: lazy_swaps(4, probability=0.3),
    "noisy parity": lambda: noisy_parity(0.2),
}


def filter_of(automaton: ProbabilisticAutomaton) -> BayesFilter:
    return BayesFilter(automaton.initial, automaton.matrices, automaton.readings)


def trace(
    automaton: ProbabilisticAutomaton, length: int, *, full_reveals: bool
) -> tuple[BayesFilter, IntArray, IntArray, Tensor]:
    """Random tokens with the values they show; every third token on average is a reveal."""
    rng = np.random.default_rng(0)
    reveals = [reveal for reveal in automaton.reveals if full_reveals or not automaton.is_full(reveal)]
    actions = rng.integers(len(automaton.actions), size=(2, length))
    shown = rng.choice(automaton.encode(reveals), size=(2, length))
    tokens = np.where(rng.random((2, length)) < 1 / 3, shown, actions)
    _, values = automaton.sample(tokens, rng)
    belief = filter_of(automaton)
    return belief, tokens, values, belief.observations(tokens, values)


@pytest.mark.parametrize(("name", "length"), [("lazy swaps of 4", 4000), ("noisy parity", 9000)])
def test_filter_is_the_exact_one_where_the_linear_one_has_underflowed(name: str, length: int) -> None:
    automaton = AUTOMATA[name]()
    belief, tokens, values, observations = trace(automaton, length, full_reveals=name == "noisy parity")
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


def test_an_impossible_reveal_is_not_reported_as_a_belief() -> None:
    coin = BayesFilter([1.0, 0.0], [np.eye(2)], [[0, 1]])
    assert coin.ssm().run(coin.observations([[1, 0]], [[1, -1]])).tolist() == [[[0.0, 0.0], [0.0, 0.0]]]


COIN = BayesFilter([1.0, 0.0], [np.eye(2)], [[0, 1]])
test_bad_input_is_refused = refusals(
    (lambda: COIN.observations([[0, 2]], [[-1, 0]]), "tokens has shape"),
    (lambda: COIN.observations([[0, 1]], [[-1, 2]]), "values holds 2 at position 1"),
    (lambda: COIN.observations([[0, 1]], [[-1, -1]]), "values holds -1 at position 1"),
    (lambda: BayesFilter([1.0, 0.0], [np.eye(3)], [[0, 1]]), "for 2 states give"),
    (lambda: BayesFilter([1.0, 0.0], [[[0.7, 0.3], [0.1, 0.9]]], [[0, 1]]), "matrices has a column"),
    (lambda: BayesFilter([2.0, -1.0], [np.eye(2)], [[0, 1]]), "initial has a column"),
    (lambda: BayesFilter([np.nan, 1.0], [np.eye(2)], [[0, 1]]), "initial has a column"),
    (lambda: BayesFilter([1.0, 0.0], [np.eye(2)], [[0, -1]]), "readings holds -1"),
)


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

        belief = filter_of(automaton)
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
