"""The plain Python loop draws what the word problem draws, and follows the same table."""

import numpy as np

from automata import make_task
from benchmarks.word_problem_throughput import BATCH, LENGTH, LOOPED, python_loop


def test_the_loop_makes_the_same_kind_of_data() -> None:
    problem = make_task("S5", 0.5)
    (loop,) = python_loop(problem)
    made = loop.work()
    assert isinstance(made, tuple)
    tokens, labels = map(np.array, made)
    assert tokens.shape == (LOOPED, LENGTH)
    assert loop.share == LOOPED / BATCH
    np.testing.assert_array_equal(labels, problem.states(tokens))
    # Half of the tokens are the identity, and one in 120 of the others; four standard deviations.
    share, expected = np.isin(tokens, problem.easy_tokens).mean(), 0.5 + 0.5 / 120
    assert abs(share - expected) < 4 * 0.5 / np.sqrt(tokens.size)


def test_there_is_no_loop_where_tokens_depend_on_the_state() -> None:
    assert python_loop(make_task("dyck-4")) == ()
