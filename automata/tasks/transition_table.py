"""What follows from the table of a word problem: runs, tokens that may be drawn, exact distributions.

A table has shape ``[states, tokens]`` and holds the number of the state after the token. Distributions are
exact up to rounding in float64.
"""

from collections.abc import Sequence
from math import lcm

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError
from automata.monoids.cayley import IntArray

FloatArray = NDArray[np.float64]

_SEQUENCES_AT_ONCE = 512  # measured: 256 and 1024 cost a fifth more, one block of 4096 up to twice as much


def follow(table_by_token: IntArray, state_count: int, tokens: IntArray, before: IntArray) -> IntArray:
    """Return the state after every token, ``[batch, length]``, from the states before, ``[batch]``."""
    batch, length = tokens.shape
    states = np.empty_like(tokens, order="C")
    # a block of sequences at a time, position by position, in two buffers that stay in the cache
    rows = min(batch, _SEQUENCES_AT_ONCE)
    offsets = np.empty((length, rows), dtype=np.int64)
    following = np.empty_like(offsets)
    for start in range(0, batch, rows):
        block = tokens[start : start + rows].T
        width = block.shape[1]
        np.multiply(block, state_count, out=offsets[:, :width])
        current = before[start : start + rows]
        for offset, after in zip(offsets[:, :width], following[:, :width], strict=True):
            offset += current
            # every index is in range: "clip" only spares the checked copy that "raise" makes
            np.take(table_by_token, offset, out=after, mode="clip")
            current = after
        states[start : start + rows] = following[:, :width].T
    return states


def allowed_tokens(
    table: IntArray, avoid: Sequence[int], state_names: Sequence[str]
) -> tuple[IntArray, IntArray, int]:
    """Return for every state the tokens that lead to no state to avoid, for a table ``[states, tokens]``.

    It is the tokens of each state, the allowed ones first, ``[states, tokens]``; how many are allowed,
    ``[states]``; and N, their least common multiple. A uniform draw from 0 … N-1, modulo the number of a
    state, is uniform there. A state to avoid that has no allowed token has token 0; others are refused.
    """
    is_avoided = np.isin(table, avoid)
    counts = (~is_avoided).sum(axis=1)
    for state in np.flatnonzero(counts == 0).tolist():
        if state not in avoid:
            raise InputError(f"avoid leaves no token in state {state_names[state]!r}; avoid it as well")
    counts = np.maximum(counts, 1)
    multiple = lcm(*np.unique(counts).tolist())
    # a draw below 2⁶³ is not uniform modulo every number; probabilities are then right to tokens / 2⁶³
    return np.argsort(is_avoided, axis=1, kind="stable"), counts, min(multiple, 2**63)


def token_probabilities(
    table: IntArray, hard_fraction: float, easy_tokens: Sequence[int], avoid: Sequence[int]
) -> FloatArray:
    """Return the probability of every token in every state, shape ``[states, tokens]``."""
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
    """Return the distribution of the state one token later, ``[states]``."""
    moved = (states[:, None] * tokens).ravel()
    return np.bincount(table.ravel(), moved, len(states)).astype(np.float64)


def state_probabilities(table: IntArray, tokens: FloatArray, initial: int, length: int) -> FloatArray:
    """Return the probability of every state after every token, shape ``[length, states]``."""
    current = np.zeros(len(table))
    current[initial] = 1
    rows = []
    for _ in range(length):
        current = after_one_token(table, tokens, current)
        rows.append(current)
    return np.stack(rows)
