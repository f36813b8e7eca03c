import numpy as np
import pytest
import torch

from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from tests.refusals import refusals
from theory.belief.decay import decay_rate
from theory.belief.reachable import belief_chain
from theory.belief.token_source import TokenSource
from theory.belief.underflow import observed_underflow, predicted_underflow

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


test_wrong_python_inputs_end_in_one_sentence = refusals(
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
