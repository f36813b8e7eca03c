"""The filter over sessions against running every outcome of the hidden actions in Python."""

from collections import Counter
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from automata.errors import InputError
from automata.repl import ReplTrace
from automata.tasks import ReplLanguage, task_from
from automata.tasks.observed import ObservedTask

CHANCE = {"if": 0.3, "choice": 0.5}
History = tuple[float, list[tuple[int, ...]]]
"""A probability, and the variables after each command."""


class Outcomes:
    """What stands in for Python's ``random`` in a session: chosen outcomes, in order."""

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
        found[key(states)] += weight / sum(each for each, _ in left)  # type: ignore[assignment]
    return dict(found)


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
        sessions = task.sessions(6, rng)
        batch = task.batch_of(sessions, task.longest_session)
        answers, beliefs = task.probabilities(batch.tokens), task.beliefs(batch.tokens)
        places = task.value_places(batch)
        np.testing.assert_array_equal(answers.sum(axis=-1).round(12), places)
        for row in range(6):
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
        last = np.where(task.final_value_places(batch), np.arange(batch.tokens.shape[1]), 0).max(axis=1) + 1
        firsts = batch.tokens[:, 6:22:5]  # after the import, of three tokens: >>> a = 1, newline
        assert (firsts >= task.tokenizer.first_value).all()
        different = np.array([len(set(row)) == 4 for row in firsts.tolist()])
        assert different.any()
        assert different.all() == (initial == "ordered")
        complete = task.fully_revealed(np.pad(batch.tokens, ((0, 0), (0, 1))))
        np.testing.assert_array_equal(complete[np.arange(64), last], different)
        assert (complete.sum(axis=1) == different).all()


def test_the_ceiling_is_what_the_filter_reaches() -> None:
    task = task_from("repl-3-hidden")
    assert isinstance(task, ObservedTask)
    ceiling = task.ceiling(150, sequences=512)
    assert ceiling is not None
    batch = task.batch(2048, 150, np.random.default_rng(5))
    answers = task.probabilities(batch.tokens)[batch.counted]
    right = answers.argmax(axis=-1) == batch.targets[batch.counted]
    # one deviation of the share of right answers among some 11,000 is at most 0.005; five of them
    assert abs(right.mean() - ceiling.accuracy) < 0.025
    assert ReplLanguage(3, predict="reveals").ceiling(50) == ReplLanguage(3, predict="values").ceiling(50)
    assert ReplLanguage(3).ceiling(50) is None
