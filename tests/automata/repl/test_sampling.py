"""Sessions as tokens, as text and as numbers: three views of the same draws, and their distribution."""

from itertools import pairwise

import numpy as np
import pytest

from automata.repl import SessionFormat, sample_sessions
from automata.repl.sampling import Sessions
from tests.automata.repl.sessions import EVERY_KIND, kind_name
from tests.refusals import refusals


def drawn(form: SessionFormat, commands: int | None = None, length: int | None = None) -> Sessions:
    return sample_sessions(form, 5, np.random.default_rng(2), commands=commands, length=length)


@pytest.mark.parametrize("form", [*EVERY_KIND[::5], SessionFormat(26, "Z26")], ids=kind_name)
def test_tokens_are_those_of_the_text(form: SessionFormat) -> None:
    """Encoding the text, with the regular expression, gives what the tables gave; decoding gives it back."""
    for sessions in (drawn(form, commands=7), drawn(form, length=120)):
        tokenizer = sessions.tables.tokenizer
        for width in (30, 120, 600):
            tokens, shares, totals = sessions.tokens(width)
            for row in range(5):
                trace = sessions.trace(row)
                encoded = tokenizer.encode(trace.text)
                assert tokenizer.decode(encoded) == trace.text
                assert totals[row] == len(encoded)
                expected = np.zeros(width, np.int64)
                expected[: len(encoded)] = encoded[:width]
                np.testing.assert_array_equal(tokens[row], expected)
                begins = np.cumsum([0, *map(len, map(tokenizer.names.__getitem__, encoded))])
                spans = {begin for begin, _ in trace.reveal_spans}
                values = [place for place in range(min(width, len(encoded))) if begins[place] in spans]
                assert np.flatnonzero(shares[row] == 2).tolist() == values


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
def test_output_of_reveals_is_the_printed_lines(form: SessionFormat) -> None:
    sessions = drawn(form, commands=7)
    tokens, shares, _ = sessions.tokens(500)
    for row in range(5):
        trace = sessions.trace(row)
        outputs = [output for output in trace.outputs if output]
        if form.reveal == "assert":
            outputs = [command.split(" == ")[1] for command in trace.commands if "assert" in command]
        marked = [sessions.tables.tokenizer.names[token] for token in tokens[row][shares[row] > 0]]
        assert "".join(marked) == "".join(outputs)


@pytest.mark.parametrize("form", EVERY_KIND[::5], ids=kind_name)
def test_states_follow_the_permutations(form: SessionFormat) -> None:
    sessions = drawn(form, commands=9)
    allowed = {*form.permutations} | ({tuple(range(1, form.variables + 1))} if form.hidden else set())
    for states in sessions.states.tolist():
        for before, after in pairwise(states):
            assert any(after == [before[image - 1] for image in images] for images in allowed)


@pytest.mark.parametrize("spacing", ["fixed", "random", "end"])
def test_reveals_stand_where_they_should(spacing: str) -> None:
    form = SessionFormat(3, spacing=spacing, reveal_every=3, reveal_first=True)  # type: ignore[arg-type]
    sessions = sample_sessions(form, 2000, np.random.default_rng(0), commands=10)
    shown = sessions.templates[:, 3::2] >= sessions.tables.first_reveal  # after 0, 1, …, 10 actions
    assert shown[:, 0].all()
    assert shown[:, -1].all()
    if spacing == "random":
        # 2,000 throws each: one deviation is 0.0106; five of them
        assert (np.abs(shown[:, 1:-1].mean(axis=0) - 1 / 3) < 0.053).all()
    else:
        expected = [3, 6, 9] if spacing == "fixed" else []
        assert (shown[:, 1:-1] == np.isin(np.arange(1, 10), expected)).all()


def test_actions_reveals_and_first_values_are_uniform() -> None:
    form = SessionFormat(4, initial="repeated", reveal_every=1)
    sessions = sample_sessions(form, 4000, np.random.default_rng(1), commands=3)
    for found, count in (
        (sessions.templates[:, 5::2] - sessions.tables.first_seen, 6),
        (sessions.templates[:, 6::2] - sessions.tables.first_reveal, 4),
        (sessions.states[:, 0] - 1, 4),
    ):
        shares = np.bincount(found.ravel(), minlength=count) / found.size
        assert len(shares) == count
        # at least 12,000 draws: one deviation is at most 0.004; five of them
        assert np.abs(shares - 1 / count).max() < 0.02
    shuffled = sample_sessions(
        SessionFormat(3, initial="shuffled"), 3000, np.random.default_rng(1), commands=1
    ).states[:, 0]
    _, counts = np.unique(shuffled, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts / 3000 - 1 / 6).max() < 0.034  # five deviations of 0.0068


def test_hidden_fraction_is_the_share_of_hidden_actions() -> None:
    form = SessionFormat(3, hidden="if", hidden_fraction=0.3)
    sessions = sample_sessions(form, 500, np.random.default_rng(1), commands=20)
    actions = sessions.templates[:, 5::2]
    assert abs((actions >= sessions.tables.first_hidden).mean() - 0.3) < 0.025  # five deviations of 0.0046


@pytest.mark.parametrize("length", [60, 100, 101, 150])
def test_sessions_with_a_reveal_at_the_end_are_the_longest_that_fit(length: int) -> None:
    form = SessionFormat(4, "S4", spacing="end")
    sessions = sample_sessions(form, 200, np.random.default_rng(0), length=length)
    _, _, totals = sessions.tokens(length)
    assert totals.max() <= length
    # one more action has at most 17 tokens: >>> , four names and three commas twice, =, newline
    assert totals.min() > length - 17
    shown = (sessions.templates >= sessions.tables.first_reveal).sum(axis=1)
    assert (shown == 1).all()


def test_a_row_too_short_for_an_end_holds_the_beginning_of_a_session() -> None:
    sessions = sample_sessions(SessionFormat(3, spacing="end"), 3, np.random.default_rng(0), length=9)
    _, _, totals = sessions.tokens(9)
    assert totals.tolist() == [34] * 3


test_bad_input_is_refused = refusals(
    (
        lambda: sample_sessions(SessionFormat(), 1, np.random.default_rng(0)),
        "commands and length are both None",
    ),
    (lambda: sample_sessions(SessionFormat(), 1, np.random.default_rng(0), commands=0), "commands is 0"),
    (lambda: sample_sessions(SessionFormat(), 0, np.random.default_rng(0), commands=1), "sessions is 0"),
)
