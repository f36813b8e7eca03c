"""The divergence of predictions, and what no single prediction can avoid for two distributions."""

import numpy as np
from numpy.typing import ArrayLike

from automata.probabilistic.scope import Confusion


def divergence(exact: ArrayLike, predicted: ArrayLike) -> float:
    """Return KL(exact ‖ predicted) in nats; infinity where something possible is held for impossible.

    Example:
        >>> round(divergence([1, 0], [0.8, 0.2]), 4), divergence([0.5, 0.5], [1, 0])
        (0.2231, inf)
    """
    p, q = np.asarray(exact, dtype=np.float64), np.asarray(predicted, dtype=np.float64)
    possible = p > 0
    if (q[possible] <= 0).any():
        return float("inf")
    return float(max(0.0, (p[possible] * np.log(p[possible] / q[possible])).sum()))


def divergence_radius(first: ArrayLike, second: ArrayLike) -> float:
    """Return min_q max(KL(r ‖ q), KL(r' ‖ q)), in nats: the capacity of the channel with these two rows.

    By bisection: along q = λ r + (1 − λ) r' the first divergence falls and the second grows, and the best q
    is on that line, where they are equal.

    Example:
        >>> round(divergence_radius([1, 0], [0.5, 0.5]), 12), round(float(np.log(5 / 4)), 12)
        (0.223143551314, 0.223143551314)
    """
    r, other = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    low, high = 0.0, 1.0
    for _ in range(100):  # halves the interval to below the rounding of float64
        middle = (low + high) / 2
        q = middle * r + (1 - middle) * other
        low, high = (middle, high) if divergence(r, q) > divergence(other, q) else (low, middle)
    return divergence(r, high * r + (1 - high) * other)


def confusion_radius(confusion: Confusion) -> float:
    """Return R of theorem 9, the largest over the variables that may be asked after a confusion.

    Example:
        >>> from automata.probabilistic.named_pfsas import lazy_swaps
        >>> from automata.probabilistic.scope import marginal_scope
        >>> automaton = lazy_swaps(4, 0.5)
        >>> names = automaton.reveals[1:]
        >>> found = marginal_scope(automaton, names, 4, [*automaton.actions, *names]).confusion
        >>> round(confusion_radius(found), 4)
        0.2231
    """
    radii = []
    rows = zip(confusion.first_marginal, confusion.second_marginal, strict=True)
    for first, second in rows:
        radii.append(divergence_radius([float(p) for p in first], [float(p) for p in second]))
    return max(radii)
