"""Every trace is true: Python's own interactive interpreter shows what the session says."""

import random
import subprocess
import sys

import numpy as np
import pytest

from automata.repl import SessionFormat, check_with_interpreter, sample_sessions
from automata.repl.commands import CONTINUATION, PROMPT
from automata.repl.verification import formats, verify
from tests.automata.repl.sessions import EVERY_KIND, kind_name


@pytest.mark.parametrize("form", formats(), ids=lambda form: f"{form.assignment}-{form.hidden}-{form.reveal}")
def test_the_interpreter_shows_every_session_of_every_format(form: SessionFormat) -> None:
    found = verify(form, 40, np.random.default_rng(formats().index(form)))
    assert (found.sessions, found.wrong, found.first_difference) == (40, 0, None)
    assert found.revealed >= 40


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
def test_the_interpreter_shows_sessions_that_fill_rows(form: SessionFormat) -> None:
    sessions = sample_sessions(form, 4, np.random.default_rng(1), length=160)
    for number in range(4):
        assert check_with_interpreter(sessions.trace(number)) is None


def screen_of_a_process(text: str, seed: int | None) -> str:
    """All that ``python -i -q`` writes when the session is typed, without what is typed: it is not shown."""
    typed = [line[len(PROMPT) :] for line in text.split("\n") if line.startswith((PROMPT, CONTINUATION))]
    done = subprocess.run(
        [sys.executable, "-i", "-q", "-u", "-c", f"__import__('random').seed({seed!r})"],
        input="\n".join(typed) + "\n",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        env={"PYTHONIOENCODING": "utf-8"},
    )
    return done.stdout


@pytest.mark.parametrize("form", formats()[::4], ids=lambda form: f"{form.hidden}-{form.reveal}")
def test_a_real_process_shows_the_same(form: SessionFormat) -> None:
    trace = sample_sessions(form, 1, np.random.default_rng(3), commands=12).trace(0)
    expected = ""
    for line in trace.text.split("\n"):
        prompt = next((one for one in (PROMPT, CONTINUATION) if line.startswith(one)), None)
        expected += line + "\n" if prompt is None else prompt
    assert screen_of_a_process(trace.text, trace.seed) == expected + PROMPT + "\n"


def test_hidden_outcomes_need_the_seed() -> None:
    form = SessionFormat(3, hidden="if", reveal_every=1)
    sessions = sample_sessions(form, 20, np.random.default_rng(0), commands=12)
    texts = [(sessions.trace(number).text, sessions.trace(number).seed) for number in range(20)]
    assert all(check_with_interpreter(text, seed) is None for text, seed in texts)
    # another seed gives other outcomes: twelve swaps of three variables, half of them done
    assert sum(check_with_interpreter(text, (seed or 0) + 1) is None for text, seed in texts) <= 1


def test_hidden_actions_happen_as_often_as_they_should() -> None:
    form = SessionFormat(2, hidden="if", probability=0.2, reveal_every=1)
    states = sample_sessions(form, 500, np.random.default_rng(0), commands=20).states[:, :, 0]
    happened = (states[:, 1:] != states[:, :-1]).mean()
    # 10,000 outcomes: one deviation is 0.004; five of them
    assert abs(happened - 0.2) < 0.02


@pytest.mark.parametrize(
    ("old", "new", "line", "claimed", "shown"),
    [
        ("\na 2", "\na 1", 5, "a 1", "a 2"),
        ("\na 2", "", 5, ">>> print('b', b)", "a 2"),
        ("\nb 1", "", 7, None, "b 1"),
        ("\nb 1", "\nb 1\nb 1", 8, "b 1", None),
        (">>> a, b = b, a", ">>> a, b = b, c", 4, ">>> print('a', a)", "Traceback (most recent call last):"),
        ("\n>>> b = 2", "\n... b = 2", 2, "... b = 2", ">>> b = 2"),
    ],
)
def test_the_first_wrong_line_is_told(
    old: str, new: str, line: int, claimed: str | None, shown: str | None
) -> None:
    text = ">>> a = 1\n>>> b = 2\n>>> a, b = b, a\n>>> print('a', a)\na 2\n>>> print('b', b)\nb 1"
    assert check_with_interpreter(text) is None
    difference = check_with_interpreter(text.replace(old, new))
    assert difference is not None
    assert (difference.line, difference.claimed, difference.shown) == (line, claimed, shown)


def test_the_state_of_random_is_left_as_it_was() -> None:
    before = random.getstate()
    trace = sample_sessions(SessionFormat(hidden="choice"), 1, np.random.default_rng(0), commands=4).trace(0)
    assert check_with_interpreter(trace) is None
    assert random.getstate() == before
