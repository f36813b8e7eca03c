"""Tasks about a hidden state: beliefs, evidence and updates against the automaton's filter in log space."""

import numpy as np
import pytest

from automata.errors import InputError
from automata.probabilistic import NO_VALUE, ProbabilisticAutomaton, lazy_swaps, noisy_parity
from automata.tasks.partially_observed import PartiallyObserved, Target


def events(task: PartiallyObserved, tokens: list[int]) -> tuple[list[int], list[int]]:
    """The automaton's tokens and values: a reveal stands where its value does, and not before it."""
    automaton = task.automaton
    known = len(automaton.token_names)
    kept = [place for place, token in enumerate(tokens) if token < len(automaton.actions) or token >= known]
    given, values = [], []
    for place in kept:
        if tokens[place] < known:
            given.append(tokens[place])
            values.append(NO_VALUE)
        else:
            given.append(tokens[place - 1])
            names = automaton.value_names[automaton.token_names[tokens[place - 1]]]
            values.append(names.index(task.token_names[tokens[place]].removeprefix("=")))
    return given, values


@pytest.mark.parametrize("target", ["reveals", "states"])
def test_beliefs_and_evidence_are_those_of_the_automaton(target: Target) -> None:
    task = PartiallyObserved(lazy_swaps(3, 0.3), target, 0.4)
    batch = task.batch(8, 40, np.random.default_rng(0))
    beliefs, evidence = task.beliefs(batch.tokens), task.log_evidence(batch.tokens)
    for row, tokens in enumerate(batch.tokens.tolist()):
        asks = np.array([len(task.automaton.actions) <= t < len(task.automaton.token_names) for t in tokens])
        log_beliefs, log_evidence = task.automaton.log_beliefs(*events(task, tokens))
        # products and sums of non-negative numbers: 40 steps of 6 terms, relative error below 40 · 7 · 2⁻⁵³
        np.testing.assert_allclose(beliefs[row][~asks], np.exp(log_beliefs), rtol=1e-12)
        np.testing.assert_allclose(evidence[row][~asks], log_evidence, atol=1e-12)
        assert (evidence[row][asks] == 0).all()


def test_the_update_of_the_exact_belief_is_the_next_exact_belief() -> None:
    task = PartiallyObserved(lazy_swaps(3, 0.3), "reveals", 0.4)
    tokens = task.batch(8, 40, np.random.default_rng(2)).tokens
    beliefs = task.beliefs(tokens)
    before = np.concatenate(
        [np.broadcast_to(task.initial_belief, beliefs[:, :1].shape), beliefs[:, :-1]], axis=1
    )
    # the same products in float64; only the order of the sums may differ
    np.testing.assert_allclose(task.updated(before, tokens), beliefs, rtol=0, atol=1e-15)
    some = np.array([7, 3])
    np.testing.assert_array_equal(
        task.updated(before[:, some], tokens, some), task.updated(before, tokens)[:, some]
    )
    # a belief that the token contradicts is left without mass
    wrong = task.updated(1.0 * (beliefs == 0), tokens)
    assert (wrong.sum(axis=-1) == 0).any()


def test_full_reveals_are_those_that_show_the_state() -> None:
    task = PartiallyObserved(lazy_swaps(3), "reveals", 0.5)
    tokens = task.batch(20, 40, np.random.default_rng(3)).tokens
    asked_all = tokens[:, :-1] == task.token_names.index("all")
    expected = np.concatenate([np.zeros((20, 1), bool), asked_all], axis=1)
    assert expected.any()
    np.testing.assert_array_equal(task.fully_revealed(tokens), expected)
    values = tokens >= len(task.automaton.token_names)
    np.testing.assert_array_equal(task.revealed(tokens), values)


def test_an_action_that_resets_is_no_reveal_though_it_leaves_one_state() -> None:
    automaton = ProbabilisticAutomaton(
        ["p", "q"], [0.5, 0.5], {"reset": [[1, 1], [0, 0]], "stay": np.eye(2)}, {"look": ["p", "q"]}
    )
    task = PartiallyObserved(automaton)
    tokens = [[0, 1, 2, task.token_names.index("=p")]]
    assert task.revealed(tokens).tolist() == [[False, False, False, True]]
    assert task.fully_revealed(tokens).tolist() == [[False, False, False, True]]


@pytest.mark.parametrize(
    ("reveals", "expected"),
    [
        ({"left": [1, 2], "right": [2, 1]}, None),  # both show the state: no partial reveal
        ({"left": [1, 1, 2, 2], "right": [2, 2, 1, 1]}, None),  # states that look the same
        ({"left": [1, 1, 2], "right": [1, 2, 2]}, None),  # no permutations
    ],
)
def test_reveals_that_are_no_variables(reveals: dict[str, list[int]], expected: object) -> None:
    size = len(next(iter(reveals.values())))
    automaton = ProbabilisticAutomaton(
        [f"q{number}" for number in range(size)], np.full(size, 1 / size), {"stay": np.eye(size)}, reveals
    )
    assert PartiallyObserved(automaton).arrangements is expected


def test_a_contradiction_names_sequence_and_position() -> None:
    task = PartiallyObserved(noisy_parity(0.0))
    number = task.token_names.index
    right = [number(name) for name in ("1", "parity", "=odd", "1")]
    wrong = [number(name) for name in ("1", "1", "parity", "=odd")]
    for call in (task.beliefs, task.probabilities, task.log_evidence):
        with pytest.raises(InputError, match="token '=odd' at position 3 of sequence 1 contradicts"):
            call([right, wrong])


def test_beliefs_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match=r"beliefs has shape \[1, 2\]; give \[1, 2, 2\]"):
        PartiallyObserved(noisy_parity(0.1)).updated(np.ones((1, 2)), [[0, 1]])


def test_beliefs_beyond_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: type("Memory", (), {"available": 100})())
    with pytest.raises(InputError, match="the beliefs of 20 tokens over 2 states need"):
        PartiallyObserved(noisy_parity(0.1)).beliefs(np.zeros((2, 10), dtype=np.int64))
