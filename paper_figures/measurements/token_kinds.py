"""What tells the tokens of a sequence apart, and how their self-iterations differ by it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.convergence.explained import explained_variance
from automata.tasks.word_problem import WordProblem

Counts = NDArray[np.int64]


def kinds_of(
    tokens: Counts, labels: Counts, answers: Counts, task: WordProblem, window: int
) -> dict[str, Counts]:
    """Number the groups that the tokens fall into, by what distinguishes them.

    Args:
        tokens: ``[sequences, length]``.
        labels: the right state after each.
        answers: the state that the model answers after each.
        task: that the sequences are of.
        window: how many last tokens count as one kind.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> parity, tokens = make_task("parity"), np.array([[0, 1, 1, 0]])
        >>> labels = parity.states(tokens)
        >>> kinds_of(tokens, labels, labels, parity, 4)["state before and token"]
        array([[0, 1, 3, 0]])
    """
    before, believed = states_before(labels, task.start()), states_before(answers, task.start())
    return {
        "state changes or not": (before != labels).astype(np.int64),
        "token": tokens,
        f"last {window} tokens": last_tokens(tokens, window, task.vocabulary_size),
        "position": np.broadcast_to(np.arange(tokens.shape[1]), tokens.shape),
        "state before": before,
        "state before and token": before * task.vocabulary_size + tokens,
        "state answered before and token": believed * task.vocabulary_size + tokens,
    }


def states_before(states: Counts, first: int) -> Counts:
    """Return the state before each token, from those after each.

    Example:
        >>> states_before(np.array([[4, 5, 6]]), first=0)
        array([[0, 4, 5]])
    """
    return np.concatenate([np.full_like(states[:, :1], first), states[:, :-1]], axis=1)


def last_tokens(tokens: Counts, count: int, vocabulary: int) -> Counts:
    """Return a number for the last so many tokens at each, those that are not there yet as one more token.

    Example:
        >>> last_tokens(np.array([[0, 1, 1]]), count=2, vocabulary=2)  # (none, 0), (0, 1), (1, 1)
        array([[6, 1, 4]])
    """
    numbers = np.zeros_like(tokens)
    for back in range(count - 1, -1, -1):
        there = np.full_like(tokens, vocabulary)
        there[:, back:] = tokens[:, : tokens.shape[1] - back]
        numbers = numbers * (vocabulary + 1) + there
    return numbers


def counted(iterations: Counts, thresholds: tuple[int, ...]) -> dict[str, Any]:
    """Tell how many tokens need how many self-iterations, and how many need more than each threshold.

    Args:
        iterations: of every token.
        thresholds: numbers of self-iterations.

    Returns:
        ``histogram``: tokens by number; ``more_than``: shares of the tokens; ``more_than_twice_the_median``;
        ``iterations_of_hardest_tenth``: the share of all self-iterations that the tenth of the tokens takes
        which takes most (0.1 if all take equally many).

    Example:
        >>> found = counted(np.array([3] * 18 + [23, 23]), (4, 32))
        >>> found["histogram"], found["more_than"], found["iterations_of_hardest_tenth"]
        ({'3': 18, '23': 2}, {'4': 0.1, '32': 0.0}, 0.46)
    """
    numbers, tokens = np.unique(iterations, return_counts=True)
    hardest = np.sort(iterations, axis=None)[-max(1, iterations.size // 10) :]
    return {
        "histogram": dict(zip(map(str, numbers.tolist()), tokens.tolist(), strict=True)),
        "mean": float(iterations.mean()),
        "median": float(np.median(iterations)),
        "more_than": {str(limit): float((iterations > limit).mean()) for limit in thresholds},
        "more_than_twice_the_median": float((iterations > 2 * np.median(iterations)).mean()),
        "iterations_of_hardest_tenth": float(hardest.sum() / iterations.sum()),
    }


def compared(
    iterations: Counts,
    kinds: Mapping[str, Counts],
    labels: Counts,
    answers: Counts,
    first: int,
) -> dict[str, Any]:
    """Compare the self-iterations of tokens by what distinguishes the tokens.

    Args:
        iterations: of every token, ``[sequences, length]``.
        kinds: the groups that they fall into, by name, as `kinds_of` numbers them.
        labels: the right state after each.
        answers: the state that the model answers after each.
        first: the state before the first token.

    Returns:
        ``explained``: the variance of the iterations that each kind explains of other sequences, and into how
        many groups it parts the tokens; ``means``: of the tokens that change the state or not, are answered
        rightly or not (None where there are none), and by position in powers of two.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> parity, tokens = make_task("parity"), np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
        >>> labels = parity.states(tokens)
        >>> found = compared(5 + tokens, kinds_of(tokens, labels, labels, parity, 4), labels, labels, 0)
        >>> found["explained"]["token"], found["means"]["state changes"], found["means"]["state stays"]
        ({'variance': 1.0, 'groups': 2}, 6.0, 5.0)
    """
    before = states_before(labels, first)
    means: dict[str, float | None] = {
        "state changes": _mean(iterations, before != labels),
        "state stays": _mean(iterations, before == labels),
        "answered rightly": _mean(iterations, answers == labels),
        "answered wrongly": _mean(iterations, answers != labels),
    }
    length, place, end = iterations.shape[1], 0, 1
    while place < length:
        until = min(end, length)
        means[f"positions {place + 1} to {until}"] = float(iterations[:, place:until].mean())
        place, end = until, 2 * end
    return {"explained": explained_by(iterations, kinds), "means": means}


def explained_by(iterations: Counts, kinds: Mapping[str, Counts]) -> dict[str, dict[str, float | None]]:
    """Return the variance that each kind explains of other sequences, and its number of groups.

    Example:
        >>> iterations = np.array([[5, 6], [6, 5]])
        >>> explained_by(iterations, {"parity": iterations % 2})
        {'parity': {'variance': 1.0, 'groups': 2}}
    """
    return {
        name: {"variance": explained_variance(iterations, kind), "groups": len(np.unique(kind))}
        for name, kind in kinds.items()
    }


def beyond(
    iterations: Counts, kinds: Mapping[str, Counts], right: NDArray[np.bool_], thresholds: tuple[int, ...]
) -> dict[str, dict[str, float | int | None]]:
    """Describe the tokens that need more self-iterations than each threshold, or than twice the median.

    Args:
        iterations: of every token, ``[sequences, length]``.
        kinds: as `kinds_of` numbers them.
        right: which are answered rightly.
        thresholds: numbers of self-iterations.

    Returns:
        ``tokens``: how many they are; ``pairs``: in how many pairs of state and token they lie; and the
        shares of them that are ``first`` in their sequence, ``change`` the state, are answered ``wrongly``.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> parity, tokens = make_task("parity"), np.array([[0, 1, 1, 0], [1, 0, 0, 1]])
        >>> labels = parity.states(tokens)
        >>> kinds = kinds_of(tokens, labels, labels, parity, 4)
        >>> beyond(np.array([[9, 1, 1, 9], [2, 1, 1, 1]]), kinds, labels == labels, (8,))["8"]
        {'tokens': 2, 'pairs': 1, 'first': 0.5, 'change': 0.0, 'wrongly': 0.0}
    """
    limits = {str(limit): float(limit) for limit in thresholds}
    limits["twice the median"] = 2 * float(np.median(iterations))
    found = {}
    for name, limit in limits.items():
        chosen = iterations > limit
        shares = {
            "first": kinds["position"] == 0,
            "change": kinds["state changes or not"] == 1,
            "wrongly": ~right,
        }
        found[name] = {
            "tokens": int(chosen.sum()),
            "pairs": len(np.unique(kinds["state before and token"][chosen])),
            **{what: _mean(there, chosen) for what, there in shares.items()},
        }
    return found


def _mean(values: NDArray[Any], chosen: NDArray[np.bool_]) -> float | None:
    return float(values[chosen].mean()) if chosen.any() else None
