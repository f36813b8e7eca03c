from fractions import Fraction

import numpy as np
import pytest

from automata.probabilistic.marginal_filter import belief_from_marginals, three_variables_closed
from automata.probabilistic.named_pfsas import hidden_permutations, lazy_swaps
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.probabilistic.scope import marginal_scope
from tests.refusals import refusals

NAMES = ["variable 1", "variable 2", "variable 3"]
STAY3, STAY4 = (1, 2, 3), (1, 2, 3, 4)


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


@pytest.mark.parametrize(
    "automaton",
    [
        lazy_swaps(4, 0.5),
        hidden_permutations(
            3,
            {
                "turn": {STAY3: 1 / 3, (2, 3, 1): 1 / 3, (3, 1, 2): 1 / 3},
                "swap": {STAY3: 0.5, (2, 1, 3): 0.5},
            },
        ),
    ],
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
        beliefs = automaton.beliefs(tokens, values)
        held = np.array([[int(digit) - 1 for digit in state] for state in automaton.states])
        one_hot = np.eye(held.shape[1])[held]
        marginals = np.einsum("tq,qiv->tiv", beliefs, one_hot)
        if len(trace) > 1:
            np.testing.assert_allclose(
                marginals[-2], np.array(found.marginal, dtype=float), rtol=0, atol=1e-12
            )
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
    anything = dict.fromkeys([(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 3, 1), (3, 1, 2), (3, 2, 1)], 1 / 6)
    automaton = hidden_permutations(3, {"swap": swaps, "turned": turned_swap, "any": anything})
    tokens = rng.choice(7, p=[0.35, 0.3, 0.05, 0.05, 0.1, 0.1, 0.05], size=(300, 20))
    beliefs = automaton.beliefs(tokens, automaton.sample(tokens, rng)[1])
    held = np.array([[int(digit) - 1 for digit in state] for state in automaton.states])
    marginals = np.einsum("btq,qiv->btiv", beliefs, np.eye(3)[held])
    # beliefs are off by 1e-13 after reveals of probability 1e-3, marginals and the determinant by as much
    np.testing.assert_allclose(belief_from_marginals(marginals), beliefs, rtol=0, atol=1e-12)


def test_a_hidden_rotation_leaves_the_formula() -> None:
    assert not three_variables_closed([0.5, 0, 0, 0.25, 0.25, 0])
    turned = (np.eye(3) + np.roll(np.eye(3), 1, axis=1)) / 2
    assert np.abs(belief_from_marginals(turned) - [0.5, 0, 0, 0.5, 0, 0]).max() > 0.1


def test_a_reveal_of_the_parity_leaves_the_formula() -> None:
    swaps = lazy_swaps(3, 0.3)
    signs = ["even", "odd", "odd", "even", "even", "odd"]
    automaton = ProbabilisticAutomaton(
        swaps.states, swaps.initial, dict(zip(swaps.actions, swaps.matrices, strict=True)), {"parity": signs}
    )
    beliefs = automaton.beliefs(automaton.encode([*automaton.actions, "parity"]), [-1, -1, -1, 0])
    held = np.array([[int(digit) - 1 for digit in state] for state in automaton.states])
    before, after = np.einsum("tq,qiv->tiv", beliefs, np.eye(3)[held])[2:]
    np.testing.assert_allclose(belief_from_marginals(before), beliefs[2], rtol=0, atol=1e-15)
    assert beliefs[3] @ [1 if sign == "even" else -1 for sign in signs] == pytest.approx(1, abs=1e-15)
    assert np.linalg.det(after) == pytest.approx(0.2287, abs=5e-5)
    assert np.abs(belief_from_marginals(after) - beliefs[3]).max() > 0.1


test_bad_input = refusals(
    (lambda: marginal_scope(lazy_swaps(3), NAMES, -1), "length is -1"),
    (lambda: marginal_scope(lazy_swaps(3), NAMES, 8, most_beliefs=100), "more than 100 beliefs"),
    (
        lambda: marginal_scope(lazy_swaps(3, 0.5**0.5), NAMES, 2),
        "no fractions with denominators up to 1000000",
    ),
    (lambda: marginal_scope(lazy_swaps(3), NAMES, 2, ["x"]), "token 'x' at position 0"),
    (lambda: belief_from_marginals(np.eye(2)), r"marginal has shape \[2, 2\]"),
    (lambda: three_variables_closed([1, 0, 0]), r"mixture has shape \[3\]"),
)
