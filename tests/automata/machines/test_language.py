from collections import Counter
from itertools import product as words_of
from math import comb

import numpy as np
import pytest

from automata.machines.dfa import DFA
from automata.machines.language import count_words, sample_words, states_with_finite_future, word_of_rank
from automata.machines.named_dfas import dyck_dfa, modular_counter_dfa, parity_dfa
from automata.machines.regular_expressions import regular_expression_dfa
from tests.refusals import refusals

NO_11 = DFA.from_table([[0, 1], [0, 2], [2, 2]], accepting=[0, 1])


def test_words_without_11_are_counted_by_the_fibonacci_numbers() -> None:
    previous, current = 1, 1
    for length in range(300):
        assert count_words(NO_11, length) == current
        previous, current = current, previous + current


def test_balanced_brackets_are_counted_by_the_catalan_numbers() -> None:
    for pairs in range(1, 9):
        assert count_words(dyck_dfa(pairs), 2 * pairs) == comb(2 * pairs, pairs) // (pairs + 1)
        assert count_words(dyck_dfa(pairs), 2 * pairs - 1) == 0


def test_counts_are_exact_beyond_floating_point() -> None:
    assert count_words(parity_dfa(), 2000) == 2**1999
    assert count_words(modular_counter_dfa(3), 400) == sum(comb(400, ones) for ones in range(0, 401, 3))


@pytest.mark.parametrize("dfa", [NO_11, dyck_dfa(2, ["()", "[]"]), regular_expression_dfa("(ab|b)*a*")])
def test_ranks_run_through_the_accepted_words_in_order(dfa: DFA) -> None:
    for length in range(7):
        words = [word for word in words_of(dfa.alphabet, repeat=length) if dfa.accepts(word)]
        assert count_words(dfa, length) == len(words)
        assert [word_of_rank(dfa, length, rank) for rank in range(len(words))] == words


def test_samples_are_uniform() -> None:
    words = sample_words(NO_11, 5, 13_000, np.random.default_rng(0))
    counts = Counter(words)
    assert len(counts) == 13
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_squared < 32.9  # the 0.999 quantile of χ² with 12 degrees of freedom; the seed is fixed


test_bad_input_is_refused = refusals(
    (lambda: count_words(NO_11, -1), "length is -1"),
    (lambda: sample_words(dyck_dfa(2), 3, 1, np.random.default_rng(0)), "length is 3 and no word"),
    (lambda: sample_words(NO_11, 3, -1, np.random.default_rng(0)), "count is -1"),
    (lambda: word_of_rank(NO_11, 3, 5), "rank is 5"),
)


@pytest.mark.parametrize("expression", ["(ab|ba)*", "ab", "a*|b", "a$b", "(a|b)*", "a(ba)*b|bb"])
def test_futures_are_finite_where_no_long_word_is_accepted(expression: str) -> None:
    dfa = regular_expression_dfa(expression, "ab")
    size = len(dfa.states)
    finite = states_with_finite_future(dfa)
    for state in dfa.states:
        after = DFA(dfa.states, dfa.alphabet, dfa.transitions, state, dfa.accepting)
        # pumping: infinitely many words are accepted exactly if one of n to 2n - 1 letters is
        is_infinite = any(count_words(after, length) for length in range(size, 2 * size))
        assert (state in finite) == (not is_infinite)
