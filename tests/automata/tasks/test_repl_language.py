"""REPL sessions as data: the tokens against the text, the values against the Python interpreter."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any, get_args

import numpy as np
import pytest

from automata.errors import InputError
from automata.repl import ReplTokenizer, ReplTrace, SessionFormat
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
def test_the_longest_session_is_never_exceeded_and_is_reached(form: SessionFormat) -> None:
    task = ReplLanguage.from_fields({**form.to_fields(), "commands": 2})
    _, _, totals = task.sessions(3000, np.random.default_rng(0)).tokens(1)
    assert totals.max() <= task.longest_session
    if not isinstance(form.actions, str) or form.actions == "swaps":
        # 3,000 draws of two of the two lengths that commands have
        assert totals.max() == task.longest_session


def test_draws_stay_as_they_are() -> None:
    """The same seed gives the same sessions in later versions, since training depends on the draws."""
    seen = ReplLanguage(3, commands=4, spacing="random", reveal_every=2, initial="shuffled")
    hidden = ReplLanguage(2, commands=3, hidden="if", reveal_every=1, reveal="assert", hidden_fraction=0.5)
    texts = [task.sessions(1, np.random.default_rng(8)).trace(0).text for task in (seen, hidden)]
    assert texts == [SEEN, HIDDEN]


test_bad_input_is_refused = refusals(
    (lambda: ReplLanguage(3, commands=0), "commands is 0"),
    (lambda: ReplLanguage(3, predict="value"), "predict 'value' is unknown"),  # type: ignore[arg-type]
    (lambda: ReplTokenizer(0), "variables is 0"),
    (lambda: ReplTokenizer(3).encode(">>> a = 9"), r"holds '9' at position 8"),
    (lambda: ReplTokenizer(3).encode("x = 1"), r"holds 'x = 1' at position 0"),
)


CHANCE = {"if": 0.3, "choice": 0.5}
History = tuple[float, list[tuple[int, ...]]]
"""A probability, and the variables after each command."""


class Outcomes:
    """Chosen outcomes, in order, in place of Python's ``random``."""

    def __init__(self, outcomes: tuple[bool, ...]) -> None:
        self._left = list(outcomes)

    def __call__(self) -> float:
        return 0.0 if self._left.pop(0) else 0.999

    def choice(self, pair: list[object]) -> object:
        return pair[1 if self._left.pop(0) else 0]


def histories(trace: ReplTrace, chance: float) -> list[History]:
    """For every outcome of the hidden actions its probability, and the variables after each command."""
    hidden = [command for command in trace.commands if "random" in command and "import" not in command]
    found = []
    for outcomes in product([False, True], repeat=len(hidden)):
        scope: dict[str, object] = {"random": Outcomes(outcomes)}
        states = []
        for command in trace.commands:
            if not command.startswith(("print", "assert", "import", "from")):
                exec(command, scope)
            states.append(tuple(int(str(scope[name])) for name in "abcde" if name in scope))
        weight = np.prod([chance if happened else 1 - chance for happened in outcomes])
        found.append((float(weight), states))
    return found


def shares(left: list[History], key: Callable[[list[tuple[int, ...]]], Any]) -> dict[Any, float]:
    """The distribution of what the histories that are left lead to."""
    found: Counter[Any] = Counter()
    for weight, states in left:
        found[key(states)] += weight  # type: ignore[assignment]
    return {of: weight / found.total() for of, weight in found.items()}


def expected_answers(trace: ReplTrace, chance: float) -> tuple[list[dict[int, float]], dict[str, float]]:
    """The distribution of every revealed value given those before it, and that of the last arrangement."""
    left = histories(trace, chance)
    answers = []
    for place, command in enumerate(trace.commands):
        if not command.startswith(("print", "assert")):
            continue
        inside = command.removeprefix("print(").removesuffix(")").removeprefix("assert ").split(" == ")[0]
        names = [name for name in inside.split(", ") if "'" not in name]
        for variable in map("abcde".index, names):
            answers.append(shares(left, lambda states, at=place, of=variable: states[at][of]))  # type: ignore[misc]
            shown = trace.states[place][variable]
            left = [(weight, states) for weight, states in left if states[place][variable] == shown]
    return answers, shares(left, lambda states: "".join(map(str, states[-1])))


