"""Sessions as tokens, text and numbers: the same draws, and true, as the interpreter of Python shows."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest

from automata import alternating_group, dihedral_group, symmetric_group
from automata.repl import (
    REVEALS,
    Command,
    RevealFormat,
    SessionFormat,
    action_permutations,
    check_with_interpreter,
    repl_trace,
    sample_sessions,
)
from automata.repl.sampling import Sessions
from automata.repl.text import ASSIGNMENTS, CONTINUATION, PROMPT, Assignment
from automata.repl.verification import formats, verify
from tests.automata.repl.sessions import EVERY_KIND, kind_name
from tests.refusals import refusals, refused_changes


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


test_bad_formats_are_refused = refused_changes(
    lambda **fields: SessionFormat.from_fields(fields),
    {},
    ({"variables": 1}, "variables is 1; give a number in 2 … 26"),
    ({"variables": 27}, "variables is 27"),
    ({"varables": 3}, "field of repl 'varables' is unknown; did you mean 'variables'"),
    ({"variables": "3"}, "variables is '3'; give a whole number"),
    ({"actions": "S4"}, "'S4' is unknown; .*A3.*swaps"),
    ({"actions": 5}, "actions is 5"),
    ({"actions": []}, "actions is empty"),
    ({"actions": ["124"]}, r"actions holds '124'; give permutations of 1 … 3"),
    ({"actions": [(1, 2, 3), "123"]}, "actions holds '123' twice"),
    ({"actions": [3]}, "give permutations such as"),
    ({"assignment": "all"}, "assignment 'all' is unknown; .*whole"),
    ({"initial": "random"}, "initial 'random' is unknown"),
    ({"reveal": "fully"}, "reveal 'fully' is unknown; did you mean 'full'"),
    ({"spacing": 3}, "spacing 3 is unknown"),
    ({"reveal_every": 0}, "reveal_every is 0"),
    ({"reveal_first": 1}, "reveal_first is 1; give True or False"),
    ({"hidden": "iff"}, "hidden 'iff' is unknown; did you mean 'if'"),
    ({"hidden": "if", "probability": 1.5}, r"probability is 1.5; give a number in \[0, 1\]"),
    ({"hidden": "if", "probability": float("nan")}, "probability is nan"),
    ({"hidden": "choice", "probability": 0.3}, "probability is 0.3 but random.choice"),
    ({"probability": 0.3}, "probability is 0.3 but none is hidden"),
    ({"hidden_fraction": 0.3}, "hidden_fraction is 0.3 but none is hidden"),
    ({"hidden": "if", "hidden_fraction": 0}, "hidden_fraction is 0; give a number in"),
)


def test_groups_have_their_elements() -> None:
    for name, group in (("S4", symmetric_group(4)), ("A5", alternating_group(5))):
        images = action_permutations(name, int(name[1]))
        assert tuple("".join(map(str, one)) for one in images) == group.element_names
    assert action_permutations("Z4", 4) == ((1, 2, 3, 4), (2, 3, 4, 1), (3, 4, 1, 2), (4, 1, 2, 3))
    assert len(action_permutations("D5", 5)) == dihedral_group(5).order
    assert len(action_permutations("swaps", 26)) == 26 * 25 // 2


def test_actions_of_ten_and_more_points_are_written_with_commas() -> None:
    turned = (*range(2, 11), 1)
    form = SessionFormat(10, actions=[turned])
    assert form.to_fields()["actions"] == ["2,3,4,5,6,7,8,9,10,1"]
    assert SessionFormat.from_fields(json.loads(json.dumps(form.to_fields()))) == form
    assert form.permutations == (turned,)


def test_numbers_of_numpy_are_taken() -> None:
    given = SessionFormat(np.int64(4), reveal_every=np.int32(2), hidden="if", probability=np.float32(0.5))  # type: ignore[arg-type]
    assert given == SessionFormat(4, reveal_every=2, hidden="if", probability=0.5)
    assert json.loads(json.dumps(given.to_fields())) == given.to_fields()


def test_a_format_of_ones_own_is_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Bare(RevealFormat):
        def commands(self, variables: int) -> tuple[Command, ...]:
            return tuple(Command(("abc"[i],), (i,), is_reveal=True) for i in range(variables))

    class Backwards(Assignment):
        def written(self, permutation: object) -> list[int]:
            return [2, 1, 0]

    monkeypatch.setitem(REVEALS, "bare", Bare)
    monkeypatch.setitem(ASSIGNMENTS, "backwards", Backwards)
    form = SessionFormat(3, ["231"], "backwards", reveal="bare", reveal_every=1)
    sessions = sample_sessions(form, 3, np.random.default_rng(0), commands=4)
    for number in range(3):
        trace = sessions.trace(number)
        assert check_with_interpreter(trace) is None
        assert trace.commands[3] == "c, b, a = a, c, b"
        encoded = sessions.tables.tokenizer.encode(trace.text)
        assert sessions.tokens(200)[0][number, : len(encoded)].tolist() == encoded


def test_python_agrees_on_whole_permutations_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    permutations = [(rng.permutation(5) + 1).tolist() for _ in range(20)]
    permutations[3] = [1, 2, 3, 4, 5]
    reveals = [[None, *"abcde"][index] for index in rng.integers(0, 6, size=20)]
    trace = repl_trace(permutations, rng.integers(0, 10, size=5).tolist(), reveals)
    assert check_with_interpreter(trace) is None


test_bad_traces_are_refused = refused_changes(
    repl_trace,
    {"permutations": [(2, 1)], "values": (1, 2), "reveals": [None]},
    ({"values": ()}, "values has 0 entries"),
    ({"reveals": ()}, "reveals has 0 entries"),
    ({"permutations": [(1, 1)]}, r"permutations holds \(1, 1\)"),
    ({"reveals": ["z"]}, "reveals holds 'z'"),
    ({"reveals": ["ab"]}, "reveals holds 'ab'"),
)


@pytest.mark.parametrize("form", formats(), ids=lambda form: f"{form.assignment}-{form.hidden}-{form.reveal}")
def test_the_interpreter_shows_every_session_of_every_format(form: SessionFormat) -> None:
    found = verify(form, 40, np.random.default_rng(formats().index(form)))
    assert (found.sessions, found.wrong, found.first_difference) == (40, 0, None)
    assert found.revealed >= 40


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
