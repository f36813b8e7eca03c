"""The marginals of a belief: against the enumeration of hidden outcomes, and where they do not suffice."""

from fractions import Fraction
from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.typing import NDArray

from automata.errors import InputError
from automata.probabilistic.marginal_filter import (
    MarginalFilter,
    belief_from_marginals,
    columns_held,
    three_variables_closed,
)
from automata.probabilistic.named_pfsas import hidden_permutations, lazy_swaps, noisy_parity, unknown_coin
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.probabilistic.scope import marginal_scope
from tests.automata.probabilistic.random_automata import enumerated_masses, random_mixtures, random_trace
from tests.refusals import refusals

NAMES = ["variable 1", "variable 2", "variable 3"]
SHOWN: dict[str, list[object]] = {
    name: [int(state[i]) for state in lazy_swaps(3).states] for i, name in enumerate(NAMES)
}


@pytest.mark.parametrize("variables", [2, 3])
def test_it_is_exact_on_random_mixtures_with_full_reveals(variables: int) -> None:
    rng = np.random.default_rng(variables)
    names = [f"variable {i + 1}" for i in range(variables)]
    for _ in range(40):
        automaton = random_mixtures(rng, variables)
        tokens, values = random_trace(automaton, rng, 5, ("all",))
        filtered = MarginalFilter(automaton, names)
        masses = enumerated_masses(automaton, tokens, values)
        expected = filtered.of(masses / masses.sum())
        # a few products of numbers up to 1 in float64
        np.testing.assert_allclose(filtered.run(tokens, values)[-1], expected, rtol=0, atol=1e-12)


