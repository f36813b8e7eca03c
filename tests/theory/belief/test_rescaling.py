import numpy as np
import pytest
import torch

from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.refusals import refusals
from theory.belief.decay import decay_rate, worst_decay
from theory.belief.reachable import BeliefChain, TokenSource, belief_chain
from theory.belief.rescaling import best_gains, edge_gains, exit_length, exit_lengths
from theory.belief.underflow import observed_underflow, predicted_underflow


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


SWAPS = lazy_swaps(3, 0.5)
BIT = TokenSource.fixed_period(SWAPS, 1, ["all"])
"""Each reveal takes one bit, exactly: either the swap happened or not."""


@pytest.mark.parametrize(
    ("dtype", "subnormal", "zero"),
    [
        (torch.float64, 1023, 1075),
        (torch.float32, 127, 150),
        (torch.bfloat16, 127, 134),
        (torch.float16, 15, 25),
    ],
)
def test_one_bit_per_reveal_ends_where_the_format_does(dtype: torch.dtype, subnormal: int, zero: int) -> None:
    """The mass is 2⁻ⁿ after n reveals; the action after them makes twice 2⁻ⁿ⁻¹, which may round to 0."""
    found = observed_underflow(SWAPS, BIT, dtype, 4, 2 * zero + 10, np.random.default_rng(0))
    assert found.subnormal.tolist() == [subnormal] * 4
    assert found.zero.tolist() == [zero - 1] * 4
    assert found.early_error == 0  # powers of two
    predicted = predicted_underflow(np.log(2), dtype)
    np.testing.assert_allclose(predicted, (subnormal - 1, zero), rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_predicted_lengths_are_the_observed_ones(dtype: torch.dtype) -> None:
    automaton = noisy_parity(0.1)
    source = TokenSource.fixed_period(automaton, 3)
    chain = belief_chain(automaton, source)
    assert chain is not None
    subnormal, zero = predicted_underflow(decay_rate(automaton, source).rate, dtype)
    found = observed_underflow(automaton, source, dtype, 64, int(8 * zero), np.random.default_rng(3))
    for expected, counts in ((subnormal, found.subnormal), (zero, found.zero)):
        assert (counts >= 0).all()
        error = float(counts.double().std()) / 8
        # four standard errors, and the overshoot of up to log(10)/h reveals
        assert abs(float(counts.double().mean()) - expected) < 4 * error + 6
    assert (found.inaccurate >= found.subnormal - 1).all()


def test_bfloat16_is_off_from_the_beginning() -> None:
    automaton = lazy_swaps(4, 0.3)
    source = TokenSource.fixed_period(automaton, 2, automaton.reveals[1:])
    errors = [
        observed_underflow(automaton, source, dtype, 8, 200, np.random.default_rng(0)).early_error
        for dtype in (torch.float32, torch.bfloat16)
    ]
    # some unit roundoffs, 2⁻²⁴ and 2⁻⁸
    assert 2**-28 < errors[0] < 2**-20
    assert 2**-12 < errors[1] < 2**-4


def test_a_filter_that_does_not_forget_adds_up_its_errors() -> None:
    """A coin of bias 0.7 or 0.6: off while its numbers are normal, which the filters above are not."""
    toss = np.zeros((4, 4))
    toss[:2, :2], toss[2:, 2:] = [[0.7, 0.7], [0.3, 0.3]], [[0.6, 0.6], [0.4, 0.4]]
    coin = ProbabilisticAutomaton(
        ["0.7, heads", "0.7, tails", "0.6, heads", "0.6, tails"],
        [0.5, 0, 0.5, 0],
        {"toss": toss},
        {"look": ["heads", "tails", "heads", "tails"]},
    )
    source = TokenSource.fixed_period(coin, 1)
    found = observed_underflow(coin, source, torch.bfloat16, 200, 400, np.random.default_rng(0))
    assert (found.subnormal > 0).all()
    early = (found.inaccurate >= 0) & (found.inaccurate < found.subnormal)
    # 23%; the standard error is 3%, for other kernels may round sums otherwise
    assert 0.1 < float(early.double().mean()) < 0.4


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot flush")
def test_flushed_subnormal_numbers_end_it_where_they_begin() -> None:
    found = observed_underflow(SWAPS, BIT, torch.float32, 2, 320, np.random.default_rng(0), flush=True)
    assert found.zero.tolist() == found.subnormal.tolist() == [126, 126]
    assert float(torch.tensor(2.0**-127) * 1) > 0  # restored


test_bad_input_is_refused = refusals(
    (lambda: best_gains(CLASSES), "chain has 2 closed classes"),
    (lambda: best_gains(None), NO_CHAIN),  # type: ignore[arg-type]
    (lambda: worst_decay(None), NO_CHAIN),  # type: ignore[arg-type]
    (lambda: exit_length(0.1, torch.int32), r"dtype is torch\.int32; give a floating-point type"),
    (lambda: exit_length(-0.1, torch.float32), r"variance is -0\.1; give one of at least 0"),
    (lambda: predicted_underflow(1.0, torch.int32), r"dtype is torch\.int32; give a floating-point type"),
    (lambda: predicted_underflow(1.0, "float32"), "dtype is 'float32'; give a floating-point type"),  # type: ignore[arg-type]
    (lambda: predicted_underflow(0, torch.float32), "rate is 0"),
    (lambda: predicted_underflow("x", torch.float32), "rate is 'x'; give a number"),  # type: ignore[arg-type]
    (
        lambda: observed_underflow(SWAPS, BIT, torch.int64, 2, 4, np.random.default_rng(0)),
        r"is torch\.int64; give",
    ),
    (
        lambda: observed_underflow(noisy_parity(0.1), BIT, torch.float32, 2, 4, np.random.default_rng(0)),
        "source has 7 tokens and the automaton 3; give",
    ),
)
