import numpy as np
import pytest
import torch

from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.refusals import refusals
from theory.belief.decay import decay_rate, worst_decay
from theory.belief.reachable import BeliefChain, belief_chain
from theory.belief.rescaling import best_gains, edge_gains, exit_length, exit_lengths
from theory.belief.token_source import TokenSource


def chain_of(automaton: ProbabilisticAutomaton, source: TokenSource) -> BeliefChain:
    chain = belief_chain(automaton, source)
    assert chain is not None
    return chain


def test_variance_of_the_log_mass_is_the_predicted_one() -> None:
    """Sampled by the automaton, filtered in log space: nothing in common with the prediction."""
    automaton = lazy_swaps(3, 0.5)
    source = TokenSource.fixed_period(automaton, 1, automaton.reveals[1:])
    gains = best_gains(chain_of(automaton, source))
    rng = np.random.default_rng(0)
    length, sequences = 400, 1500
    tokens = source.sample(sequences, length, rng)
    _, values = automaton.sample(tokens, rng)
    rate = decay_rate(automaton, source).rate
    log_mass = automaton.log_likelihood(tokens, values) + rate * length / 2
    # the variance of a sample of 1,500 normal numbers is off by √(2/1500) = 3.7%, here four times that
    assert log_mass.var() / length == pytest.approx(gains.per_reveal, rel=0.15)
    assert abs(log_mass.mean()) < 4 * log_mass.std() / sequences**0.5 + 1


def test_independent_costs_have_their_own_variance() -> None:
    """Parity looked at after each action: costs are independent, so V is a variance on paper."""
    automaton = noisy_parity(0.1)
    gains = best_gains(chain_of(automaton, TokenSource.fixed_period(automaton, 1)))
    cost, often = np.array([0, -np.log(0.9), -np.log(0.1)]), np.array([0.5, 0.45, 0.05])
    mean = often @ cost
    assert gains.per_reveal == pytest.approx((often @ cost**2 - mean**2) / 2, rel=1e-9)
    # gains that know the action leave the variance within "1", half of the cycles
    inside = np.array([0.9, 0.1]) @ cost[1:] ** 2 - (np.array([0.9, 0.1]) @ cost[1:]) ** 2
    assert gains.per_observation == pytest.approx(inside / 4, rel=1e-9)
    assert gains.per_observation <= gains.per_reveal <= gains.per_token + 1e-12
    # a reveal in one token of four, drawn: its cost is independent of others, and actions have none
    chain = chain_of(automaton, TokenSource.independent(automaton, 0.25))
    mean, squares = (chain.edge_frequencies() @ chain.costs**power for power in (1, 2))
    assert best_gains(chain).per_reveal == pytest.approx(squares - mean**2 / 0.25, rel=1e-9)


def test_a_gain_that_carries_for_ever() -> None:
    automaton = lazy_swaps(3, 0.5)
    chain = chain_of(automaton, TokenSource.fixed_period(automaton, 1, ["all"]))
    gains = best_gains(chain)
    assert gains.per_observation == gains.per_reveal == 0
    assert exit_length(0.0, torch.bfloat16) == float("inf")
    left = exit_lengths(chain, edge_gains(chain, gains), 3.0, 3.0, 20, 5000, np.random.default_rng(0))
    assert (left == 5000).all()


def test_exit_lengths_of_the_square_of_the_range() -> None:
    automaton = noisy_parity(0.1)
    chain = chain_of(automaton, TokenSource.fixed_period(automaton, 3))
    gains = best_gains(chain)
    per_edge = edge_gains(chain, gains)
    for low, high in ((20.0, 20.0), (15.0, 30.0)):
        predicted = low * high / gains.per_observation
        left = exit_lengths(chain, per_edge, low, high, 600, int(20 * predicted), np.random.default_rng(1))
        error = left.std() / 600**0.5
        # jumps of up to log 10 over the edge of an interval of 20 make it longer by about a tenth
        assert predicted - 4 * error < left.mean() < 1.2 * predicted + 4 * error
    without = exit_lengths(
        chain, np.zeros(len(chain.costs)), 87.3, 88.7, 200, 10_000, np.random.default_rng(2)
    )
    expected = 87.3 / (decay_rate(automaton, TokenSource.fixed_period(automaton, 3)).rate / 4)
    assert without.mean() == pytest.approx(expected, rel=0.05)