def test_two_variables_are_exact_with_all_reveals() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        automaton = random_mixtures(rng, 2)
        filtered = MarginalFilter(automaton, NAMES[:2])
        assert all(filtered.acts(token) for token in automaton.token_names)
        tokens, values = random_trace(automaton, rng, 6, automaton.reveals)
        expected = filtered.of(automaton.beliefs(tokens, values))
        np.testing.assert_allclose(filtered.run(tokens, values), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("variables", [3, 4, 5])
def test_which_tokens_act_on_all_marginals(variables: int) -> None:
    automaton = lazy_swaps(variables, 0.3)
    filtered = MarginalFilter(automaton, automaton.reveals[1:])
    expected = [token in (*automaton.actions, "all") for token in automaton.token_names]
    assert [filtered.acts(token) for token in automaton.token_names] == expected


def test_the_mixing_matrix_is_doubly_stochastic() -> None:
    automaton = random_mixtures(np.random.default_rng(5), 4)
    filtered = MarginalFilter(automaton, automaton.reveals[1:])
    for matrix in filtered.linear.values():
        mixing = matrix.reshape(4, 4, 4, 4)[:, 0, :, 0]
        assert mixing.min() >= 0
        np.testing.assert_allclose(np.concatenate([mixing.sum(0), mixing.sum(1)]), 1, rtol=0, atol=1e-14)


def test_a_swap_that_depends_on_what_is_held_does_not_act_on_marginals() -> None:
    """Swap variables 1 and 2 if the third holds 3."""
    arrangements = lazy_swaps(3).states
    matrix = np.zeros((6, 6))
    for column, state in enumerate(arrangements):
        after = state[1] + state[0] + state[2] if state[2] == "3" else state
        matrix[arrangements.index(after), column] = 1
    automaton = ProbabilisticAutomaton(arrangements, np.full(6, 1 / 6), {"swap if": matrix}, SHOWN)
    with pytest.raises(InputError, match="'swap if' does not act on the marginals"):
        MarginalFilter(automaton, NAMES)


def test_renaming_of_values_acts_on_marginals_though_it_mixes_columns() -> None:
    arrangements = lazy_swaps(3).states
    renamed = [arrangements.index(state.translate(str.maketrans("123", "231"))) for state in arrangements]
    matrix = 0.4 * np.eye(6) + 0.6 * np.eye(6)[:, renamed]
    automaton = ProbabilisticAutomaton(arrangements, [0.5, 0, 0.2, 0, 0.3, 0], {"rename": matrix}, SHOWN)
    filtered = MarginalFilter(automaton, NAMES)
    expected = filtered.of(automaton.beliefs([0, 0], [-1, -1]))
    np.testing.assert_allclose(filtered.run([0, 0], [-1, -1]), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", ["condition", "balance"])
def test_the_rules_are_probabilities_and_not_exact(rule: str) -> None:
    automaton = lazy_swaps(4, 0.5)
    rng = np.random.default_rng(3)
    filtered = MarginalFilter(automaton, automaton.reveals[1:], rule)  # type: ignore[arg-type]
    tokens = np.array([[0, 1, 2, 7, 3, 4, 8, 5, 0, 9]] * 20)
    _, values = automaton.sample(tokens, rng)
    found = filtered.run(tokens, values)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=0, atol=1e-12)
    # balanced to what 200 sweeps reach: where zeros leave no doubly stochastic matrix near, they are slow
    columns = np.abs(found.sum(axis=-2) - 1).max()
    assert columns < 0.01 if rule == "balance" else columns > 0.1, columns
    error = np.abs(found - filtered.of(automaton.beliefs(tokens, values))).max()
    assert 0.01 < error < 1


def test_a_partial_reveal_after_a_full_one_and_a_swap() -> None:
    """Two arrangements, which P tells apart: the rule is exact here."""
    automaton = lazy_swaps(3, 0.25)
    filtered = MarginalFilter(automaton, NAMES, "balance")
    for swap, reveal in combinations(range(3), 2):
        tokens = np.array([3, swap, 4 + reveal])
        states, values = automaton.sample(tokens, np.random.default_rng(1))
        assert states.shape == (3,)
        expected = filtered.of(automaton.beliefs(tokens, values))
        np.testing.assert_allclose(filtered.run(tokens, values), expected, rtol=0, atol=1e-12)


THREE = lazy_swaps(3)
REFUSING = MarginalFilter(THREE, NAMES)


def test_marginals_of_what_is_no_arrangement() -> None:
    parity = MarginalFilter(noisy_parity(0.2), ["parity"])
    assert parity.run([1, 2], [-1, 1])[-1].tolist() == [[0.0, 1.0]]


def test_a_filter_beyond_the_memory_is_refused() -> None:
    places = [*range(100)]
    reveals: dict[str, list[object]] = {f"place {i}": [*places[i:], *places[:i]] for i in places}
    reveals |= {f"own {i}": [f"{i} {place}" for place in places] for i in places}
    automaton = ProbabilisticAutomaton(places, [1] + [0] * 99, {"stay": np.eye(100)}, reveals)
    with pytest.raises(InputError, match="memory"):
        MarginalFilter(automaton, [*reveals])


STAY3, STAY4 = (1, 2, 3), (1, 2, 3, 4)


def marginals_of(automaton: ProbabilisticAutomaton, beliefs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The value of each variable, ``[…, variable, value]``, by the names of the arrangements."""
    held = np.array([[int(digit) - 1 for digit in state] for state in automaton.states])
    marginals: NDArray[np.float64] = np.einsum("...q,qiv->...iv", beliefs, np.eye(held.shape[1])[held])
    return marginals


@pytest.mark.parametrize("probability", [0.25, 0.5, 1 / 3])
def test_hidden_swaps_of_three_from_a_known_start(probability: float) -> None:
    assert marginal_scope(lazy_swaps(3, probability), NAMES, 4).exists


def test_certain_swaps_reach_six_beliefs() -> None:
    scope = marginal_scope(lazy_swaps(3, 1.0), NAMES, 9)
    assert (scope.exists, scope.closed, scope.beliefs) == (True, True, 6)


def test_a_sufficient_condition_independent_permutation_matrices() -> None:
    """Rotations alone: three arrangements that disagree everywhere, so any reveal is full."""
    turns = {(1, 2, 3): 0.5, (2, 3, 1): 0.3, (3, 1, 2): 0.2}
    assert marginal_scope(hidden_permutations(3, {"turn": turns}), NAMES, 6).exists


def test_two_pairs_are_independent_unless_one_action_swaps_both() -> None:
    names = [f"variable {i}" for i in range(1, 5)]
    one, other, both = (2, 1, 3, 4), (1, 2, 4, 3), (2, 1, 4, 3)
    separate = {"one": {STAY4: 0.75, one: 0.25}, "other": {STAY4: 0.5, other: 0.5}}
    assert marginal_scope(hidden_permutations(4, separate), names, 4).exists
    joined = separate | {"one": {STAY4: 0.5, one: 0.5}, "both": {STAY4: 0.5, both: 0.5}}
    confusion = marginal_scope(hidden_permutations(4, joined), names, 4).confusion
    assert confusion is not None
    # "both" alone, or each pair by itself: every variable of a pair is anywhere in it with probability ½
    assert confusion.marginal[0][:2] == (Fraction(1, 2), Fraction(1, 2))
    assert confusion.first_marginal != confusion.second_marginal


TURN = dict.fromkeys([STAY3, (2, 3, 1), (3, 1, 2)], 1 / 3)


@pytest.mark.parametrize(
    "automaton",
    [lazy_swaps(4, 0.5), hidden_permutations(3, {"turn": TURN, "swap": {STAY3: 0.5, (2, 1, 3): 0.5}})],
    ids=["swaps of 4", "rotations and swaps of 3"],
)
def test_a_confusion_is_one_by_the_float_filter(automaton: ProbabilisticAutomaton) -> None:
    variables = automaton.reveals[1:]
    found = marginal_scope(automaton, variables, 4, [*automaton.actions, *variables]).confusion
    assert found is not None
    after = []
    for history in (found.first, found.second):
        trace = [*history, found.observation]
        tokens = automaton.encode([token for token, _ in trace])
        values = [automaton.value_names[token].index(value) if value else -1 for token, value in trace]
        marginals = marginals_of(automaton, automaton.beliefs(tokens, values))
        if len(trace) > 1:
            expected = np.array(found.marginal, dtype=float)
            np.testing.assert_allclose(marginals[-2], expected, rtol=0, atol=1e-12)
        after.append(marginals[-1])
    assert np.abs(after[0] - after[1]).max() > 0.01


def test_observations_that_the_first_belief_with_a_marginal_rules_out_are_compared() -> None:
    """Three beliefs with P = (½, ½): the start shows u alone; s or t tell the others apart."""
    states = [variable + tag for variable in "01" for tag in "uts"]
    resets = {"one": [0.25, 0.25, 0, 0.25, 0, 0.25], "other": [0.25, 0, 0.25, 0.25, 0.25, 0]}
    automaton = ProbabilisticAutomaton(
        states,
        [0.5, 0, 0, 0.5, 0, 0],
        {name: np.tile(np.array(belief)[:, None], 6) for name, belief in resets.items()},
        {"variable": [state[0] for state in states], "tag": [state[1] for state in states]},
    )
    scope = marginal_scope(automaton, ["variable"], 3)
    assert not scope.exists
    found = scope.confusion
    assert found is not None
    assert (found.first, found.second) == ((("one", ""),), (("other", ""),))
    assert found.observation == ("tag", "s")
    no, yes = Fraction(0), Fraction(1)
    assert found.marginal == ((Fraction(1, 2), Fraction(1, 2)),)
    assert (found.first_marginal, found.second_marginal) == (((no, yes),), ((yes, no),))
    # one reset alone: nothing is confused, and the same beliefs come again
    alone = marginal_scope(automaton, ["variable"], 6, ["one", "variable", "tag"])
    assert (alone.exists, alone.closed) == (True, True)


def test_without_partial_reveals_it_always_exists() -> None:
    automaton = lazy_swaps(4, 0.5)
    variables = automaton.reveals[1:]
    scope = marginal_scope(automaton, variables, 3, [*automaton.actions, "all"])
    assert scope.exists
    assert not scope.closed


def test_three_variables_determine_the_belief_along_random_traces() -> None:
    rng = np.random.default_rng(0)
    swaps = {(2, 1, 3): 0.2, (1, 2, 3): 0.8}
    turned_swap = {(2, 3, 1): 0.4, (1, 3, 2): 0.6}  # a rotation, with or without a swap
    anything = dict.fromkeys(permutations(STAY3), 1 / 6)
    automaton = hidden_permutations(3, {"swap": swaps, "turned": turned_swap, "any": anything})
    tokens = rng.choice(7, p=[0.35, 0.3, 0.05, 0.05, 0.1, 0.1, 0.05], size=(300, 20))
    beliefs = automaton.beliefs(tokens, automaton.sample(tokens, rng)[1])
    marginals = marginals_of(automaton, beliefs)
    # beliefs are off by 1e-13 after reveals of probability 1e-3, marginals and the determinant by as much
    np.testing.assert_allclose(belief_from_marginals(marginals), beliefs, rtol=0, atol=1e-12)


def test_a_hidden_rotation_leaves_the_formula() -> None:
    assert not three_variables_closed([0.5, 0, 0, 0.25, 0.25, 0])
    turned = (np.eye(3) + np.roll(np.eye(3), 1, axis=1)) / 2
    assert np.abs(belief_from_marginals(turned) - [0.5, 0, 0, 0.5, 0, 0]).max() > 0.1


test_bad_input_is_refused = refusals(
    (lambda: MarginalFilter(THREE, ["x"]), "variable 'x' is unknown"),
    (lambda: columns_held(THREE, []), "variables is empty"),
    (lambda: MarginalFilter(THREE, NAMES, "guess"), "rule 'guess' is unknown"),  # type: ignore[arg-type]
    (lambda: MarginalFilter(unknown_coin(), ["look"]), "'toss' does not act"),
    (lambda: REFUSING.run([0, 4], [-1, 0]), "at position 1: reveal 'variable 1' does not act"),
    (
        lambda: REFUSING.run([[0, 3], [0, 3]], [[-1, 0], [-1, 1]]),
        "at position 1 of sequence 1: reveal 'all' shows what has prob",
    ),
    (
        lambda: MarginalFilter(THREE, NAMES, "condition").run([4], [1]),
        "at position 0: reveal 'variable 1' shows what has prob",
    ),
    (
        lambda: THREE.beliefs([[0, 3], [0, 3]], [[-1, 0], [-1, 1]]),
        "impossible reveal at position 1 of sequence 1;",
    ),
    (lambda: REFUSING.acts("x"), "token 'x' at position 0 is unknown"),
    (lambda: marginal_scope(lazy_swaps(3), NAMES, -1), "length is -1"),
    (lambda: marginal_scope(lazy_swaps(3), NAMES, 8, most_beliefs=100), "more than 100 beliefs"),
    (lambda: marginal_scope(lazy_swaps(3, 0.5**0.5), NAMES, 2), "no fractions with denominators up to 10+ "),
    (lambda: marginal_scope(lazy_swaps(3), NAMES, 2, ["x"]), "token 'x' at position 0"),
    (lambda: belief_from_marginals(np.eye(2)), r"marginal has shape \[2, 2\]"),
    (lambda: three_variables_closed([1, 0, 0]), r"mixture has shape \[3\]"),
)
