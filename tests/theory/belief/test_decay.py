from itertools import product as words_of

import numpy as np
import pytest
import torch
from numpy.typing import ArrayLike
from scipy.stats import binom

from automata.errors import InputError
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity, unknown_coin
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.refusals import refusals
from theory.belief.decay import decay_rate, entropy_bounds, stationary_state
from theory.belief.filters import BayesFilter
from theory.belief.reachable import TokenSource, belief_chain
from theory.belief.report import Case, cases, measured_decay


def binary_entropy(p: float) -> float:
    return float(-sum(q * np.log(q) for q in (p, 1 - p) if q))


def values_entropy(automaton: ProbabilisticAutomaton, word: list[int]) -> float:
    """H(values shown | this word of tokens), by listing the values of each reveal."""
    reveals = [token - len(automaton.actions) for token in word if token >= len(automaton.actions)]
    ranges = [range(len(automaton.value_names[automaton.reveals[r]])) for r in reveals]
    total = 0.0
    for shown in words_of(*ranges):
        drawn = iter(shown)
        values = [next(drawn) if token >= len(automaton.actions) else -1 for token in word]
        log_probability = float(automaton.log_likelihood(word, values))
        if np.isfinite(log_probability):
            total -= np.exp(log_probability) * log_probability
    return total


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_predicted_decay_is_within_two_percent_of_the_measured(case: Case) -> None:
    rate = decay_rate(case.automaton, case.source, precision=2e-2)
    assert rate.upper - rate.lower <= 2e-2 * rate.upper
    length = 1600 if len(case.automaton.states) < 6 else 800
    found = measured_decay(case.automaton, case.source, 200, length, np.random.default_rng(1))
    assert found.error < 0.008 * rate.rate  # so that two percent mean something
    assert abs(found.mean / rate.rate - 1) < 0.02


def test_closed_form_of_noisy_parity() -> None:
    """k actions, each "1" with probability ½: the entropy of whether an odd number of them flipped."""
    automaton, failure = noisy_parity(0.1), 0.1
    for actions in (1, 2, 3, 4):
        words = words_of((0, 1), repeat=actions)
        expected = np.mean([binary_entropy((1 - (2 * failure - 1) ** sum(word)) / 2) for word in words])
        found = decay_rate(automaton, TokenSource.fixed_period(automaton, actions))
        assert (found.lower, found.upper) == (found.rate, found.rate)
        assert found.rate == pytest.approx(expected, rel=1e-12)  # a few roundings


def test_independent_tokens_with_full_reveals_have_the_series_of_geometric_lengths() -> None:
    automaton = noisy_parity(0.1)
    source = TokenSource.independent(automaton, 0.25)
    # between two reveals k actions with probability ¼ (¾)^k, of which j are "1": binomial
    flipped = np.array([binary_entropy((1 - (2 * 0.1 - 1) ** j) / 2) for j in range(150)])
    given = [float(binom.pmf(np.arange(k + 1), k, 0.5) @ flipped[: k + 1]) for k in range(150)]
    expected = sum(0.25 * 0.75**k * entropy for k, entropy in enumerate(given))
    joined = decay_rate(automaton, source)  # beliefs tend to ½, and are joined there
    assert joined.method == "joined beliefs"
    assert joined.rate == pytest.approx(expected, rel=1e-9)
    series = decay_rate(automaton, source, most_beliefs=10)
    assert series.method == "full reveals"
    assert series.lower <= expected <= series.upper


def test_two_different_words_between_reveals_in_one_cycle() -> None:
    """u, look, v, look: u resets to (0.9, 0.1), and v tosses a coin in state 0: two laws of words."""
    automaton = ProbabilisticAutomaton(
        ["0", "1"],
        [1, 0],
        {"u": [[0.9, 0.9], [0.1, 0.1]], "v": [[0.5, 0.0], [0.5, 1.0]]},
        {"look": ["0", "1"]},
    )
    source = TokenSource([[1, 0, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1]])
    expected = (binary_entropy(0.1) + 0.9 * np.log(2)) / 2
    found = decay_rate(automaton, source)
    assert found.method == "finite beliefs"
    assert found.rate == pytest.approx(expected, rel=1e-12)
    # the formula of theorem 3, with π stationary for the mean of u and v
    mean = (automaton.matrices[0] + automaton.matrices[1]) / 2
    pi = np.linalg.matrix_power(mean, 200)[:, 0]
    entropies = [[binary_entropy(p) for p in matrix[0]] for matrix in automaton.matrices]
    assert abs(pi @ np.mean(entropies, axis=0) - expected) > 0.1


def test_bounds_are_those_of_enumeration() -> None:
    """k = 2 for one action and one partial reveal: H(Y₁ Y₂ | X) − H(Y₁ | X), over all words and values."""
    automaton = lazy_swaps(3, 0.3)
    source = TokenSource.fixed_period(automaton, 1, automaton.reveals[1:])
    matrices: dict[str, ArrayLike] = dict(zip(automaton.actions, automaton.matrices, strict=True))
    shown: dict[str, list[object]] = {
        name: [state[i] for state in automaton.states] for i, name in enumerate(automaton.reveals[1:])
    }
    uniform = ProbabilisticAutomaton(automaton.states, np.full(6, 1 / 6), matrices, shown)
    cycles = [[*cycle] for cycle in words_of(range(3), range(3, 6))]
    # the start is known: all six are alike, by renaming values
    known = ProbabilisticAutomaton(uniform.states, np.eye(6)[0], matrices, shown)
    (one, known_one), (two, known_two) = (
        [np.mean([values_entropy(start, word) for word in words]) for start in (uniform, known)]
        for words in (cycles, [first + second for first in cycles for second in cycles])
    )
    found = entropy_bounds(automaton, source, 2)
    np.testing.assert_allclose(found, [(known_one, one), (known_two - known_one, two - one)], rtol=1e-10)


