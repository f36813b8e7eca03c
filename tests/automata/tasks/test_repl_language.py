"""REPL sessions as data: the tokens against the text, the values against the Python interpreter."""

import contextlib
import io

import numpy as np
import pytest

from automata.errors import InputError
from automata.repl import ReplTokenizer, sample_repl_trace
from automata.repl.commands import PROMPT
from automata.tasks.repl_language import ReplLanguage


@pytest.mark.parametrize("variables", [2, 5, 12, 26])
def test_a_session_is_its_tokens(variables: int) -> None:
    tokenizer = ReplTokenizer(variables)
    assert len(set(tokenizer.names)) == len(tokenizer.names)
    for seed in range(5):
        text = sample_repl_trace(np.random.default_rng(seed), variables, 20, 3).text
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize("commands", [3, None])
def test_every_target_is_the_next_token(commands: int | None) -> None:
    task = ReplLanguage(3, reveal_every=2, commands=commands)
    batch = task.batch(6, 80, np.random.default_rng(0))
    lengths = np.full(6, 80) if batch.lengths is None else batch.lengths
    assert (commands is None) == (batch.lengths is None)
    for tokens, targets, weights, length in zip(
        batch.tokens, batch.targets, batch.weights, lengths, strict=True
    ):
        np.testing.assert_array_equal(targets[: length - 1], tokens[1:length])
        assert (weights[:length] == 1).all()
        if length < 80:
            assert targets[length - 1] == 0


def test_the_revealed_values_are_what_python_prints() -> None:
    task = ReplLanguage(4, reveal_every=2, commands=9, predict="values")
    batch = task.batch(10, 200, np.random.default_rng(3))
    assert batch.lengths is not None
    for tokens, targets, counted in zip(batch.tokens, batch.targets, batch.counted, strict=True):
        session = task.tokenizer.decode(tokens)
        source = "\n".join(
            line.removeprefix(PROMPT) for line in session.splitlines() if line.startswith(PROMPT)
        )
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(source, {})
        values = [line.split()[1] for line in printed.getvalue().splitlines()]
        assert [task.target_names[target] for target in targets[counted]] == values
        assert values


def test_sessions_are_cut_to_the_length() -> None:
    task = ReplLanguage(3, commands=20)
    long, short = (task.batch(4, length, np.random.default_rng(0)) for length in (400, 30))
    np.testing.assert_array_equal(long.tokens[:, :30], short.tokens)
    np.testing.assert_array_equal(long.targets[:, :30], short.targets)
    assert short.lengths is None


def test_sessions_without_an_end_fill_rows_of_every_length_with_reveals_as_often_as_asked() -> None:
    task = ReplLanguage(2, reveal_every=1, predict="values")
    for length in (1, 9, 10, 11, 50, 123):
        assert task.batch(3, length, np.random.default_rng(0)).lengths is None
    # a swap has 9 tokens, and a reveal 11: >>> , print(', a, ', a, ), newline, a, space, value, newline
    batch = task.batch(20, 1910, np.random.default_rng(0))
    assert set(batch.counted.sum(axis=1)) == {(1910 - 10) // 20}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ReplLanguage(1), "variables is 1"),
        (lambda: ReplLanguage(27), "variables is 27"),
        (lambda: ReplLanguage(3, reveal_every=0), "reveal_every is 0"),
        (lambda: ReplLanguage(3, commands=0), "commands is 0"),
        (lambda: ReplLanguage(3, predict="value"), "predict 'value' is unknown"),  # type: ignore[arg-type]
        (lambda: ReplTokenizer(0), "variables is 0"),
        (lambda: ReplTokenizer(3).encode(">>> a = 9"), r"holds '9' at position 8"),
        (lambda: ReplTokenizer(3).encode("x = 1"), r"holds 'x = 1' at position 0"),
    ],
)
def test_bad_input_is_refused(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]