@pytest.mark.parametrize("hidden", ["if", "choice", None])
@pytest.mark.parametrize("reveal", ["partial", "full", "assert"])
@pytest.mark.parametrize("initial", ["ordered", "shuffled", "repeated"])
def test_answers_and_beliefs_are_those_of_all_outcomes(hidden: str | None, reveal: str, initial: str) -> None:
    rng = np.random.default_rng(7)
    for variables, actions, assignment in ((3, "S3", "moved"), (4, "swaps", "whole"), (5, "Z5", "moved")):
        task = ReplLanguage(
            variables,
            reveal_every=2,
            commands=6,
            predict="values",
            actions=actions,
            assignment=assignment,
            initial=initial,  # type: ignore[arg-type]
            reveal=reveal,
            spacing="random",
            reveal_first=True,
            hidden=hidden,
            probability=CHANCE.get(str(hidden), 0.5),
            hidden_fraction=0.7 if hidden else 1.0,
        )
        sessions = task.sessions(3, rng)
        batch = task.batch_of(sessions, task.longest_session)
        answers, beliefs = task.probabilities(batch.tokens), task.beliefs(batch.tokens)
        places = task.value_places(batch)
        np.testing.assert_array_equal(answers.sum(axis=-1).round(12), places)
        for row in range(3):
            expected, ends = expected_answers(sessions.trace(row), CHANCE.get(str(hidden), 0.5))
            found = answers[row][places[row]]
            assert len(found) == len(expected)
            for answer, distribution in zip(found, expected, strict=True):
                given = {int(task.target_names[token]): answer[token] for token in np.flatnonzero(answer)}
                assert given == pytest.approx(distribution, abs=1e-12)
            first = sessions.states[row, 0]
            belief: Counter[str] = Counter()
            for arrangement, mass in zip(task.arrangements, beliefs[row, -1].tolist(), strict=True):
                if mass:
                    belief["".join(str(first[variable]) for variable in arrangement)] += mass
            assert belief == pytest.approx(ends, abs=1e-12)


def test_a_contradiction_names_sequence_and_position() -> None:
    task = ReplLanguage(3, hidden="if", reveal_every=1, commands=2, predict="values")
    text = ">>> from random import random\n>>> a = 1\n>>> b = 2\n>>> c = 3\n"
    text += ">>> if random() < 0.5: a, b = b, a\n... \n>>> print('a', a)\na "
    rows = [task.tokenizer.encode(text + value) for value in "23"]
    with pytest.raises(InputError, match=rf"'3' at position {len(rows[0]) - 1} of sequence 1 contradicts"):
        task.beliefs(rows)
    assert task.beliefs(rows[:1])[0, -1].max() == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (">>> a = 2", "'2' at position 3 of sequence 0 cannot stand there"),
        (">>> b = 1", "'b' at position 1"),
        (">>> a = 1\n>>> b = 2\n>>> c = 3\n>>> a, b = a, b", "'a' at position 20"),
        (">>> a = 1\n>>> b = 2\n>>> c = 3\n>>> a, b = b, a\n>>> print('a', b)", "'b' at position 28"),
    ],
)
def test_what_is_no_session_is_refused(text: str, message: str) -> None:
    task = ReplLanguage(3)
    with pytest.raises(InputError, match=message):
        task.beliefs([task.tokenizer.encode(text)])


def test_equal_first_values_are_refused_where_they_are_shuffled() -> None:
    task = ReplLanguage(3, initial="shuffled")
    task.beliefs([task.tokenizer.encode(">>> a = 2\n>>> b = 1\n>>> c = 3\n")])
    with pytest.raises(InputError, match="'2' at position 8 of sequence 1"):
        task.beliefs([task.tokenizer.encode(f">>> a = 2\n>>> b = {value}\n>>> c = 3\n") for value in (1, 2)])


def test_tokens_after_the_end_are_refused() -> None:
    task = ReplLanguage(2, commands=1)
    tokens = task.batch(1, task.longest_session + 3, np.random.default_rng(0)).tokens
    assert task.beliefs(tokens)[0, -1].max() == 1
    tokens[0, -1] = 1
    with pytest.raises(InputError, match="'>>> ' at position"):
        task.beliefs(tokens)


def test_too_many_arrangements_are_told() -> None:
    task = ReplLanguage(7, commands=1, hidden="if", predict="values")
    assert task.ceiling(200) is None
    with pytest.raises(InputError, match="more than 720 arrangements"):
        task.beliefs(task.batch(1, 50, np.random.default_rng(0)).tokens)
    small = ReplLanguage(7, commands=1, actions="Z7")
    assert len(small.hidden_state_names) == 7


def test_a_full_reveal_is_complete_at_its_last_value() -> None:
    for initial in ("ordered", "repeated"):
        task = ReplLanguage(4, commands=2, reveal="full", hidden="if", initial=initial)
        batch = task.batch(64, task.longest_session, np.random.default_rng(1))
        last = np.where(task.value_places(batch), np.arange(batch.tokens.shape[1]), 0).max(axis=1) + 1
        firsts = batch.tokens[:, 6:22:5]  # after the import, of three tokens: >>> a = 1, newline
        assert (firsts >= task.tokenizer.first_value).all()
        different = np.array([len(set(row)) == 4 for row in firsts.tolist()])
        assert different.any()
        assert different.all() == (initial == "ordered")
        complete = task.fully_revealed(np.pad(batch.tokens, ((0, 0), (0, 1))))
        np.testing.assert_array_equal(complete[np.arange(64), last], different)
        assert (complete.sum(axis=1) == different).all()


@pytest.mark.parametrize("hidden", [None, "if"])
def test_revealed_values_alone_are_uncertain(hidden: str | None) -> None:
    """A reveal has three tokens: a name, a space and the value."""
    tasks = (ReplLanguage(3, 1, predict=asked, hidden=hidden) for asked in get_args(Predict)[1:])
    reveals, values = (task.ceiling(90, sequences=8) for task in tasks)
    assert reveals is not None
    assert values is not None
    assert (values.accuracy < 1) == (hidden is not None)
    assert 1 - reveals.accuracy == pytest.approx((1 - values.accuracy) / 3)
    assert ReplLanguage(3).ceiling(50) is None
