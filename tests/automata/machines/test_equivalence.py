"""Operations on languages, and the words of a language, against pyformlang and brute force."""

import itertools
from collections import Counter
from itertools import product as words_of

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyformlang.finite_automaton import DeterministicFiniteAutomaton

from automata.errors import InputError
from automata.machines import equivalence
from automata.machines import named_dfas as named
from automata.machines.dfa import DFA
from automata.machines.equivalence import (
    Operation,
    distinguishing_word,
    is_equivalent,
    minimise,
    product,
    transition_monoid,
)
from automata.machines.language import count_words, sample_words, states_with_finite_future, word_of_rank
from automata.machines.mealy import MealyMachine, distinguishing_tokens, minimise_mealy
from automata.machines.regular_expressions import regular_expression_dfa
from automata.tasks.registry import make_task
from automata.tasks.word_problem import allowed_traces
from tests.refusals import refusals


@st.composite
def random_dfas(draw: st.DrawFn) -> DFA:
    size = draw(st.integers(1, 7))
    table = draw(
        st.lists(st.lists(st.integers(0, size - 1), min_size=2, max_size=2), min_size=size, max_size=size)
    )
    accepting = draw(st.sets(st.integers(0, size - 1)))
    return DFA.from_table(table, draw(st.integers(0, size - 1)), accepting)


def to_pyformlang(dfa: DFA) -> DeterministicFiniteAutomaton:
    oracle = DeterministicFiniteAutomaton()
    oracle.add_start_state(dfa.initial)
    for source, row in dfa.transitions.items():
        oracle.add_transitions([(source, symbol, target) for symbol, target in row.items()])
    for state in dfa.accepting:
        oracle.add_final_state(state)
    return oracle


def accepted(dfa: DFA, length: int) -> set[tuple[str, ...]]:
    return {word for n in range(length + 1) for word in words_of(dfa.alphabet, repeat=n) if dfa.accepts(word)}


def classes_by_refinement(dfa: DFA) -> int:
    """Moore's algorithm on the reachable states: the number of Myhill-Nerode classes."""
    reachable = {dfa.initial}
    while (
        grown := reachable | {dfa.transitions[q][a] for q in reachable for a in dfa.alphabet}
    ) != reachable:
        reachable = grown
    label: dict[object, object] = {q: q in dfa.accepting for q in reachable}
    while True:
        finer = {q: (label[q], *(label[dfa.transitions[q][a]] for a in dfa.alphabet)) for q in reachable}
        numbers = {signature: n for n, signature in enumerate(set(finer.values()))}
        if len(numbers) == len(set(label.values())):
            return len(numbers)
        label = {q: numbers[finer[q]] for q in reachable}


@given(dfa=random_dfas())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_minimise_keeps_the_language_in_as_few_states_as_there_are_classes(dfa: DFA) -> None:
    smallest = minimise(dfa)
    assert is_equivalent(dfa, smallest)
    assert len(smallest.states) == classes_by_refinement(dfa)
    assert minimise(smallest) == smallest


@given(first=random_dfas(), second=random_dfas())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_equivalence_and_distinguishing_words(first: DFA, second: DFA) -> None:
    word = distinguishing_word(first, second)
    left, right = to_pyformlang(first), to_pyformlang(second)
    # not is_equivalent_to, which in pyformlang 1.0.11 calls two empty languages different
    differ = [left.get_difference(right), right.get_difference(left)]
    assert (word is None) == all(difference.is_empty() for difference in differ)
    assert (word is None) == (minimise(first) == minimise(second))
    if word is not None:
        assert first.accepts(word) != second.accepts(word)
        if 0 < len(word) <= 8:
            assert accepted(first, len(word) - 1) == accepted(second, len(word) - 1)


