"""Words that the measurements need: common endings, pairs with different states, words that return both."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from analysis.framework.arrays import IntArray
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem

COMMON_TOKENS = 4
"""Words end with the same tokens, as many as a convolution reads, so that windows do not differ in tokens."""
LONGEST_RETURN = 48  # tokens; no longer words that return are looked for


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs of words with what is read after both."""

    first: IntArray  # ``[pairs, length]``
    second: IntArray  # the same last tokens, and another automaton state in the end
    after: IntArray  # what is read after both, ``[pairs, follow]``
    # whether the automaton states still differ after so many of these tokens, ``[pairs, follow + 1]``
    apart: NDArray[np.bool_]
    # a word for each pair that leads both automaton states back to themselves; empty if none was found
    returning: tuple[IntArray, ...]


def choose_pairs(task: WordProblem, pairs: int, length: int, follow: int, rng: np.random.Generator) -> Pairs:
    """Draw pairs of words of a task.

    Fewer come back if fewer are found in a hundred times as many; ``follow`` tokens are read after both.
    """
    first, states = task.sample(100 * pairs, length, rng)
    second, _ = task.sample(100 * pairs, length, rng)
    common = min(COMMON_TOKENS, length - 1)
    second[:, length - common :] = first[:, length - common :]
    others = task.states(second)
    allowed = ~np.isin(others, task.avoid).any(axis=1)
    chosen = np.flatnonzero((states[:, -1] != others[:, -1]) & allowed)[:pairs]
    if not chosen.size:
        raise InputError(
            f"length is {length}, at which no two words of {task.name} with the same {common} last tokens "
            "lead to different states; give longer words, or another task"
        )
    here, there = states[chosen, -1], others[chosen, -1]
    after, followed = task.sample(len(chosen), follow, rng, start=here)
    also, apart = there.copy(), [here != there]
    for position, token in enumerate(after.T):
        also = task.table[also, token]
        apart.append(followed[:, position] != also)
    returning = tuple(_returning(task, int(a), int(b), rng) for a, b in zip(here, there, strict=True))
    return Pairs(first[chosen], second[chosen], after, np.stack(apart, axis=1), returning)


def common_ending(task: WordProblem, candidates: int = 64) -> tuple[IntArray, IntArray]:
    """Return four tokens after which as many states as possible are still told apart.

    Returned are the tokens, and the state that each state leads to with them; −1 if through one that is
    avoided.
    """
    rng = np.random.default_rng(0)
    best: tuple[int, IntArray, IntArray] | None = None
    for word in rng.integers(0, task.vocabulary_size, (candidates, COMMON_TOKENS)):
        leads = np.arange(task.state_count)
        allowed = np.ones(task.state_count, np.bool_)
        for token in word:
            leads = task.table[leads, token]
            allowed &= ~np.isin(leads, task.avoid)
        leads = np.where(allowed, leads, -1)
        score = len(set(leads[allowed].tolist()))
        if best is None or score > best[0]:
            best = score, word, leads
    assert best is not None
    return best[1], best[2]


def _returning(task: WordProblem, here: int, there: int, rng: np.random.Generator) -> IntArray:
    """A power of a random word that leads both states back to themselves, through no avoided state."""
    for _ in range(50):
        word = rng.integers(0, task.vocabulary_size, 4)
        periods = [_period(task, state, word) for state in (here, there)]
        if None in periods:
            continue
        times = math.lcm(*(period for period in periods if period is not None))
        if times * len(word) <= LONGEST_RETURN:
            return np.tile(word, times)
    return np.zeros(0, np.int64)


def _period(task: WordProblem, state: int, word: IntArray) -> int | None:
    current = state
    for count in range(1, task.state_count + 1):
        for token in word:
            current = int(task.table[current, token])
            if current in task.avoid:
                return None
        if current == state:
            return count
    return None
