"""REPL sessions as data: the tokens against the text, the values against the Python interpreter."""

from typing import get_args

import numpy as np
import pytest

from automata.repl import ReplTokenizer, SessionFormat
from automata.tasks.repl_language import Predict, ReplLanguage
from tests.automata.repl.sessions import EVERY_KIND, kind_name
from tests.refusals import refusals

SEEN = (
    ">>> a = 2\n"
    ">>> b = 3\n"
    ">>> c = 1\n"
    ">>> a, b = b, a\n"
    ">>> print('c', c)\n"
    "c 1\n"
    ">>> b, c = c, b\n"
    ">>> print('b', b)\n"
    "b 1\n"
    ">>> a, b = b, a\n"
    ">>> print('c', c)\n"
    "c 2\n"
    ">>> a, b = b, a\n"
    ">>> print('a', a)\n"
    "a 3"
)
HIDDEN = (
    ">>> from random import random\n"
    ">>> a = 1\n"
    ">>> b = 2\n"
    ">>> if random() < 0.5: a, b = b, a\n"
    "... \n"
    ">>> assert a == 1\n"
    ">>> a, b = b, a\n"
    ">>> assert a == 2\n"
    ">>> a, b = b, a\n"
    ">>> assert b == 2"
)


def test_sessions_without_an_end_fill_rows_of_every_length_with_reveals_as_often_as_asked() -> None:
    task = ReplLanguage(2, reveal_every=1, predict="values")
    for length in (1, 9, 10, 11, 50, 123):
        assert task.batch(3, length, np.random.default_rng(0)).lengths is None
    # a swap has 9 tokens, and a reveal 11: >>> , print(', a, ', a, ), newline, a, space, value, newline
    batch = task.batch(20, 1910, np.random.default_rng(0))
    assert set(batch.counted.sum(axis=1)) == {(1910 - 10) // 20}


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
@pytest.mark.parametrize("commands", [6, None])
def test_what_is_asked_is_what_predict_says(form: SessionFormat, commands: int | None) -> None:
    tasks: dict[Predict, ReplLanguage] = {
        predict: ReplLanguage.from_fields({**form.to_fields(), "commands": commands, "predict": predict})
        for predict in get_args(Predict)
    }
    batches = {predict: task.batch(6, 130, np.random.default_rng(3)) for predict, task in tasks.items()}
    sessions = tasks["all"].sessions(6, np.random.default_rng(3), 130)
    tokenizer = tasks["all"].tokenizer
    whole = batches["all"]
    for predict, batch in batches.items():
        np.testing.assert_array_equal(batch.tokens, whole.tokens)
        np.testing.assert_array_equal(batch.targets, whole.targets)
        np.testing.assert_array_equal(tasks[predict].value_places(batch), batches["values"].counted)
    assert (batches["values"].counted <= batches["reveals"].counted).all()
    assert (batches["reveals"].counted <= whole.counted).all()
    lengths = np.full(6, 130) if whole.lengths is None else whole.lengths
    np.testing.assert_array_equal(whole.counted, np.arange(130) < lengths[:, None])
    for row in range(6):
        trace = sessions.trace(row)
        shown = [trace.text[begin:end] for begin, end in trace.reveal_spans]
        asked = [tokenizer.names[token] for token in whole.targets[row][batches["values"].counted[row]]]
        assert asked == shown[: len(asked)]
        if lengths[row] < 130:
            assert asked == shown


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
def test_the_final_value_is_that_of_the_last_reveal(form: SessionFormat) -> None:
    task = ReplLanguage.from_fields({**form.to_fields(), "commands": 5})
    sessions = task.sessions(8, np.random.default_rng(4))
    batch = task.batch_of(sessions, task.longest_session)
    places = task.final_value_places(batch)
    for row in range(8):
        state = sessions.states[row, -1].astype(str).tolist()
        final = [task.token_names[token] for token in batch.targets[row][places[row]]]
        last = sessions.trace(row).text.split("\n")[-1]
        if form.reveal == "full":
            assert final == state
        else:
            name = last.removeprefix(">>> assert ")[0]
            assert final == [state["abcde".index(name)]]
    cut = task.batch_of(sessions, 5 * form.variables + 2)  # of first values, or little more
    assert task.final_value_places(cut).sum() <= 8 * form.reveal_first


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
def test_the_longest_session_is_never_exceeded_and_is_reached(form: SessionFormat) -> None:
    task = ReplLanguage.from_fields({**form.to_fields(), "commands": 2})
    _, _, totals = task.sessions(3000, np.random.default_rng(0)).tokens(1)
    assert totals.max() <= task.longest_session
    if not isinstance(form.actions, str) or form.actions == "swaps":
        # 3,000 draws of two of the two lengths that commands have
        assert totals.max() == task.longest_session


def test_draws_stay_as_they_are() -> None:
    """What is trained on depends on the draws: the same seed gives the same sessions in later versions."""
    seen = ReplLanguage(3, commands=4, spacing="random", reveal_every=2, initial="shuffled")
    hidden = ReplLanguage(2, commands=3, hidden="if", reveal_every=1, reveal="assert", hidden_fraction=0.5)
    texts = [task.sessions(1, np.random.default_rng(8)).trace(0).text for task in (seen, hidden)]
    assert texts == [SEEN, HIDDEN]


def test_the_published_session_can_be_drawn() -> None:
    """The figure of Siems et al.: first values, a reveal, a swap, a reveal."""
    task = ReplLanguage(3, reveal_every=1, commands=1, reveal_first=True)
    drawn = task.sessions(500, np.random.default_rng(0))
    published = (
        ">>> a = 1\n>>> b = 2\n>>> c = 3\n>>> print('a', a)\na 1\n>>> a, b = b, a\n>>> print('a', a)\na 2"
    )
    # one of 27 sessions: it is missing from 500 with probability 6e-9
    assert published in [drawn.trace(number).text for number in range(500)]


test_bad_input_is_refused = refusals(
    (lambda: ReplLanguage(3, commands=0), "commands is 0"),
    (lambda: ReplLanguage(3, predict="value"), "predict 'value' is unknown"),  # type: ignore[arg-type]
    (lambda: ReplTokenizer(0), "variables is 0"),
    (lambda: ReplTokenizer(3).encode(">>> a = 9"), r"holds '9' at position 8"),
    (lambda: ReplTokenizer(3).encode("x = 1"), r"holds 'x = 1' at position 0"),
)
