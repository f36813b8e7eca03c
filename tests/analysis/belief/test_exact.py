"""The exact filter on sequences: against a plain reading of tokens, and without padding."""

import numpy as np
import pytest
from numpy.typing import ArrayLike

from analysis.belief.exact import NEVER, exact_sequences
from automata.probabilistic import ProbabilisticAutomaton
from automata.tasks.interface import Batch
from automata.tasks.partially_observed import PartiallyObserved
from tests.analysis.belief.models import observed_task


def test_tokens_and_reveals_are_counted_from_the_last_full_reveal() -> None:
    task = observed_task()
    found = exact_sequences(task, 6, 60, seed=0, kept=[])
    counted = {}
    for row, tokens in enumerate(found.tokens.tolist()):
        since, shown = 0, 0
        for position, token in enumerate(tokens):
            name = task.token_names[token]
            since += 1
            counted[row, position] = since, shown
            if name.startswith("="):
                full = task.token_names[tokens[position - 1]] == "all"
                since, shown = (0, 0) if full else (since, shown + 1)
    places = list(zip(found.rows.tolist(), found.columns.tolist(), strict=True))
    assert len(places) > 40
    assert list(zip(found.tokens_since.tolist(), found.reveals_since.tolist(), strict=True)) == [
        counted[place] for place in places
    ]


def test_nothing_is_counted_from_an_unknown_beginning() -> None:
    automaton = ProbabilisticAutomaton(
        ["p", "q"], [0.5, 0.5], {"turn": [[0.1, 0.9], [0.9, 0.1]]}, {"look": ["p", "q"]}
    )
    found = exact_sequences(PartiallyObserved(automaton, "reveals", 0.3), 20, 30, seed=0, kept=[])
    for row in range(20):
        own = found.rows == row
        first = found.columns[own].min()
        assert (found.tokens_since[own] == NEVER).tolist() == (found.columns[own] == first).tolist()
        assert found.tokens_since[own & (found.columns > first)].min() >= 1
        assert set(found.reveals_since[own & (found.columns > first)]) == {0}


def test_beliefs_answers_and_evidence_are_those_of_the_task() -> None:
    task = observed_task()
    found = exact_sequences(task, 5, 40, seed=1, kept=[39, 3, 3, 20])
    np.testing.assert_array_equal(found.kept, [3, 20, 39])
    np.testing.assert_array_equal(found.beliefs, task.beliefs(found.tokens)[:, [3, 20, 39]])
    np.testing.assert_array_equal(found.answers, task.probabilities(found.tokens)[found.rows, found.columns])
    np.testing.assert_array_equal(found.log_evidence, task.log_evidence(found.tokens))


class Padded(PartiallyObserved):
    """The same sequences, cut to 20 to 40 tokens; what follows is padding that no trace could hold."""

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        whole = super().batch(batch_size, length, rng, start)
        lengths = 20 + np.arange(batch_size) % 21
        real = np.arange(length) < lengths[:, None]
        padding = self.vocabulary_size - 1
        return Batch(
            np.where(real, whole.tokens, padding),
            np.where(real, whole.targets, 0),
            np.where(real, whole.weights, 0).astype(np.float32),
            lengths,
        )


def test_padding_is_no_part_of_a_sequence() -> None:
    plain = observed_task()
    padded = Padded(plain.automaton)
    cut, whole = (exact_sequences(task, 6, 40, seed=2, kept=[10, 30]) for task in (padded, plain))
    real = np.arange(40) < cut.lengths[:, None]
    assert cut.lengths.tolist() == [20, 21, 22, 23, 24, 25]
    np.testing.assert_array_equal(cut.log_evidence[real], whole.log_evidence[real])
    assert np.isnan(cut.log_evidence[~real]).all()
    np.testing.assert_array_equal(cut.beliefs[:, 0], whole.beliefs[:, 0])
    assert np.isnan(cut.beliefs[:, 1]).all()
    inside = real[whole.rows, whole.columns]
    order = np.lexsort((cut.columns, cut.rows))
    same_order = np.lexsort((whole.columns[inside], whole.rows[inside]))
    for name in ("rows", "columns", "tokens_since", "reveals_since", "targets", "answers"):
        expected = getattr(whole, name)[inside][same_order]
        np.testing.assert_array_equal(getattr(cut, name)[order], expected, err_msg=name)


@pytest.mark.parametrize(("first", "after"), [(0, 40), (7, 19)])
def test_places_of_a_block(first: int, after: int) -> None:
    found = exact_sequences(observed_task(), 6, 40, seed=0, kept=[])
    places = found.places_in(slice(2, 4), first, after)
    assert set(found.rows[places]) <= {2, 3}
    others = np.setdiff1d(np.arange(len(found.rows)), places)
    inside = (found.rows >= 2) & (found.rows < 4) & (found.columns >= first) & (found.columns < after)
    assert not inside[others].any()
    assert inside[places].all()
