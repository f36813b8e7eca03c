from itertools import combinations

import numpy as np
import pytest

from automata.errors import InputError
from automata.probabilistic.marginal_filter import MarginalFilter, columns_held
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity, unknown_coin
from automata.probabilistic.pfsa import ProbabilisticAutomaton
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
test_bad_input_names_the_place = refusals(
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
)


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
