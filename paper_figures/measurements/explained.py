"""How much of a quantity of the tokens is explained by what the tokens have in common."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def explained_variance(values: ArrayLike, groups: ArrayLike) -> float | None:
    """Return the share of the variance that the means of groups explain of sequences that they are not from.

    The means of the groups are taken over one half of the sequences and foretell the other, and the other way
    round; a group that the first half has not gets its overall mean. So many small groups, which fit the
    noise of their own tokens, gain nothing by it, and useless ones can fall below 0.

    Returns:
        1 − squared errors of the group means / squared errors of the overall mean; None if nothing varies.
    """
    numbers = np.asarray(values, np.float64)
    # Numbered anew: what there are of them counts, not how large they are, which words of tokens make them.
    kinds, numbered = np.unique(groups, return_inverse=True)
    places, half = numbered.reshape(numbers.shape), len(numbers) // 2
    left, total = 0.0, 0.0
    for fit, test in ((slice(0, half), slice(half, None)), (slice(half, None), slice(0, half))):
        overall = numbers[fit].mean()
        means = group_means(numbers[fit], places[fit], len(kinds), otherwise=overall)
        left += float(((numbers[test] - means[places[test]]) ** 2).sum())
        total += float(((numbers[test] - overall) ** 2).sum())
    return 1 - left / total if total > 0 else None


def group_means(values: FloatArray, groups: NDArray[np.int64], count: int, *, otherwise: float) -> FloatArray:
    """Return the mean of every group."""
    occurrences = np.bincount(groups.ravel(), minlength=count)
    sums = np.bincount(groups.ravel(), weights=values.ravel(), minlength=count)
    means: FloatArray = np.where(occurrences > 0, sums / np.maximum(occurrences, 1), otherwise)
    return means
