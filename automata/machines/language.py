"""Exact counts and uniform samples of the words of a given length that an automaton accepts."""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_memory, checked
from automata.errors import InputError
from automata.machines.dfa import DFA, State
from automata.monoids.cayley import IntArray, integer_array

FloatArray = NDArray[np.float64]


@checked
def count_words(dfa: DFA, length: int) -> int:
    """Return how many words of this length the automaton accepts, exactly, however large.

    InputError if the length is negative.

    Example:
        Half of the binary words of length 100 have an even number of ones:

        >>> from automata.machines.named_dfas import parity_dfa
        >>> count_words(parity_dfa(), 100) == 2**99
        True
    """
    return _completions(dfa, length)[-1][dfa.initial_number]


@checked
def states_with_finite_future(dfa: DFA) -> tuple[State, ...]:
    """Return the states after which only finitely many words are accepted, such as rejecting sinks.

    Sampling of long words of the language, or of their beginnings, keeps out of these states.

    Example:
        >>> from automata.machines.regular_expressions import regular_expression_dfa
        >>> dfa = regular_expression_dfa("c|(ab)*")
        >>> [dfa.run(word)[-1] in states_with_finite_future(dfa) for word in ("", "a", "ab", "c", "b")]
        [False, False, False, True, True]
    """
    useful = dfa.accepting_mask  # some word, perhaps the empty one, is accepted after it
    while (after := useful | np.any(useful[dfa.table], axis=1)).sum() > useful.sum():
        useful = after
    endless = useful  # and any number of steps leads through useful states
    while (after := np.asarray(endless[dfa.table].any(axis=1))).sum() < endless.sum():
        endless = after
    return tuple(state for state, stays in zip(dfa.states, endless, strict=True) if not stays)


@checked
def word_of_rank(dfa: DFA, length: int, rank: int) -> tuple[str, ...]:
    """Return the accepted word at this rank, from 0, in the lexicographic order of the alphabet.

    InputError if the rank is not below ``count_words(dfa, length)``, or negative.

    Example:
        >>> from automata.machines.named_dfas import parity_dfa
        >>> [word_of_rank(parity_dfa(), 2, rank) for rank in range(2)]
        [('0', '0'), ('1', '1')]
    """
    return _unrank(dfa, _completions(dfa, length), rank)


@checked
def sample_words(dfa: DFA, length: int, count: int, rng: np.random.Generator) -> list[tuple[str, ...]]:
    """Return accepted words of this length, each drawn independently and uniformly from all of them.

    The rank of the word is drawn as an exact uniform integer, so that no rounding enters at any length.
    InputError if no word of this length is accepted, or the count is negative.

    Example:
        >>> from automata.machines.named_dfas import dyck_dfa
        >>> words = sample_words(dyck_dfa(max_depth=3), 40, 5, np.random.default_rng(0))
        >>> all(dyck_dfa(max_depth=3).accepts(word) for word in words)
        True
    """
    check_integer("count", count, 0)
    completions = _completions(dfa, length)
    check_memory(f"a sample of {count} words of length {length}", 8 * count * (length + 1), "give fewer")
    total = completions[-1][dfa.initial_number]
    if not total:
        raise InputError(f"length is {length} and no word of that length is accepted; give another length")
    return [_unrank(dfa, completions, _uniform_below(total, rng)) for _ in range(count)]


