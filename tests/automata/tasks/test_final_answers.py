"""Recognition and modular arithmetic: answers by brute force, words as likely as said."""

import tracemalloc
from collections import Counter
from itertools import product

import networkx as nx
import numpy as np
import pytest
import scipy.stats

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.language import draw_words
from automata.machines.named_dfas import dyck_dfa, parity_dfa
from automata.machines.regular_expressions import regular_expression_dfa
from automata.tasks.final_answers import FinalAnswer, ModularArithmetic, Recognition, SortedConnectivity
from automata.tasks.matrix_products import MatrixProducts
from automata.tasks.specification import task_from
from tests.refusals import refusals

LANGUAGES = ("(ab|ba)*", "a*b", "(a|b)*abb", "a?b{3}|(ab)*")


@pytest.mark.parametrize(
    "expression", [*LANGUAGES, ".*ab", "(aa|b)*a?", "b*(ab*ab*)*", "aaa.*|b{5}", "(a|b){4}"]
)
def test_all_lengths_are_asked_from_the_first_on(expression: str) -> None:
    """The automata have at most 9 states, whose circles of sets are shorter than 40."""
    task = Recognition(regular_expression_dfa(expression, "ab"))
    first, lengths = task.first_asked(), set(task.lengths(80).tolist())
    if first is None:
        assert not set(range(41, 81)) <= lengths
    else:
        assert set(range(first, 81)) <= lengths
        assert first == 1 or first - 1 not in lengths


def test_lengths_that_come_round_late_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of coprime lengths, together beyond two hundred million."""
    cycles = {f"{p}.{i}": f"{p}.{(i + 1) % p}" for p in (2, 3, 5, 7, 11, 13, 17, 19, 23) for i in range(p)}
    letters = [state for state in cycles if state.endswith(".0")]
    table = {state: dict.fromkeys(letters, after) for state, after in cycles.items()}
    table["q"] = {letter: letter for letter in letters}
    task = Recognition(DFA(table, letters, table, "q", ["2.0", "3.1"]))
    monkeypatch.setattr("automata.tasks.final_answers.MOST_READ", 10**4)
    with pytest.raises(InputError, match="have not come round within"):
        task.first_asked()


def test_the_machine_of_a_language_says_whether_every_beginning_is_in_it() -> None:
    machine = Recognition(regular_expression_dfa("(a|b)*abb")).machine()
    for word in product((0, 1), repeat=5):
        text = "".join("ab"[token] for token in word)
        answers = [text[: end + 1].endswith("abb") for end in range(5)]
        assert machine.read([word])[0].tolist() == answers


def asked(task: FinalAnswer, length: int, count: int = 400, seed: int = 0) -> list[tuple[str, int]]:
    """Words with their answers, as a batch asks them."""
    batch = task.batch(count, length, np.random.default_rng(seed))
    lengths = np.full(count, length) if batch.lengths is None else batch.lengths
    np.testing.assert_array_equal(batch.counted, np.arange(length) == lengths[:, None] - 1)
    assert not batch.tokens[np.arange(length) >= lengths[:, None]].any()
    return [
        ("".join(task.token_names[token] for token in row[:n]), int(targets[n - 1]))
        for row, targets, n in zip(batch.tokens, batch.targets, lengths, strict=True)
    ]


@pytest.mark.parametrize("expression", LANGUAGES)
def test_answers_are_those_of_the_language(expression: str) -> None:
    task = task_from(f"recognition:{expression}")
    assert isinstance(task, Recognition)
    dfa = regular_expression_dfa(expression)
    words = asked(task, 15)
    assert all(dfa.accepts(tuple(word)) == bool(answer) for word, answer in words)
    assert 0.4 < np.mean([answer for _, answer in words]) < 0.6
    assert len({len(word) for word, _ in words}) > 3


def test_rejected_words_are_close_to_the_language() -> None:
    dfa = regular_expression_dfa("(ab|ba)*")
    near = {
        word[:place] + letter + word[place + 1 :]
        for word in map("".join, product(("ab", "ba"), repeat=4))
        for place, letter in product(range(8), "ab")
    }
    words = [word for word, answer in asked(Recognition(dfa), 8, 4000) if not answer and len(word) == 8]
    share = np.mean([word in near for word in words])
    uniform = np.mean([word in near for word in map("".join, product("ab", repeat=8))])
    assert share > 0.55 > 1.5 * uniform


def test_lengths_with_words_of_one_kind_are_left_out() -> None:
    task = Recognition(dyck_dfa(3))
    assert task.lengths(7).tolist() == [2, 4, 6]
    assert task.lengths(1).tolist() == [1]  # nothing else is as short
    assert asked(task, 1, 5) == [(word, 0) for word, _ in asked(task, 1, 5)]


def test_memory_grows_with_the_length_of_words_and_not_with_the_square_of_the_states() -> None:
    """A square of these states would take 122 MiB."""
    dfa = DFA.from_table([[(q + 1) % 4000, q] for q in range(4000)], accepting=[7], alphabet="ab")
    _ = dfa.table, dfa.accepting_mask
    tracemalloc.start()
    assert Recognition(dfa).lengths(9).tolist() == [7, 8, 9]
    assert tracemalloc.get_traced_memory()[1] < 16 * 2**20
    tracemalloc.stop()


def test_drawn_words_are_uniform() -> None:
    dfa = regular_expression_dfa("(ab|b)*")
    words = draw_words(dfa, np.full(6000, 6), np.random.default_rng(0))
    drawn = Counter("".join(dfa.alphabet[letter] for letter in word) for word in words)
    every = [word for word in map("".join, product("ab", repeat=6)) if dfa.accepts(tuple(word))]
    # a true draw fails one time in 10^4; the seed is fixed
    assert scipy.stats.chisquare([drawn[word] for word in every]).pvalue > 1e-4
    assert sum(drawn[word] for word in every) == 6000


def test_words_of_a_state_with_few_of_them_are_drawn_at_any_length() -> None:
    """2^5000 words lead on from elsewhere, which no float holds beside the one of this state."""
    table = {"few": {"a": "few", "b": "none"}, "none": {"a": "none", "b": "none"}}
    many = {"many": {"a": "many", "b": "many"}}
    dfa = DFA([*table, *many], "ab", table | many, "few", ["few", "many"])
    assert not draw_words(dfa, [5000], np.random.default_rng(0)).any()


@pytest.mark.parametrize(("modulus", "depth"), [(5, 0), (2, 1), (7, 3), (10, 20)])
@pytest.mark.parametrize("length", [2, 9, 40])
def test_values_are_those_of_python(modulus: int, depth: int, length: int) -> None:
    words = asked(ModularArithmetic(modulus, depth), length)
    for word, answer in words:
        assert word.endswith("=")
        assert eval(word[:-1]) % modulus == answer


def test_brackets_are_as_deep_as_said_and_deep_ones_occur() -> None:
    words = [word for word, _ in asked(ModularArithmetic(5, 2), 40, 2000)]
    depths = [max(np.cumsum([(c == "(") - (c == ")") for c in word])) for word in words]
    assert set(depths) == {0, 1, 2}


@pytest.mark.parametrize("length", [16, 30, 90])
def test_connected_nodes_are_those_that_networkx_finds(length: int) -> None:
    words = asked(SortedConnectivity(), length, 200)
    for word, answer in words:
        pair, *texts = word.split(",")
        start, end = map(len, pair.split("?"))
        edges = [(len(first), len(second)) for first, second in (text.split(">") for text in texts)]
        assert edges == sorted(edges)
        assert len({first for first, _ in edges}) == len(edges)
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_edges_from(edges)
        graph.add_nodes_from([start, end])
        assert nx.has_path(graph, start, end) == bool(answer)
        assert graph.in_degree(end) > 0  # so that this tells nothing
    for size in {len(word) for word, _ in words}:  # nor does the length
        answers = [answer for word, answer in words if len(word) == size]
        assert sum(answers) * 2 == len(answers)


def test_matrices_are_multiplied_in_their_order() -> None:
    """In Python's integers, reduced at the end."""
    task = task_from({"matrices": {"size": 3, "modulus": 7}})
    batch = task.batch(5, 31, np.random.default_rng(0))
    for tokens, targets, counted in zip(batch.tokens, batch.targets, batch.counted, strict=True):
        assert np.flatnonzero(counted).tolist() == [8, 17, 26]
        product = np.eye(3, dtype=object)
        for matrix, place in zip(tokens[:27].reshape(3, 3, 3).astype(object), (8, 17, 26), strict=True):
            product = product.dot(matrix)
            assert targets[place] == product[0, 0] % 7


