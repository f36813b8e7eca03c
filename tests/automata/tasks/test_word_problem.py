import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.named_dfas import dyck_dfa, flip_flop_dfa, parity_dfa
from automata.monoids.groups import alternating_group, cyclic_group, reset_monoid, symmetric_group
from automata.monoids.monoid import Monoid, direct_product, find_isomorphism
from automata.tasks.interface import with_specification
from automata.tasks.registry import make_task, registered_task, task_names
from automata.tasks.word_problem import WordProblem, follow
from tests.refusals import refusals, refused_changes

MERRILL_A5 = Path(__file__).parents[4] / "shared" / "data" / "word-problem"


@pytest.mark.parametrize(
    "monoid",
    [
        alternating_group(4),
        reset_monoid(3),
        direct_product(symmetric_group(3), reset_monoid(2)),
        cyclic_group(300),
    ],
    ids=lambda monoid: monoid.name,
)
def test_states_are_the_products(monoid: Monoid) -> None:
    tokens, states = WordProblem.from_monoid(monoid).sample(5, 30, np.random.default_rng(1))
    for sequence, labels in zip(tokens.tolist(), states.tolist(), strict=True):
        assert labels == [monoid.multiply(*sequence[: t + 1]) for t in range(30)]


@pytest.mark.parametrize("dfa", [parity_dfa(), flip_flop_dfa(3), dyck_dfa(3, ["()", "[]"])])
def test_states_are_the_run_of_the_automaton(dfa: DFA) -> None:
    problem = WordProblem.from_dfa(dfa)
    tokens, states = problem.sample(10, 20, np.random.default_rng(2))
    for sequence, labels in zip(tokens, states, strict=True):
        run = dfa.run([problem.token_names[token] for token in sequence])
        assert [problem.state_names[label] for label in labels] == [str(state) for state in run[1:]]