def test_spectra() -> None:
    automaton = lazy_swaps(3, 0.75)
    belief = BayesFilter(automaton.initial, automaton.matrices, automaton.readings)
    swap, all_shown, first_shown = belief.operators[belief.observations([[0, 3, 4]], [[-1, 0, 0]])[0]]
    eigenvalues = torch.linalg.eigvals(swap)
    assert sorted(eigenvalues.real.round(decimals=12).tolist()) == [-0.5] * 3 + [1.0] * 3
    # "swap 1 2", then all shows 123 again: rank one, and 1 − p
    full = torch.linalg.eigvals(all_shown @ swap)
    assert sorted(full.abs().round(decimals=12).tolist()) == [0, 0, 0, 0, 0, 0.25]
    assert sorted(torch.linalg.eigvals(first_shown).real.tolist()) == [0.0] * 4 + [1.0] * 2


def test_deterministic_actions_have_finitely_many_beliefs_and_no_decay() -> None:
    automaton = lazy_swaps(4, 1.0)
    source = TokenSource.independent(automaton, 0.3)
    chain = belief_chain(automaton, source)
    assert chain is not None
    assert len(chain.beliefs) == 24
    assert chain.largest_merge == 0
    np.testing.assert_allclose(chain.matrix().sum(axis=1), 1, rtol=0, atol=1e-12)
    assert decay_rate(automaton, source).rate == pytest.approx(0, abs=1e-15)


def test_classes_that_the_start_falls_into() -> None:
    """A coin that settles for one of two sides: absorbed with ¼ and ¾, and then certain."""
    automaton = ProbabilisticAutomaton(
        ["new", "left", "right"],
        [1, 0, 0],
        {"settle": np.array([[0, 0, 0], [0.25, 1, 0], [0.75, 0, 1]])},
        {"look": ["new", "left", "right"]},
    )
    source = TokenSource.fixed_period(automaton, 1)
    chain = belief_chain(automaton, source)
    assert chain is not None
    assert len(chain.recurrent_classes()) == 2
    often = chain.stationary() @ chain.beliefs
    np.testing.assert_allclose(often, [0, 0.25, 0.75], rtol=0, atol=1e-12)
    with pytest.raises(InputError, match="several stationary distributions"):
        stationary_state(automaton, source)


PARITY = noisy_parity(0.1)
LOOKED = TokenSource.fixed_period(PARITY, 3)
RNG = np.random.default_rng(0)
OTHER = "^source has 3 tokens and the automaton 2; give"
NO_REVEAL = "^source draws no reveal, so that there is no rate per reveal; give"


test_wrong_python_inputs_end_in_one_sentence = refusals(
    (lambda: TokenSource([[0.5, 0.6]]), r"phases has shape \[1, 2\]"),
    (lambda: TokenSource.independent(PARITY, 0), "reveal_probability is 0"),
    (lambda: TokenSource.fixed_period(PARITY, 1, ["1"]), r"reveals is \['1'\]"),
    (lambda: TokenSource.fixed_period(PARITY, -1), "actions is -1"),
    (lambda: belief_chain(unknown_coin(), LOOKED), OTHER),
    (lambda: entropy_bounds(PARITY, LOOKED, 0), "cycles is 0"),
    (lambda: TokenSource([[np.nan] * 3]), r"phases has shape \[1, 3\]; give"),
    (lambda: TokenSource([[1.0], [0.5, 0.5]]), r"phases is \[\[1\.0\], \[0\.5, 0\.5\]\]; give"),
    (lambda: TokenSource("ab"), "phases is 'ab'; give rows of numbers"),
    (lambda: TokenSource.independent(PARITY, "x"), "reveal_probability is 'x'; give a number"),  # type: ignore[arg-type]
    (lambda: TokenSource.independent(PARITY, np.nan), "reveal_probability is nan; give"),
    (lambda: decay_rate(PARITY, None), "source is None; give one such as TokenSource"),  # type: ignore[arg-type]
    (lambda: decay_rate(None, LOOKED), "automaton is None; give a ProbabilisticAutomaton"),  # type: ignore[arg-type]
    (lambda: decay_rate(PARITY, TokenSource([[0.5, 0.5, 0]])), NO_REVEAL),
    (lambda: entropy_bounds(PARITY, TokenSource([[0.5, 0.5, 0]]), 1), NO_REVEAL),
    (lambda: decay_rate(unknown_coin(), LOOKED), OTHER),
    (lambda: entropy_bounds(unknown_coin(), LOOKED, 1), OTHER),
    (lambda: stationary_state(unknown_coin(), LOOKED), OTHER),
    (lambda: measured_decay(unknown_coin(), LOOKED, 2, 8, RNG), OTHER),
    (lambda: measured_decay(PARITY, TokenSource([[1, 0, 0]]), 2, 8, RNG), NO_REVEAL),
    (lambda: measured_decay(PARITY, LOOKED, 2, 3, RNG), "length is 3, and no token drawn is a reveal; give"),
    (lambda: measured_decay(PARITY, LOOKED, 1, 8, RNG), "sequences is 1; give"),
    (lambda: BayesFilter("x", [[[1.0]]], [[0]]), "initial is 'x'; give numbers"),
    (lambda: BayesFilter([1.0], [[[1.0], [1.0, 2.0]]], [[0]]), "matrices is .*; give numbers"),
)
