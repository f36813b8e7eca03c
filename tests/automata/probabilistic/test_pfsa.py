import copy
import pickle
from collections.abc import Callable
from math import log
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from automata.errors import InputError
from automata.machines.named_dfas import dyck_dfa
from automata.monoids.groups import symmetric_group
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.specification import task_from
from tests.refusals import refusals, refused_changes

MATRICES: dict[str, ArrayLike] = {"a": [[0.5, 0, 0.1], [0.25, 0, 0.2], [0.25, 1, 0.7]], "b": np.eye(3)}
REVEALS = {"full": ["x", "y", "z"], "partial": ["low", "low", "high"]}


@pytest.fixture(name="automaton")
def three_states() -> ProbabilisticAutomaton:
    return ProbabilisticAutomaton(["x", "y", "z"], [0.6, 0.4, 0.0], MATRICES, REVEALS)


def test_a_batch_is_its_sequences(automaton: ProbabilisticAutomaton) -> None:
    rng = np.random.default_rng(0)
    tokens = rng.integers(0, 4, size=(2, 5, 8))
    _, values = automaton.sample(tokens, rng)
    together, evidence = automaton.log_beliefs(tokens, values)
    assert together.shape == (2, 5, 8, 3)
    for row in np.ndindex(2, 5):
        alone, alone_evidence = automaton.log_beliefs(tokens[row], values[row])
        assert (together[row] == alone).all()
        assert (evidence[row] == alone_evidence).all()


def test_sampled_states_have_the_exact_distribution(automaton: ProbabilisticAutomaton) -> None:
    tokens = np.tile(automaton.encode(["a", "a", "b", "a"]), (20_000, 1))
    states, values = automaton.sample(tokens, np.random.default_rng(0))
    exact = automaton.beliefs(tokens[0], values[0])
    assert (values == NO_VALUE).all()
    for position in range(4):
        shares = np.bincount(states[:, position], minlength=3) / 20_000
        # five standard deviations of a share
        assert (
            abs(shares - exact[position]) <= 5 * np.sqrt(exact[position] * (1 - exact[position]) / 20_000)
        ).all()


def test_reveals_show_the_hidden_state(automaton: ProbabilisticAutomaton) -> None:
    rng = np.random.default_rng(1)
    tokens = rng.integers(0, 4, size=(50, 20))
    states, values = automaton.sample(tokens, rng)
    names = np.array(automaton.states)[states]
    for reveal, number in (("full", 2), ("partial", 3)):
        shown = np.array(automaton.value_names[reveal])[values[tokens == number]]
        expected = [REVEALS[reveal][automaton.states.index(name)] for name in names[tokens == number]]
        assert shown.tolist() == expected
    assert (automaton.is_full("full"), automaton.is_full("partial")) == (True, False)


def test_long_traces_have_the_closed_form() -> None:
    automaton = noisy_parity(0.25)
    tokens = np.tile(automaton.encode(["1", "parity"]), 5000)
    _, values = automaton.sample(tokens, np.random.default_rng(0))
    seen = values[1::2]
    flips = int((np.diff(seen, prepend=0) != 0).sum())
    expected = flips * log(0.75) + (5000 - flips) * log(0.25)
    # 10,000 additions to a sum of about 3,000, each rounding by at most 2e-13
    assert abs(float(automaton.log_likelihood(tokens, values)) - expected) < 1e-9


def test_impossible_reveals() -> None:
    automaton = noisy_parity(0.0)
    tokens, values = automaton.encode(["1", "parity", "1", "parity"]), [NO_VALUE, 0, NO_VALUE, 0]
    assert automaton.log_likelihood(tokens, values) == -np.inf
    with pytest.raises(InputError, match="impossible reveal at position 1"):
        automaton.beliefs(tokens, values)


def test_deterministic_special_case_is_the_automaton() -> None:
    dfa = dyck_dfa(2)
    automaton = ProbabilisticAutomaton.from_dfa(dfa)
    word = list("(())()")
    names = [name for symbol in word for name in (symbol, "state", "accepting")]
    tokens = automaton.encode(names)
    states, values = automaton.sample(tokens, np.random.default_rng(0))
    run = dfa.run(word)[1:]
    assert [automaton.states[state] for state in states[::3]] == list(run)
    assert [automaton.value_names["state"][value] for value in values[1::3]] == list(run)
    assert [automaton.value_names["accepting"][value] for value in values[2::3]] == [str(not q) for q in run]
    assert automaton.log_likelihood(tokens, values) == 0
    assert (automaton.beliefs(tokens, values).argmax(axis=1) == states).all()


def test_immutable(automaton: ProbabilisticAutomaton) -> None:
    with pytest.raises(ValueError, match="read-only"):
        automaton.matrices[0, 0, 0] = 1
    with pytest.raises(AttributeError):
        automaton.states = ()  # type: ignore[misc]


