"""Runs of a table, against following it token by token."""

import numpy as np
import pytest

from automata.tasks.transition_table import follow


@pytest.mark.parametrize("batch", [1, 511, 512, 513, 1500])
def test_every_sequence_of_a_large_batch_goes_on_from_its_own_state(batch: int) -> None:
    """Sequences are followed 512 at a time; none of them may begin where another does."""
    rng = np.random.default_rng(0)
    table = rng.permuted(np.tile(np.arange(7)[:, None], (1, 3)), axis=0)
    tokens, before = rng.integers(0, 3, (batch, 4)), rng.integers(0, 7, batch)
    states = follow(table.T.ravel(), 7, tokens, before)
    current = before
    for position in range(4):
        current = table[current, tokens[:, position]]
        np.testing.assert_array_equal(states[:, position], current)
