import numpy as np
import pytest

from automata.errors import InputError
from automata.monoids.groups import symmetric_group
from automata.tasks.registry import S5_GENERATORS, describe_tasks, make_task, registered_task, task_names
from automata.tasks.word_problem import WordProblem

WORD_PROBLEMS = [name for name in task_names() if isinstance(registered_task(name), WordProblem)]


def test_every_task_is_described_under_its_name() -> None:
    assert [line.split()[0] for line in describe_tasks().splitlines()] == list(task_names())
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


def test_swaps_and_generators_generate_s5() -> None:
    S5 = symmetric_group(5)
    for name in ("S5-transpositions", "S5-generators"):
        tokens = [S5.index(token) for token in make_task(name).token_names]
        assert len(S5.closure(tokens)) == 120
    assert all(
        S5.multiply(x, x) == S5.identity for x in map(S5.index, make_task("S5-transpositions").token_names)
    )
    assert S5_GENERATORS[0] == S5.element_names[S5.identity]


def test_hard_fraction_needs_an_identity() -> None:
    assert make_task("S5-generators", hard_fraction=0.3).easy_tokens == (0,)
    assert make_task("S5-transpositions", hard_fraction=1.0).hard_fraction == 1.0
    with pytest.raises(InputError, match=r"hard_fraction is 0\.5 but 'S5-transpositions' has no identity"):
        make_task("S5-transpositions", hard_fraction=0.5)
    with pytest.raises(InputError, match=r"hard_fraction is -0\.1"):
        make_task("S5", hard_fraction=-0.1)


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