def read_rows(length: int) -> list[NDArray[np.int64]]:
    with (MERRILL_A5 / f"A5={length}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    return [np.array([row[field].split() for row in rows], dtype=np.int64) for field in ("input", "target")]


@pytest.mark.skipif(
    not MERRILL_A5.is_dir(), reason="the A5 files of Merrill et al. do not lie beside the repository"
)
def test_reproduces_the_a5_files_up_to_numbering() -> None:
    inputs, targets = read_rows(2)
    assert len(np.unique(inputs, axis=0)) == 3600  # every product once: the file is a Cayley table
    table = np.empty((60, 60), dtype=np.int64)
    table[inputs[:, 0], inputs[:, 1]] = targets[:, 1]
    theirs = Monoid(table, name="A5 of Merrill et al.")
    numbering = find_isomorphism(theirs, alternating_group(5))
    assert numbering is not None
    problem = make_task("A5")
    for length in (2, 5, 10, 16):
        inputs, targets = read_rows(length)
        assert (problem.states(numbering[inputs]) == numbering[targets]).all()


def test_one_easy_token_costs_no_draw() -> None:
    """The sequences of a seed are a promise: uniform tokens, then which are kept, and no third draw."""
    problem = make_task("S5", hard_fraction=0.3)
    rng = np.random.default_rng(4)
    tokens, _ = problem.sample(8, 50, rng)
    again = np.random.default_rng(4)
    drawn, is_hard = again.integers(0, 120, size=(8, 50)), again.random((8, 50)) < 0.3
    assert (tokens == np.where(is_hard, drawn, problem.initial_state)).all()
    assert rng.random() == again.random()


@pytest.mark.parametrize("name", ["A5xM", "A5-generatorsxM", "S3xM"])
def test_easy_tokens_of_a_product_rest_in_the_group_only(name: str) -> None:
    problem = make_task(name, hard_fraction=0.0)
    tokens, states = problem.sample(50, 200, np.random.default_rng(0))
    assert (tokens // 4 == 0).all()  # the identity of the group has number 0
    assert (states // 4 == 0).all()
    assert set(np.unique(tokens % 4)) == {0, 1, 2, 3}
    # after a reset the memory goes on changing: late labels are spread over the three resets
    late = np.bincount(states[:, -50:].ravel() % 4, minlength=4) / 2500
    assert late[0] == 0
    # shares of 2,500 labels, neighbours correlated: 0.1 is ten standard deviations of independent ones
    assert (abs(late[1:] - 1 / 3) < 0.1).all()


def test_states_take_any_leading_shape() -> None:
    problem = make_task("Z60")
    tokens = np.random.default_rng(0).integers(0, 60, size=(2, 3, 4))
    assert (problem.states(tokens) == tokens.cumsum(axis=-1) % 60).all()
    assert (problem.states(tokens[0, 0].tolist()) == tokens[0, 0].cumsum() % 60).all()


test_bad_problems_are_refused = refused_changes(
    WordProblem,
    {"table": [[0, 1], [1, 0]], "initial_state": 0, "token_names": "01", "state_names": "pq"},
    ({"table": [[0, 1]]}, "each of the 2 states"),
    ({"table": [[0, 2], [0, 1]]}, "table holds 2"),
    ({"initial_state": 2}, "initial_state holds 2"),
    ({"token_names": ["0", "0"]}, "token_names holds '0' twice"),
    ({"state_names": ["p", "p"]}, "state_names holds 'p' twice"),
    ({"hard_fraction": 1.5}, "hard_fraction is 1.5"),
    ({"hard_fraction": float("nan")}, "hard_fraction is nan"),
    ({"table": [[1, 1], [0, 0]], "hard_fraction": 0.5}, "no identity among its tokens"),
    ({"easy_tokens": [2]}, "easy_tokens holds 2"),
    ({"avoid": [5]}, "avoid holds 5"),
    ({"avoid": [0]}, "avoid holds .*, where words begin; leave it out"),
    ({"avoid": [1], "hard_fraction": 0.5}, "leave one of the two out"),
)


TRAPPED = WordProblem([[1, 1], [1, 1]], 0, ["0", "1"], ["p", "q"], avoid=[1])
test_bad_input_is_refused = refusals(
    (lambda: make_task("parity").states([[0, 1], [1, 2]]), "token 2 at position 1 of sequence 1"),
    (lambda: make_task("parity").states([0, 0, -1]), "token -1 at position 2 is not"),
    (lambda: make_task("parity").states([[]]), "at least 1"),
    (lambda: make_task("parity").states(1), r"shape \[\]"),
    (lambda: make_task("parity").states([[0.0, 1.0]]), "float64"),
    (lambda: WordProblem.from_monoid(3), "monoid is 3; give a Monoid"),  # type: ignore[arg-type]
    (lambda: WordProblem.from_dfa(3), "dfa is 3; give a DFA"),  # type: ignore[arg-type]
    (lambda: WordProblem.from_dfa(parity_dfa(), avoid=[[1]]), r"avoid holds \[1\]; give names"),  # type: ignore[list-item]
    (lambda: WordProblem.from_dfa(parity_dfa(), avoid=["nowhere"]), "avoid holds 'nowhere'"),
    (lambda: WordProblem.from_monoid(cyclic_group(3), tokens=[3]), "tokens holds 3"),
    (lambda: WordProblem.from_monoid(cyclic_group(3), [0, 1], easy_tokens=[2]), "easy_tokens holds 2"),
    (lambda: TRAPPED.sample(1, 1, np.random.default_rng(0)), "avoid leaves no token in state 'p'"),
    (lambda: TRAPPED.state_probabilities(1), "avoid leaves no token in state 'p'"),
    (lambda: make_task("parity").sample(0, 5, np.random.default_rng(0)), "batch is 0"),
    (lambda: make_task("parity").sample(5, 0, np.random.default_rng(0)), "length is 0"),
)


@pytest.mark.parametrize("length", [1, 2, 7])
def test_two_easy_tokens_are_drawn_equally_often(length: int) -> None:
    """The shares of 1000 draws each lie within five standard deviations of a fair coin."""
    problem = WordProblem([[0, 0, 1], [1, 1, 0]], 0, "abc", "pq", hard_fraction=0.0, easy_tokens=[0, 1])
    tokens, _ = problem.sample(1000, length, np.random.default_rng(0))
    for position in range(length):
        counts = np.bincount(tokens[:, position], minlength=3)
        assert counts[2] == 0
        assert abs(counts[0] - 500) < 5 * 1000**0.5 / 2


def test_a_problem_cannot_be_changed_by_who_made_it_or_reads_it() -> None:
    table = np.array([[0, 1], [1, 0]])
    problem = WordProblem(table, 0, "ab", "pq")
    table[0, 0] = 1
    assert problem.table.tolist() == [[0, 1], [1, 0]]
    with pytest.raises(ValueError, match="read-only"):
        problem.table[0, 0] = 1
    told: Any = problem.specification()
    told["word_problem"]["table"][0][0] = 1
    unchanged: Any = problem.specification()
    assert unchanged["word_problem"]["table"] == [[0, 1], [1, 0]]
    given: Any = {"word_problem": {"easy_tokens": [0]}}
    described = with_specification(problem, given)
    given["word_problem"]["easy_tokens"].append(1)
    again: Any = described.specification()
    again["word_problem"]["easy_tokens"].append(2)
    assert described.specification() == {"word_problem": {"easy_tokens": [0]}}


@pytest.mark.parametrize("most", [3, 60])
def test_allowed_tokens_are_as_likely_where_their_numbers_have_a_large_multiple(most: int) -> None:
    table = np.full((most + 1, most), most)  # from state n one can go on by n + 1 tokens
    for state in range(most):
        table[state, : state + 1] = np.arange(state + 1)
    table[0, 0] = most - 1
    task = WordProblem(table, most - 1, [*map(str, range(most))], [*map(str, range(most + 1))], avoid=[most])
    batch = task.batch(200, 100, np.random.default_rng(0))
    before = np.concatenate([np.full((200, 1), most - 1), batch.targets[:, :-1]], axis=1)
    found = np.zeros(table.shape)
    np.add.at(found, (before, batch.tokens), 1)
    seen = found.sum(axis=1, keepdims=True)
    expected = task.token_probabilities * seen
    assert (np.abs(found - expected) <= 6 * np.sqrt(expected) + 1e-9).all()


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


WORD_PROBLEMS = [name for name in task_names() if isinstance(registered_task(name), WordProblem)]


def test_every_task_is_described_under_its_name() -> None:
    assert [registered_task(name).name for name in task_names()] == list(task_names())


@pytest.mark.parametrize("name", WORD_PROBLEMS)
def test_no_task_settles(name: str) -> None:
    problem = make_task(name)
    _, states = problem.sample(2000, 130, np.random.default_rng(0))
    # the label must still vary between sequences late on: the commonest one has a share well below one
    for position in (60, 61, 128, 129):
        assert np.bincount(states[:, position]).max() / 2000 < 0.75
    visited = np.unique(states)
    expected = problem.state_count - len(problem.avoid)
    if name == "A5-generatorsxM":  # far from the identity before the first reset is one word in thousands
        visited, expected = visited[visited % 4 != 0], 180
    assert len(visited) == expected


def test_hard_fraction_needs_an_identity() -> None:
    assert make_task("S5-generators", hard_fraction=0.3).easy_tokens == (0,)
    assert make_task("S5-transpositions", hard_fraction=1.0).hard_fraction == 1.0
    with pytest.raises(InputError, match=r"hard_fraction is 0\.5 but 'S5-transpositions' has no identity"):
        make_task("S5-transpositions", hard_fraction=0.5)


def test_what_is_no_word_problem_is_refused_as_one() -> None:
    name = "noisy-parity-reveals"
    with pytest.raises(InputError, match=f"task '{name}' is no word problem; make it with task_from"):
        make_task(name)
    with pytest.raises(InputError, match=r"hard_fraction is 0\.5 but .* is no word problem"):
        registered_task(name, hard_fraction=0.5)


def test_an_unknown_name_gets_the_nearest_and_where_all_are() -> None:
    near = "did you mean 'A5-generators', 'A5-generatorsxM' or 'S5-generators'"
    for name, sentence in (("A5generators", near), ("no such task", "list all")):
        with pytest.raises(InputError, match=sentence) as refusal:
            make_task(name)
        assert "list all" in str(refusal.value)
        assert len(str(refusal.value)) < 200
