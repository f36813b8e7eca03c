"""The growth of an error along the difference of two states, and of that difference.

At a pair of states h and h' the error is η (h' − h). An affine layer keeps it as it keeps the difference:
its share of the distance of the two runs stays η on every word. A model that corrects errors brings it to 0
and keeps the runs apart, which takes a transition that is not affine. ``docs/error_control.md``. The pairs
are of words with common endings and different states; other words lead both states back to themselves.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.visited_states import TIGHT_RTOL, entries, joined
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.cells.plain import varies
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.modes import Solve
from theory import State

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

    A hundred times as many are tried, so fewer may come back; ``follow`` tokens are read after both.
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
    also = task.states(np.concatenate([second[chosen], after], axis=1))[:, length - 1 :]
    apart = np.concatenate([here[:, None], followed], axis=1) != also
    returning = tuple(_returning(task, int(a), int(b), rng) for a, b in zip(here, there, strict=True))
    return Pairs(first[chosen], second[chosen], after, apart, returning)


def common_ending(task: WordProblem) -> tuple[IntArray, IntArray]:
    """Return four tokens after which as many states as possible are still told apart.

    Returned are the tokens, and the state that each state leads to with them; −1 if through one that is
    avoided.
    """
    rng = np.random.default_rng(0)
    best: tuple[int, IntArray, IntArray] | None = None
    for word in rng.integers(0, task.vocabulary_size, (64, COMMON_TOKENS)):
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
        periods = [p for state in (here, there) if (p := _period(task, state, word)) is not None]
        if len(periods) < 2:
            continue
        times = math.lcm(*periods)
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


@dataclass(frozen=True, eq=False)
class Gains:
    """By what factor words that return both automaton states of a pair change distances."""

    between: FloatArray  # of the two states of the pair, ``[pairs]``; NaN where no word was found
    within: FloatArray  # of a state and the one with the smallest error along their difference
    sideways: FloatArray  # of a state and one with an error as large in a random direction
    # how far the word, read a second time, moves the state, over the distance that the pair then has; 0 where
    # it returns a code. Both states are behind the same last tokens
    returned: FloatArray

    def numbers(self) -> dict[str, Any]:
        """Return the medians and all values, for JSON."""
        return {name: {"median": median(values), "values": values} for name, values in vars(self).items()}


@dataclass(frozen=True, eq=False)
class Followed:
    """Errors of several sizes, followed along random words.

    Example:
        An error that halves with every token:

        >>> followed = Followed(np.ones((1, 4)), {0.1: 0.1 * 0.5 ** np.arange(4.0)[None]}, 0, None, 1.0)
        >>> followed.left(0.1)
        0.125
    """

    distances: FloatArray  # of the two runs of a pair over that at first, ``[pairs, follow + 1]``
    # by η, the distance to the run without the error over the distance of the pair, ``[pairs, follow + 1]``;
    # NaN from where the automaton or the model no longer tells the pair apart
    shares: dict[float, FloatArray]
    merged: int  # pairs that the automaton tells apart after the last token, and the model does not
    gains: Gains | None  # of words that return
    share_converged: float  # of the fixed points that were sought; 1 for an explicit model

    def left(self, size: float) -> float:
        """Return what is left of an error after the last token, in the median: 1 for an affine layer."""
        return median(self.shares[size][:, -1]) / size

    def quantiles(self, size: float) -> FloatArray:
        """Return the 5%, 50% and 95% quantiles over pairs after every token, ``[3, follow + 1]``."""
        kept = [column[~np.isnan(column)] for column in self.shares[size].T]
        levels = (0.05, 0.5, 0.95)
        return np.array([np.quantile(column, levels) if column.size else [np.nan] * 3 for column in kept]).T

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "errors": {
                str(size): {
                    "left": self.left(size),
                    **dict(zip(("0.05", "0.5", "0.95"), self.quantiles(size), strict=True)),
                }
                for size in self.shares
            },
            "gains": None if self.gains is None else self.gains.numbers(),
            "share_converged": self.share_converged,
        }


def median(values: FloatArray) -> float:
    """Return the median of those that are numbers; NaN if none is.

    Example:
        >>> median(np.array([1.0, np.nan, 3.0])), median(np.array([np.nan]))
        (2.0, nan)
    """
    known = values[~np.isnan(values)]
    return float(np.median(known)) if known.size else float("nan")


@torch.no_grad()
def follow_errors(
    model: SequenceModel, pairs: Pairs, sizes: tuple[float, ...], max_iterations: int, seed: int
) -> Followed:
    """Inject errors after the words of pairs and follow them.

    The model is in float64 and its state does not grow; fixed points are sought to a relative tolerance of
    1e-10.
    """
    reader = _Reader(model, max_iterations)
    both = torch.from_numpy(np.concatenate([pairs.first, pairs.second])).to(model.device)
    ends = reader.read(model.init_state(len(both)), both)
    here, there = (_part(ends, number, 2) for number in range(2))
    runs = [here, there, *(_between(here, there, size) for size in sizes)]
    state = joined(runs)
    count = len(pairs.first)
    distances = [_distances(state, len(runs))]
    for token in torch.from_numpy(pairs.after).to(model.device).unbind(1):
        state = reader.read(state, token.repeat(len(runs))[:, None])
        distances.append(_distances(state, len(runs)))
    apart = np.where(pairs.apart, 1.0, np.nan)
    by_run = np.stack(distances, axis=-1)  # [runs − 1, pairs, follow + 1]
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = {size: by_run[1 + number] / by_run[0] * apart for number, size in enumerate(sizes)}
    generator = torch.Generator().manual_seed(seed)
    random = {
        name: torch.randn(entry.shape, generator=generator, dtype=entry.dtype).to(entry.device)
        for name, entry in here.items()
        if varies(entry)
    }
    scale = min(sizes) * _norm(_minus(there, here)) / _norm(random)
    moved = {
        name: here[name] + scale.reshape(-1, *[1] * (entry.ndim - 1)) * entry
        for name, entry in random.items()
    }
    side = {**here, **moved}
    gains = _gains(reader, pairs, [here, there, _between(here, there, min(sizes)), side], count)
    merged = int((pairs.apart[:, -1] & (by_run[0][:, -1] == 0)).sum())
    with np.errstate(invalid="ignore"):
        distances = by_run[0] / by_run[0][:, :1]
    return Followed(distances, shares, merged, gains, reader.share_converged)


class _Reader:
    """A model that reads words to a tight tolerance, and how many of its fixed points converged."""

    def __init__(self, model: SequenceModel, max_iterations: int) -> None:
        self.model = model
        self.solve = Solve("sequential", stopping=Stopping(rtol=TIGHT_RTOL, max_iterations=max_iterations))
        self.sought, self.found = 0, 0.0

    @property
    def share_converged(self) -> float:
        return self.found / self.sought if self.sought else 1.0

    def read(self, state: State, tokens: Tensor, lengths: Tensor | None = None) -> State:
        output = self.model.run(tokens, state, self.solve, lengths=lengths)
        if output.solution is not None:
            self.sought += tokens.numel()
            self.found += tokens.numel() * output.solution.share_converged
        return output.state


def _gains(reader: _Reader, pairs: Pairs, runs: list[State], count: int) -> Gains | None:
    found = [number for number in range(count) if len(pairs.returning[number])]
    if not found:
        return None
    lengths = torch.tensor([len(pairs.returning[number]) for number in found])
    words = torch.zeros(len(found), int(lengths.max()), dtype=torch.int64)
    for row, number in enumerate(found):
        words[row, : lengths[row]] = torch.from_numpy(pairs.returning[number])
    before = joined([{name: entry[found] for name, entry in run.items()} for run in runs])
    read = words.repeat(len(runs), 1).to(reader.model.device)
    after = reader.read(before, read, lengths.repeat(len(runs)))
    at_first, at_last = _distances(before, len(runs)), _distances(after, len(runs))
    once = _part(after, 0, len(runs))
    twice = reader.read(once, words.to(reader.model.device), lengths)
    values = np.full((4, count), np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):  # of states that fall together
        moved = _norm(_minus(twice, once)).cpu().numpy() / at_last[0]
        values[:, found] = [*(at_last / at_first), moved]
    return Gains(*values)


def _part(state: State, number: int, runs: int) -> State:
    return {name: entry.chunk(runs)[number] for name, entry in state.items()}


def _between(here: State, there: State, size: float) -> State:
    return {
        name: entry + size * (there[name] - entry) if varies(entry) else entry for name, entry in here.items()
    }


def _minus(one: State, other: State) -> State:
    return {name: entry - other[name] for name, entry in one.items() if varies(entry)}


def _norm(state: State) -> Tensor:
    return entries(state).norm(dim=1)


def _distances(state: State, runs: int) -> FloatArray:
    """Return the distance of every other run from the first, ``[runs − 1, pairs]``."""
    first = _part(state, 0, runs)
    others = [_part(state, number, runs) for number in range(1, runs)]
    return np.stack([_norm(_minus(other, first)).cpu().numpy() for other in others])
