"""How often a word problem draws its tokens and reaches its states: exact up to rounding in float64."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from automata.monoids.cayley import IntArray

FloatArray = NDArray[np.float64]


def token_probabilities(
    table: IntArray, hard_fraction: float, easy_tokens: Sequence[int], avoid: Sequence[int]
) -> FloatArray:
    """Return the probability of every token in every state, shape ``[states, tokens]``.

    Args:
        table: the states after each token, shape ``[states, tokens]``.
        hard_fraction: the probability that a token is drawn uniformly from all of them.
        easy_tokens: those that are drawn, uniformly, otherwise.
        avoid: states that are kept out of: a token is drawn uniformly from those that lead elsewhere.

    Example:
        >>> token_probabilities(np.array([[0, 1], [1, 0]]), 0.5, [0], []).tolist()
        [[0.75, 0.25], [0.75, 0.25]]
        >>> token_probabilities(np.array([[0, 1], [1, 1]]), 1.0, [], [1]).tolist()
        [[1.0, 0.0], [1.0, 0.0]]
    """
    states, tokens = table.shape
    if avoid:
        allowed = ~np.isin(table, avoid)
        allowed[~allowed.any(axis=1), 0] = True  # a state that is avoided itself: sampling takes token 0
        return np.asarray(allowed / allowed.sum(axis=1, keepdims=True))
    drawn = np.full(tokens, hard_fraction / tokens)
    if hard_fraction < 1:
        np.add.at(drawn, list(easy_tokens), (1 - hard_fraction) / len(easy_tokens))
    return np.tile(drawn, (states, 1))


def after_one_token(table: IntArray, tokens: FloatArray, states: FloatArray) -> FloatArray:
    """Return the distribution of the state one token later.

    Args:
        table: the states after each token, shape ``[states, tokens]``.
        tokens: the probability of every token in every state, of the same shape.
        states: the distribution before the token, shape ``[states]``.

    Example:
        >>> after_one_token(np.array([[0, 1], [1, 0]]), np.full((2, 2), 0.5), np.array([1.0, 0.0])).tolist()
        [0.5, 0.5]
    """
    moved = (states[:, None] * tokens).ravel()
    return np.bincount(table.ravel(), moved, len(states)).astype(np.float64)


def state_probabilities(table: IntArray, tokens: FloatArray, initial: int, length: int) -> FloatArray:
    """Return the probability of every state after every token, shape ``[length, states]``.

    Args:
        table: the states after each token, shape ``[states, tokens]``.
        tokens: the probability of every token in every state, of the same shape.
        initial: the state before the first token.
        length: the number of tokens.

    Example:
        The swaps of three things: after an odd number of tokens the permutation is odd.

        >>> from automata.monoids.groups import symmetric_group
        >>> swaps = symmetric_group(3).table[:, [1, 2, 5]]
        >>> state_probabilities(swaps, np.full((6, 3), 1 / 3), 0, 2).round(3).tolist()
        [[0.0, 0.333, 0.333, 0.0, 0.0, 0.333], [0.333, 0.0, 0.0, 0.333, 0.333, 0.0]]
    """
    current = np.zeros(len(table))
    current[initial] = 1
    rows = []
    for _ in range(length):
        current = after_one_token(table, tokens, current)
        rows.append(current)
    return np.stack(rows)