@pytest.mark.parametrize(
    ("operation", "on_sets"),
    [
        ("intersection", set.intersection),
        ("union", set.union),
        ("difference", set.difference),
        ("symmetric difference", set.symmetric_difference),
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_products_are_operations_on_languages(operation: Operation, on_sets: object, seed: int) -> None:
    assert callable(on_sets)
    rng = np.random.default_rng(seed)
    first, second = (
        DFA.from_table(rng.integers(0, 4, (4, 2)), accepting=np.flatnonzero(rng.random(4) < 0.5).tolist())
        for _ in range(2)
    )
    expected = on_sets(accepted(first, 8), accepted(second, 8))
    assert accepted(product(first, second, operation), 8) == expected


def test_products_match_symbols_by_name() -> None:
    swapped = DFA.from_table([[1, 0], [0, 1]], accepting=[0], states=("even", "odd"), alphabet=("1", "0"))
    assert is_equivalent(named.parity_dfa(), swapped)
    assert len(product(named.parity_dfa(), swapped).states) == 2


def test_order_of_transition_monoids() -> None:
    # of a reset automaton with k values: k constant maps and the identity
    assert transition_monoid(named.flip_flop_dfa(4)).order == 5
    assert transition_monoid(named.modular_counter_dfa(6)).order == 6
    # a cycle, a swap and a merge of n points generate all n^n maps
    full = DFA.from_table([[1, 1, 0], [2, 0, 1], [3, 2, 2], [0, 3, 0]], accepting=[0], alphabet="csm")
    assert transition_monoid(full).order == 4**4
    names = transition_monoid(named.cyclic_navigation_dfa(4)).element_names
    assert names == ("ε", "left", "right", "left left")  # separated, as symbols have several letters


def test_transition_monoid_multiplies_words_in_reading_order() -> None:
    rng = np.random.default_rng(0)
    dfa = DFA.from_table(rng.integers(0, 4, (4, 2)), accepting=[0], alphabet="ab")
    monoid = transition_monoid(dfa)
    for x, y in rng.integers(0, monoid.order, size=(100, 2)).tolist():
        u, v, w = (monoid.element_names[e].replace("ε", "") for e in (x, y, monoid.multiply(x, y)))
        for state in dfa.states:
            started = DFA(dfa.states, dfa.alphabet, dfa.transitions, state, dfa.accepting)
            assert started.run(u + v)[-1] == started.run(w)[-1]


def test_a_product_of_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalence, "MOST_PAIRS", 5)
    assert len(product(named.modular_counter_dfa(5), named.modular_counter_dfa(5)).states) == 5
    with pytest.raises(InputError, match="more than 5 states"):
        product(named.modular_counter_dfa(2), named.modular_counter_dfa(3))


NO_11 = DFA.from_table([[0, 1], [0, 2], [2, 2]], accepting=[0, 1])


def test_words_without_11_are_counted_by_the_fibonacci_numbers() -> None:
    previous, current = 1, 1
    for length in range(300):
        assert count_words(NO_11, length) == current
        previous, current = current, previous + current


@pytest.mark.parametrize("dfa", [NO_11, named.dyck_dfa(2, ["()", "[]"]), regular_expression_dfa("(ab|b)*a*")])
def test_ranks_run_through_the_accepted_words_in_order(dfa: DFA) -> None:
    for length in range(7):
        words = [word for word in words_of(dfa.alphabet, repeat=length) if dfa.accepts(word)]
        assert count_words(dfa, length) == len(words)
        assert [word_of_rank(dfa, length, rank) for rank in range(len(words))] == words


def test_samples_are_uniform() -> None:
    words = sample_words(NO_11, 5, 13_000, np.random.default_rng(0))
    counts = Counter(words)
    assert len(counts) == 13
    chi_squared = sum((count - 1000) ** 2 / 1000 for count in counts.values())
    assert chi_squared < 32.9  # the 0.999 quantile of χ² with 12 degrees of freedom; the seed is fixed


@pytest.mark.parametrize("expression", ["(ab|ba)*", "ab", "a*|b", "a$b", "(a|b)*", "a(ba)*b|bb"])
def test_futures_are_finite_where_no_long_word_is_accepted(expression: str) -> None:
    dfa = regular_expression_dfa(expression, "ab")
    size = len(dfa.states)
    finite = states_with_finite_future(dfa)
    for state in dfa.states:
        after = DFA(dfa.states, dfa.alphabet, dfa.transitions, state, dfa.accepting)
        # pumping: infinitely many words are accepted exactly if one of n to 2n - 1 letters is
        is_infinite = any(count_words(after, length) for length in range(size, 2 * size))
        assert (state in finite) == (not is_infinite)


def random_machine(rng: np.random.Generator, states: int, tokens: int, answers: int) -> MealyMachine:
    return MealyMachine(
        rng.integers(0, states, (states, tokens)),
        rng.integers(0, answers, (states, tokens)),
        int(rng.integers(states)),
    )


def shortest_difference(first: MealyMachine, second: MealyMachine, longest: int) -> int | None:
    """The length of a shortest word with different answers, by trying all words."""
    for length in range(1, longest + 1):
        words = np.array(list(itertools.product(range(first.token_count), repeat=length)))
        if (first.read(words)[:, -1] != second.read(words)[:, -1]).any():
            return length
    return None


@pytest.mark.parametrize("seed", range(20))
def test_minimal_machines_and_distinguishing_words_are_those_of_brute_force(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = (random_machine(rng, states=4, tokens=2, answers=2) for _ in range(2))
    smallest = minimise_mealy(first)
    # two machines of n and m states that answer all words of n + m - 1 tokens alike are equivalent
    assert shortest_difference(first, smallest, 8) is None
    words = np.array(list(itertools.product(range(2), repeat=4)))
    # Myhill and Nerode: as many states as reachable states with different answers to all words
    rows = {
        MealyMachine(first.table, first.answers, state).read(words).tobytes()
        for state in np.unique(first.states(np.array(list(itertools.product(range(2), repeat=4)))))
    }
    assert smallest.state_count == len(rows)
    word = distinguishing_tokens(first, second)
    expected = shortest_difference(first, second, 8)
    assert (None if word is None else len(word)) == expected
    if word is not None:
        assert first.read([word])[0, -1] != second.read([word])[0, -1]


def test_equivalent_machines_minimise_to_the_same_tables() -> None:
    rng = np.random.default_rng(0)
    machine = random_machine(rng, states=6, tokens=3, answers=2)
    order = rng.permutation(6)
    rank = np.argsort(order)
    renamed = MealyMachine(rank[machine.table[order]], machine.answers[order], int(rank[machine.initial]))
    one, other = minimise_mealy(machine), minimise_mealy(renamed)
    np.testing.assert_array_equal(one.table, other.table)
    np.testing.assert_array_equal(one.answers, other.answers)
    assert distinguishing_tokens(machine, renamed) is None


def test_words_that_a_task_avoids_tell_nothing_apart() -> None:
    task = make_task("dyck-4")
    exact = task.machine()
    sink = task.avoid[0]
    # closing a bracket that is not open leads elsewhere than in the task, which never draws such words
    table = np.where(exact.table == sink, exact.initial, exact.table)
    lenient = MealyMachine(table, table, exact.initial)
    assert distinguishing_tokens(lenient, exact) == (1,)
    assert distinguishing_tokens(lenient, exact, allowed_traces(task, range(task.state_count))) is None


MACHINE = MealyMachine([[0, 0]], [[0, 1]])
test_bad_input_is_refused = refusals(
    (lambda: product(named.parity_dfa(), named.dyck_dfa(1)), r"alphabets differ in '\(', '\)', '0', '1'"),
    (lambda: product(named.parity_dfa(), named.parity_dfa(), "unoin"), "did you mean 'union'"),  # type: ignore[arg-type]
    (lambda: transition_monoid(named.modular_counter_dfa(6), largest_order=5), "largest_order is 5"),
    (lambda: count_words(NO_11, -1), "length is -1"),
    (lambda: sample_words(named.dyck_dfa(2), 3, 1, np.random.default_rng(0)), "length is 3 and no word"),
    (lambda: sample_words(NO_11, 3, -1, np.random.default_rng(0)), "count is -1"),
    (lambda: word_of_rank(NO_11, 3, 5), "rank is 5"),
    (lambda: MealyMachine([[0, 1]], [[0, 1]]), "state numbers holds 1"),
    (lambda: MealyMachine([[0]], [[0, 1]]), r"table has shape \[1, 1\] and answers \[1, 2\]"),
    (lambda: MealyMachine([[0]], [[-1]]), "answers holds -1"),
    (lambda: MealyMachine([[0]], [[0]], 1), "state numbers holds 1"),
    (lambda: MACHINE.read([[0, 2]]), "tokens holds 2"),
    (lambda: MACHINE.read([0, 1]), r"tokens has shape \[2\]"),
    (
        lambda: distinguishing_tokens(MACHINE, MealyMachine([[0]], [[0]])),
        "one machine reads 2 tokens, the other 1",
    ),
)