test_bad_automata_are_refused = refused_changes(
    ProbabilisticAutomaton,
    {"states": ["x", "y"], "initial": [1, 0], "actions": {"a": np.eye(2)}, "reveals": {"r": [0, 1]}},
    ({"actions": {"a": [[0.5, 0], [0.4, 1]]}}, "action 'a' is not stochastic: column 'x' sums to 0.9"),
    ({"actions": {"a": [[1.5, 0], [-0.5, 1]]}}, "column 'x' sums to 1 with smallest entry -0.5"),
    ({"actions": {"a": [[float("nan"), 0], [0, 1]]}}, "column 'x' sums to nan"),
    ({"actions": {"a": [[1, 0, 0]]}}, r"action 'a' has shape \[1, 3\]"),
    ({"initial": [0.5, 0.6]}, "initial is not stochastic: distribution sums to 1.1"),
    ({"initial": [1.0]}, r"initial has shape \[1\]"),
    ({"states": ["x", "x"]}, "states holds 'x' twice"),
    ({"reveals": {"r": [1]}}, "reveal 'r' shows 1 values"),
    ({"reveals": {"a": [1, 2]}}, "together holds 'a' twice"),
    ({"actions": {}, "reveals": {}}, "both empty"),
)


THREE_STATES = ProbabilisticAutomaton(["x", "y", "z"], [0.6, 0.4, 0.0], MATRICES, REVEALS)


@pytest.mark.parametrize("again", [lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy, copy.copy])
@pytest.mark.parametrize("name", ["noisy-parity-states", "lazy-swaps-3-states"])
def test_pickled_and_copied_it_gives_the_same_beliefs(again: Callable[[object], Any], name: str) -> None:
    task = task_from(name)
    assert isinstance(task, PartiallyObserved)
    assert again(task).name == task.name
    automaton, back = task.automaton, again(task.automaton)
    tokens = np.arange(len(automaton.token_names))
    _, values = automaton.sample(tokens, np.random.default_rng(0))
    assert back.value_names == automaton.value_names
    assert np.array_equal(back.beliefs(tokens, values), automaton.beliefs(tokens, values))
    assert not back.matrices.flags.writeable


def test_certain_swaps_are_the_word_problem_of_s5() -> None:
    S5 = symmetric_group(5)
    automaton = lazy_swaps(5, probability=1.0)
    assert automaton.states == S5.element_names
    tokens = np.random.default_rng(1).integers(0, 10, size=(20, 15))
    states, _ = automaton.sample(tokens, np.random.default_rng(2))
    for sequence, labels in zip(tokens, states, strict=True):
        product = S5.identity
        for token, label in zip(sequence, labels, strict=True):
            i, j = (int(digit) for digit in automaton.actions[token].split()[1:])
            swap = [1, 2, 3, 4, 5]
            swap[i - 1], swap[j - 1] = swap[j - 1], swap[i - 1]
            product = S5.multiply(product, S5.index("".join(map(str, swap))))
            assert label == product


def test_reveals_of_lazy_swaps() -> None:
    automaton = lazy_swaps(4, swaps=[(1, 2), (2, 3)])
    assert automaton.actions == ("swap 1 2", "swap 2 3")
    assert automaton.is_full("all")
    assert not automaton.is_full("variable 1")
    for variable in range(4):
        values = automaton.value_names[f"variable {variable + 1}"]
        readings = automaton.readings[1 + variable]
        assert [values[reading] for reading in readings] == [state[variable] for state in automaton.states]


@pytest.mark.parametrize("failure", [0.0, 0.1, 0.5, 1.0])
def test_noisy_parity_closed_form(failure: float) -> None:
    automaton = noisy_parity(failure)
    ones = np.arange(1, 31)
    odd = automaton.beliefs(np.ones(30, dtype=int), np.full(30, -1))[:, 1]
    # thirty products of float64 numbers of at most 1
    np.testing.assert_allclose(odd, (1 - (2 * failure - 1.0) ** ones) / 2, rtol=0, atol=1e-14)


test_bad_input_is_refused = refusals(
    (lambda: THREE_STATES.beliefs([4], [0]), "token 4 at position 0"),
    (lambda: THREE_STATES.beliefs([], []), "at least one token"),
    (lambda: THREE_STATES.beliefs([0.5], [0]), "float64"),
    (lambda: THREE_STATES.beliefs([2, 3], [0]), r"values has shape \[1\]"),
    (lambda: THREE_STATES.beliefs([0, 3], [-1, 2]), "2 at position 1 is not one that reveal 'partial' shows"),
    (lambda: THREE_STATES.encode(["a", "c"]), "token 'c' at position 1 is unknown"),
    (lambda: lazy_swaps(7), "variables is 7"),
    (lambda: lazy_swaps(3, 1.5), r"probability is 1\.5"),
    (lambda: lazy_swaps(3, swaps=[(2, 1)]), r"swaps holds \(2, 1\)"),
    (lambda: noisy_parity(-1), "failure_probability is -1"),
)