def test_a_mass_on_a_bound_is_inside_whatever_the_rounding() -> None:
    """Costs are multiples of log 2, as the bound is: sums come to lie on it, and rounding would decide."""
    automaton = lazy_swaps(3, 0.5, full_reveal=False)
    chain = chain_of(automaton, TokenSource.fixed_period(automaton, 1))
    per_edge = edge_gains(chain, best_gains(chain))
    left = [
        exit_lengths(chain, per_edge + rounding, 14 * np.log(2), 11.0, 100, 5000, np.random.default_rng(0))
        for rounding in (0.0, 1e-15, -1e-15)
    ]
    assert (np.array(left) == left[0]).all()
    # without gains the mass halves, and lies on the bound after each third of these halvings
    ones = np.full(len(chain.costs), -np.log(2)) + chain.costs
    halved = exit_lengths(chain, ones, 3 * np.log(2), 1.0, 5, 50, np.random.default_rng(0))
    assert (halved == 4).all()


def test_no_gain_is_better_than_the_best() -> None:
    automaton = lazy_swaps(3, 0.25)
    chain = chain_of(automaton, TokenSource.fixed_period(automaton, 2, ["all"]))
    gains = best_gains(chain)
    rng = np.random.default_rng(0)
    per_edge = edge_gains(chain, gains)
    often = chain.edge_frequencies()
    assert abs(often @ (per_edge - chain.costs)) < 1e-12  # no drift
    for _ in range(6):
        other = {pair: gain + rng.normal() for pair, gain in gains.log_gains.items()}
        pairs = zip(chain.tokens.tolist(), chain.values.tolist(), strict=True)
        changed = np.array([other.get(pair, 0.0) for pair in pairs])
        drift = often @ (changed - chain.costs)
        walks = exit_lengths(chain, changed - drift, 12, 12, 300, 4000, np.random.default_rng(3))
        best = exit_lengths(chain, per_edge, 12, 12, 300, 4000, np.random.default_rng(3))
        assert walks.mean() < best.mean()


def test_the_fastest_decay_is_that_of_all_sequences() -> None:
    automaton = noisy_parity(0.2)
    source = TokenSource.fixed_period(automaton, 2)
    worst = worst_decay(chain_of(automaton, source))
    # two ones: even with 0.68, odd with 0.32; a one and a zero: 0.8, 0.2; so −log 0.2 for ever
    assert worst.rate == pytest.approx(-np.log(0.2), rel=1e-12)
    tokens, values = zip(*(worst.approach + worst.cycle * 50), strict=True)
    log_mass = automaton.log_likelihood(list(tokens), list(values))
    reveals = sum(value >= 0 for value in values)
    assert -log_mass / reveals == pytest.approx(worst.rate, rel=0.02)


SETTLING = ProbabilisticAutomaton(
    ["new", "left", "right"],
    [1, 0, 0],
    {"settle": np.array([[0, 0, 0], [0.25, 1, 0], [0.75, 0, 1]])},
    {"look": [0, 1, 2]},
)
CLASSES = chain_of(SETTLING, TokenSource.fixed_period(SETTLING, 1))
NO_CHAIN = "chain is None; give one of belief_chain, which is None where"
test_wrong_inputs_end_in_one_sentence = refusals(
    (lambda: best_gains(CLASSES), "chain has 2 closed classes"),
    (lambda: best_gains(None), NO_CHAIN),  # type: ignore[arg-type]
    (lambda: worst_decay(None), NO_CHAIN),  # type: ignore[arg-type]
    (lambda: exit_length(0.1, torch.int32), r"dtype is torch\.int32; give a floating-point type"),
    (lambda: exit_length(-0.1, torch.float32), r"variance is -0\.1; give one of at least 0"),
)