test_wrong_uses = refusals(
    (lambda: Recognition(regular_expression_dfa("[ab]*", "ab")), "the language of 'language' is everything"),
    (lambda: Recognition(regular_expression_dfa("[]", "ab")), "is empty|expression"),
    (lambda: SortedConnectivity(0), "edges is 0; give a probability above 0"),
    (lambda: SortedConnectivity().batch(1, 15, np.random.default_rng(0)), "length is 15, .* at least 16"),
    (lambda: SortedConnectivity(1).batch(64, 16, np.random.default_rng(0)), "too few words of at most 16"),
    (lambda: SortedConnectivity(1e-6).batch(10**6, 40, np.random.default_rng(0)), "few words of at most 40"),
    (lambda: MatrixProducts(9), "size is 9; give a number in 1 … 8"),
    (lambda: MatrixProducts().batch(1, 8, np.random.default_rng(0)), "a matrix has 9 entries"),
    (lambda: ModularArithmetic(11), "modulus is 11; give a number in 2 … 10"),
    (lambda: ModularArithmetic(5, 21), "depth is 21; give a number in 0 … 20"),
    (lambda: ModularArithmetic().batch(1, 1, np.random.default_rng(0)), "has no word so short"),
    (lambda: task_from({"recognition": 3}), "recognition is 3; give a regular expression"),
    (lambda: task_from({"recognition": {"transitions": {}}}), "initial is missing"),
    (lambda: task_from({"recognition": {"avoid": []}}), "field of recognition 'avoid' is unknown"),
    (lambda: task_from({"arithmetic": {"base": 3}}), "field of arithmetic 'base' is unknown"),
    (lambda: draw_words(parity_dfa(), [], np.random.default_rng(0)), r"lengths are \[\]"),
)