@checked
def draw_words(dfa: DFA, lengths: ArrayLike, rng: np.random.Generator) -> IntArray:
    """Return accepted words of these lengths, uniform up to rounding, ``[words, longest]``, padded with 0.

    `sample_words` is exact, and slower by the number of words.
    """
    wanted = integer_array("lengths", lengths)
    if wanted.ndim != 1 or not wanted.size or wanted.min() < 1:
        raise InputError(f"lengths are {wanted.tolist()}; give one of at least 1 for each word")
    longest = int(wanted.max())
    check_memory(
        f"drawing words of length {longest}",
        8 * longest * (dfa.table.size + wanted.size),
        "give a shorter length",
    )
    counts = log_counts(dfa, longest)
    for length in np.unique(wanted).tolist():
        if counts[length, dfa.initial_number] == -np.inf:
            raise InputError(
                f"length is {length} and no word of that length is accepted; give another length"
            )
    states = np.full(wanted.size, dfa.initial_number)
    words = np.zeros((wanted.size, longest), np.int64)
    for place in range(longest):
        here = np.flatnonzero(wanted > place)
        following = dfa.table[states[here]]  # [words, symbols]
        shares = counts[(wanted[here] - place - 1)[:, None], following]
        shares = np.exp(shares - shares.max(axis=1, keepdims=True)).cumsum(axis=1)
        drawn = rng.random(here.size) * shares[:, -1]
        words[here, place] = (drawn[:, None] >= shares).sum(axis=1)
        states[here] = following[np.arange(here.size), words[here, place]]
    return words


@lru_cache(maxsize=8)
def decided(dfa: DFA, longest: int) -> NDArray[np.bool_]:
    """Return whether some words are rejected, and some accepted, of length 0 … longest, ``[2, longest + 1]``.

    Every batch of a task asks for the same ones; do not write into what is returned.
    """
    found = np.zeros((2, longest + 1), np.bool_)
    here = np.array([dfa.initial_number])
    for length in range(longest + 1):
        found[dfa.accepting_mask[here].astype(int), length] = True
        after = np.zeros(len(dfa.states), np.bool_)
        after[dfa.table[here]] = True
        here = np.flatnonzero(after)
    found.setflags(write=False)
    return found


@lru_cache(maxsize=8)
def log_counts(dfa: DFA, longest: int) -> FloatArray:
    """Return the logarithms of the numbers of words that lead to acceptance, ``[0 … longest, states]``.

    Every batch of a task asks for the same ones; do not write into what is returned.
    """
    counts = np.full((longest + 1, len(dfa.states)), -np.inf)
    counts[0, dfa.accepting_mask] = 0
    for length in range(longest):
        counts[length + 1] = np.logaddexp.reduce(counts[length][dfa.table], axis=1)
    counts.setflags(write=False)
    return counts


def _completions(dfa: DFA, length: int) -> list[list[int]]:
    """Return for k = 0 … length and every state the number of words of length k that lead to acceptance."""
    check_integer("length", length, 0)
    bits = length * (len(dfa.alphabet) - 1).bit_length() // 2  # of a number of words, in the mean
    check_memory(
        f"counting words of length {length}",
        (length + 1) * len(dfa.states) * (32 + bits // 8),
        "give a shorter length",
    )
    rows = dfa.table.tolist()
    completions = [[int(accepts) for accepts in dfa.accepting_mask]]
    for _ in range(length):
        shorter = completions[-1]
        completions.append([sum(shorter[target] for target in row) for row in rows])
    return completions


def _unrank(dfa: DFA, completions: Sequence[Sequence[int]], rank: int) -> tuple[str, ...]:
    state = dfa.initial_number
    if not 0 <= rank < completions[-1][state]:
        raise InputError(f"rank is {rank}; give a rank in 0 … {completions[-1][state] - 1}")
    word = []
    for shorter in reversed(completions[:-1]):
        for symbol, target in zip(dfa.alphabet, dfa.table[state].tolist(), strict=True):
            if rank < shorter[target]:
                word.append(symbol)
                state = target
                break
            rank -= shorter[target]
    return tuple(word)


def _uniform_below(bound: int, rng: np.random.Generator) -> int:
    bits = (bound - 1).bit_length()
    while True:  # rejection: on average fewer than two rounds
        drawn = int.from_bytes(rng.bytes((bits + 7) // 8), "little") & ((1 << bits) - 1)
        if drawn < bound:
            return drawn
