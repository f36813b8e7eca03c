"""Explained variance on held-out sequences, against a regression on indicators of the groups."""

import numpy as np
import pytest

from paper_figures.measurements.iterations import explained_variance


def test_a_group_that_one_half_lacks_gets_its_overall_mean() -> None:
    values, groups = np.array([[0.0, 2.0], [1.0, 7.0]]), np.array([[0, 0], [0, 1]])
    # From the first: mean 1 for all, errors 0 and 36. From the second: 1 for group 0, errors 1 and 1, against
    # its overall mean 4, errors 16 and 4.
    assert explained_variance(values, groups) == pytest.approx(1 - (0 + 36 + 1 + 1) / (0 + 36 + 16 + 4))


def test_groups_may_have_any_numbers_as_words_of_tokens_do() -> None:
    """Against dictionaries. Of seven tokens of S5: a place for all 121 ** 7 numbers would take petabytes."""
    rng = np.random.default_rng(2)
    words = rng.integers(3, size=(8, 30)) * 121**6 + rng.integers(4, size=(8, 30))
    values = (words % 7) + rng.normal(size=words.shape)
    left = total = 0.0
    for fit, test in ((range(4), range(4, 8)), (range(4, 8), range(4))):
        of_word: dict[int, list[float]] = {}
        for row in fit:
            for word, value in zip(words[row].tolist(), values[row].tolist(), strict=True):
                of_word.setdefault(word, []).append(value)
        every = [value for known in of_word.values() for value in known]
        overall = sum(every) / len(every)
        for row in test:
            for word, value in zip(words[row].tolist(), values[row].tolist(), strict=True):
                known = of_word.get(word, [overall])
                left += (value - sum(known) / len(known)) ** 2
                total += (value - overall) ** 2
    explained = explained_variance(values, words)
    # Sums of 240 numbers below 100 in another order.
    assert explained == pytest.approx(1 - left / total, abs=1e-12)
    _, small = np.unique(words, return_inverse=True)
    assert explained_variance(values, small.reshape(words.shape)) == explained


def test_nothing_is_explained_where_nothing_varies() -> None:
    assert explained_variance(np.full((4, 3), 5), np.zeros((4, 3), int)) is None
