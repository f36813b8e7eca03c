"""The plain Python loop writes sessions of the same format, and the check notices wrong tokens."""

import dataclasses

import numpy as np
import pytest

from automata import ReplLanguage
from automata.repl import check_with_interpreter
from benchmarks.frame import IncorrectError
from benchmarks.repl_throughput import FORMATS, LOOPED, LOOPED_FORMATS, check, python_loop


@pytest.mark.parametrize("name", LOOPED_FORMATS)
def test_the_loop_makes_the_same_kind_of_data(name: str) -> None:
    task = FORMATS[name]
    loop = python_loop(task, 64, 200)
    rows = loop.work()
    assert isinstance(rows, list)
    assert len(rows) == LOOPED
    assert loop.share == LOOPED / 64
    ours = task.batch(LOOPED, 200, np.random.default_rng(0)).tokens
    prompts = task.tokenizer.numbers[">>> "]
    for row, mine in zip(rows, ours, strict=True):
        assert len(row) == 201
        # up to the last whole line all is true, and commands begin at the same places
        text = task.tokenizer.decode(row)
        assert check_with_interpreter(text[: text.rfind("\n>>> ")]) is None
        np.testing.assert_array_equal(np.array(row[:200]) == prompts, mine == prompts)


@pytest.mark.parametrize("name", FORMATS)
def test_the_check_notices_untrue_sessions_and_wrong_tokens(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = FORMATS[name]
    check(task, 150, 4)
    sessions = task.sessions(4, np.random.default_rng(1), 150)
    states = sessions.states.copy()
    states[2, 1:] = states[2, 1:] % task.form.variables + 1  # every value is another one after the first
    with monkeypatch.context() as changed:
        wrong = dataclasses.replace(sessions, states=states)
        changed.setattr(ReplLanguage, "sessions", lambda *arguments: wrong)
        with pytest.raises(IncorrectError, match="session 2: line"):
            check(task, 150, 4)
    batch = task.batch_of(sessions, 150)
    batch.targets[3, 70] = 0
    monkeypatch.setattr(ReplLanguage, "batch_of", lambda *arguments: batch)
    with pytest.raises(IncorrectError, match="tokens of session 3 are not those of its text"):
        check(task, 150, 4)
