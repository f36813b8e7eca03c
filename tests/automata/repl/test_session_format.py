"""What a format takes, and what it refuses."""

import json

import numpy as np
import pytest

from automata import alternating_group, dihedral_group, symmetric_group
from automata.errors import InputError
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
from automata.repl.commands import ASSIGNMENTS, Assignment


@pytest.mark.parametrize(
    ("change", "message"),
    [
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
    ],
)
def test_bad_formats_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SessionFormat.from_fields(change)


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"values": ()}, "values has 0 entries"),
        ({"reveals": ()}, "reveals has 0 entries"),
        ({"permutations": [(1, 1)]}, r"permutations holds \(1, 1\)"),
        ({"reveals": ["z"]}, "reveals holds 'z'"),
        ({"reveals": ["ab"]}, "reveals holds 'ab'"),
    ],
)
def test_bad_traces_are_refused(arguments: dict[str, object], message: str) -> None:
    good = {"permutations": [(2, 1)], "values": (1, 2), "reveals": [None]}
    with pytest.raises(InputError, match=message):
        repl_trace(**{**good, **arguments})  # type: ignore[arg-type]
