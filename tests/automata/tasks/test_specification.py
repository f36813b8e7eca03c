"""Tasks from what a user gives, each against the object it should be; bad input in one sentence."""

import copy
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata import (
    DFA,
    ProbabilisticAutomaton,
    WordProblem,
    lazy_swaps,
    make_task,
    parity_dfa,
    symmetric_group,
)
from automata.errors import InputError
from automata.machines.named_dfas import dyck_dfa
from automata.tasks.interface import Task
from automata.tasks.json_formats import task_of_json
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.specification import specification_from_text, task_from

PARITY = {
    "transitions": {"even": {"0": "even", "1": "odd"}, "odd": {"0": "odd", "1": "even"}},
    "initial": "even",
}
COIN = {
    "states": ["heads", "tails"],
    "initial": [1, 0],
    "actions": {"flip": [[0.1, 0.9], [0.9, 0.1]]},
    "reveals": {"look": ["heads", "tails"]},
}
MODULE = """
import numpy as np
from automata import DFA, Batch, ProbabilisticAutomaton, Task, WordProblem, cyclic_group, parity_dfa

class Echo(Task):
    name = "echo"
    description = "the token itself"
    token_names = target_names = ("a", "b")

    def batch(self, batch_size, length, rng, start=None):
        tokens = rng.integers(0, 2, (batch_size, length))
        return Batch(tokens, tokens, np.ones(tokens.shape, np.float32))

class Bare(Task):
    def batch(self, batch_size, length, rng, start=None):
        raise NotImplementedError

echo = Echo()
clock = cyclic_group(12)
coin = ProbabilisticAutomaton(["h", "t"], [1, 0], {"flip": [[0.5, 0.5], [0.5, 0.5]]}, {"look": ["h", "t"]})
number = 3

def problem():
    return WordProblem.from_dfa(parity_dfa())

def failing():
    raise RuntimeError("two\\nlines")

def needs(size):
    return size
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a user's files, which is on the path of modules and is the working folder."""
    for name, content in {"parity": PARITY, "coin": COIN}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    (tmp_path / "users_tasks.py").write_text(MODULE)
    (tmp_path / "users_broken.py").write_text("1 / 0")
    (tmp_path / "text.json").write_text("no JSON")
    (tmp_path / "list.json").write_text("[1]")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def same(task: Task, other: Task) -> None:
    for seed in range(2):
        ours, theirs = (one.batch(4, 30, np.random.default_rng(seed)) for one in (task, other))
        np.testing.assert_array_equal(ours.tokens, theirs.tokens)
        np.testing.assert_array_equal(ours.targets, theirs.targets)


def test_files_hold_each_kind_of_automaton(folder: Path) -> None:
    same(task_from({"file": "parity.json"}), make_task("parity"))
    coin = ProbabilisticAutomaton(["heads", "tails"], [1, 0], COIN["actions"], COIN["reveals"])  # type: ignore[arg-type]
    same(task_from({"file": "coin.json"}), PartiallyObserved(coin))
    asked = {**COIN, "target": "states", "reveal_probability": 0.25}
    same(task_from({"automaton": asked}), PartiallyObserved(coin, "states", 0.25))
    S3 = symmetric_group(3)
    monoid = {"table": S3.table.tolist(), "element_names": list(S3.element_names), "tokens": ["213", 3]}
    (folder / "monoid.json").write_text(json.dumps(monoid))
    same(task_from({"file": "monoid.json"}), WordProblem.from_monoid(S3, [S3.index("213"), 3]))


def test_a_file_may_hold_the_specification_of_a_task_with_numbers_and_no_code(folder: Path) -> None:
    matrices = {"matrices": {"size": 2, "modulus": 3}}
    for given in (
        matrices,
        {"recognition": {**PARITY, "accepting": ["odd"]}},
        {"arithmetic": {"modulus": 3}},
        {"regex": "(ab|ba)*", "alphabet": "abc"},
    ):
        (folder / "task.json").write_text(json.dumps(given))
        assert task_from({"file": "task.json"}).specification() == task_from(given).specification()
    for code in ({"object": "users_tasks:echo"}, {"file": "parity.json"}, matrices | {"file": "parity.json"}):
        (folder / "task.json").write_text(json.dumps(code))
        with pytest.raises(InputError, match=r"task file .*task\.json"):
            task_from({"file": "task.json"})
    (folder / "task.json").write_text('{"regexp": "(ab|ba)*"}')
    with pytest.raises(InputError, match=r"task file .*, repl; did you mean 'regex'\?$"):
        task_from({"file": "task.json"})


def test_generators_act_as_the_permutation_word_problem_says() -> None:
    generators = [[5, 4, 1, 3, 2], [3, 4, 1, 2, 5], [5, 3, 1, 2, 4]]
    task = task_from({"automaton": {"generators": generators}})
    assert isinstance(task, WordProblem)
    # the worked example of the convention: state_t[i] = state_{t-1}[σ_t[i]]
    assert [task.state_names[state] for state in task.states([0, 1, 2])] == ["54132", "13542", "25134"]
    resets = task_from(
        {"automaton": {"generators": [[1, 2], [1, 1], [2, 2]], "token_names": ["keep", "1", "2"]}}
    )
    assert isinstance(resets, WordProblem)
    assert resets.token_names == ("keep", "1", "2")
    assert resets.state_count == 3
    # what place i holds after [2, 2] is what place 2 held before
    state = np.array([1, 2])
    for token in (1, 0, 2):
        state = state[np.array([[1, 2], [1, 1], [2, 2]][token]) - 1]
    assert resets.state_names[resets.states([1, 0, 2])[-1]] == "".join(map(str, state))


def test_the_specification_of_a_file_holds_its_content(folder: Path) -> None:
    task = task_from({"file": "parity.json"}, hard_fraction=None)
    stored = json.loads(json.dumps(task.specification()))
    (folder / "parity.json").unlink()
    assert str(folder) not in json.dumps(stored)
    assert "parity.json" not in json.dumps(stored)
    again = task_from(stored)
    same(task, again)
    assert again.name == "parity"


@pytest.mark.parametrize(
    "build",
    [
        lambda: parity_dfa(),
        lambda: symmetric_group(3),
        lambda: lazy_swaps(3),
        lambda: make_task("dyck-4"),
        lambda: WordProblem([[0, 1], [1, 0]], 0, "01", ["even", "odd"], hard_fraction=0.5),
        lambda: DFA(("p",), ("a", "b"), {"p": {"a": "p", "b": "p"}}, "p", ()),
    ],
)
def test_python_objects_are_rebuilt_from_json(build: Callable[[], Any]) -> None:
    task = task_from(build())
    same(task, task_from(json.loads(json.dumps(task.specification()))))


@pytest.mark.parametrize(
    ("name", "vocabulary"), [("echo", 2), ("Echo", 2), ("clock", 12), ("coin", 4), ("problem", 2)]
)
def test_objects_of_a_module(folder: Path, name: str, vocabulary: int) -> None:
    task = task_from({"object": f"users_tasks:{name}"})
    assert task.vocabulary_size == vocabulary
    assert task.specification() == {"object": f"users_tasks:{name}"}
    same(task, task_from(task.specification()))


def test_an_object_of_ones_own_says_that_it_cannot_be_stored(folder: Path) -> None:
    task = task_from(task_from({"object": "users_tasks:Echo"}).__class__())
    with pytest.raises(
        InputError, match=r"class users_tasks:Echo, which a run folder cannot hold; give the task as"
    ):
        task.specification()


@pytest.mark.parametrize("source", ["parity", {"repl": {"variables": 2}}, {"balls": {}}, {"program": {}}])
def test_a_subclass_is_not_stored_as_what_it_is_made_from(source: Any) -> None:
    """A subclass is refused: its overrides would silently be left out."""
    task = make_task(source) if isinstance(source, str) else task_from(source)
    own = copy.copy(task)
    object.__setattr__(own, "__class__", type("Hard", (type(task),), {}))
    object.__setattr__(own, "_specification", None)
    with pytest.raises(InputError, match=r":Hard, which a run folder cannot hold; give the task as"):
        task_from(own).specification()


def test_the_alphabet_of_an_expression() -> None:
    task = task_from({"regex": "(a.)*", "alphabet": "abc"})
    assert task.token_names == ("a", "b", "c")
    assert task.specification() == {"regex": "(a.)*", "alphabet": ["a", "b", "c"]}
    assert task_from({"regex": "(ab|ba)*"}).token_names == ("a", "b")


def test_what_is_avoided_can_be_said(folder: Path) -> None:
    pairs = {
        "transitions": {"p": {"a": "q", "b": "r"}, "q": {"a": "p", "b": "q"}, "r": {"a": "r", "b": "r"}},
        "initial": "p",
    }
    everything = task_from({"automaton": {**pairs, "accepting": ["p"], "avoid": []}})
    language = task_from({"automaton": {**pairs, "accepting": ["p"]}})
    no_language = task_from({"automaton": pairs})
    chosen = task_from({"automaton": {**pairs, "avoid": ["r"]}})
    tasks = (everything, language, no_language, chosen)
    assert [task.avoid for task in tasks if isinstance(task, WordProblem)] == [(), (2,), (), (2,)]


def test_the_object_the_class_and_the_file_keep_out_of_the_same_states() -> None:
    dfa = dyck_dfa(2)
    one, other = task_from(dfa), WordProblem.from_dfa(dfa)
    same(one, other)
    assert isinstance(one, WordProblem)
    assert one.avoid == (dfa.state_numbers["error"],)
    assert one.description == "state of automaton, on beginnings of long words that it accepts; never error"
    every = task_from(dfa, avoid=[])
    same(every, WordProblem.from_dfa(dfa, avoid=[]))
    assert isinstance(every, WordProblem)
    assert every.avoid == ()
    with pytest.raises(InputError, match="avoid is given, and task is 'S3'; give it for a DFA, or leave it"):
        task_from("S3", avoid=[])


@pytest.mark.parametrize(
    ("automaton", "sentence"),
    [
        (
            {"p": {"a": "q"}, "q": {"a": "p"}},
            "^'automaton' has a single sequence, one token in every state; give",
        ),
        (
            {
                "p": {"a": "q", "b": "p"},
                "q": {"a": "p", "b": "p"},
                "r": {"a": "p", "b": "s"},
                "s": {"a": "s", "b": "s"},
            },
            r"^no sequence of 'automaton' reaches 2 of its states \(r, s\); leave them out",
        ),
    ],
)
def test_an_automaton_with_states_or_choices_that_are_missing_says_so(automaton: Any, sentence: str) -> None:
    """The warning points at the line of the user, whatever the source."""
    with pytest.warns(UserWarning, match=sentence) as warned:
        task_from({"transitions": automaton, "initial": "p"})
    with pytest.warns(UserWarning, match="a single sequence") as also_warned:
        task_from("regex:a*")
    assert {warning.filename for warning in (*warned, *also_warned)} == {__file__}


@pytest.mark.parametrize("name", ["S5", "S5-generators", "A5xM", "counter-5"])
def test_the_hard_fraction_is_an_option_of_word_problems(name: str) -> None:
    asked, made, given = task_from(name, 0.3), make_task(name, 0.3), {"name": name, "hard_fraction": 0.3}
    same(asked, made)
    same(task_from(given), asked)
    assert asked.specification() == given == made.specification()
    assert task_from(name, 1.0).specification() == name
    same(task_from(make_task(name), 0.3), asked)
    same(task_from({"name": name, "hard_fraction": 0.9}, 0.3), asked)


def test_the_hard_fraction_of_other_sources(folder: Path) -> None:
    for source in ({"file": "parity.json"}, {"object": "users_tasks:problem"}, parity_dfa()):
        task = task_from(source, 0.25)
        assert isinstance(task, WordProblem)
        assert task.hard_fraction == 0.25
        same(task, task_from(task.specification()))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S5", "S5"),
        ("regex:a:b|c", {"regex": "a:b|c"}),
        ("object:my_tasks:parity", {"object": "my_tasks:parity"}),
        ('{"name": "S5", "hard_fraction": 0.5}', {"name": "S5", "hard_fraction": 0.5}),
        ("what:ever", "what:ever"),
    ],
)
def test_what_a_command_line_says(text: str, expected: object) -> None:
    assert specification_from_text(text) == expected


SWITCH = {
    "table": [[0, 1], [0, 1]],
    "initial_state": 0,
    "token_names": ["a", "b"],
    "state_names": ["off", "on"],
}
Z2 = [[0, 1], [1, 0]]
TEXT = "give a text or a number"


def loop(state: Any, target: Any, **fields: Any) -> dict[str, Any]:
    """One state that a symbol leads to a target."""
    return {"transitions": {state: {"a": target}}, "initial": state, **fields}


BAD: list[tuple[Any, ...]] = [
    ("partiy", "'partiy'", "'parity'"),
    ({}, "0 of the fields"),
    ({"regex": "a", "file": "parity.json"}, "2 of the fields"),
    ({"regex": "a", "alphabte": "ab"}, "'alphabte'", "'alphabet'"),
    ({"name": 3}, "name is 3"),
    ({"regex": "ab|c"}, "the language of 'ab|c' is finite"),
    ({"regex": "a$b"}, "'a$b' matches no word"),
    ({"regex": "a", "alphabet": 3}, "alphabet is 3"),
    *((f"{kind}:", "path is ''") for kind in ("csv", "text", "catbabi", "file")),
    ({"file": "no.json"}, "no.json", "cannot be read"),
    ({"file": "."}, "cannot be read"),
    ({"file": "text.json"}, "text.json", "is not valid JSON"),
    ({"file": "list.json"}, "list.json", "holds a list"),
    ({"object": "users_tasks"}, "'users_tasks'", "give module:name"),
    ({"object": "users_taks:echo"}, "'users_taks'", "cannot be imported", "PYTHONPATH"),
    ({"object": ".tasks:echo"}, "'.tasks'"),
    ({"object": "users_broken:echo"}, "users_broken", "ZeroDivisionError"),
    ({"object": "users_tasks:ehco"}, "'users_tasks'", "'ehco'"),
    ({"object": "users_tasks:number"}, "users_tasks:number is 3", "give a Task"),
    ({"object": "users_tasks:failing"}, "RuntimeError", "two lines"),
    ({"object": "users_tasks:needs"}, "TypeError", "without arguments"),
    ({"object": "users_tasks:Bare"}, "users_tasks:Bare has no name"),
    ({"name": "S5", "hard_fraction": "half"}, "hard_fraction is 'half'"),
    ({"automaton": [1]}, "automaton is '[1]'"),
    ({"word_problem": {}}, "word_problem is none"),
    ({"word_problem": [1]}, "word_problem is [1]; give an object"),
    ({"word_problem": SWITCH | {"token_names": [None, "b"]}}, f"token_names holds null; {TEXT}"),
    ({"word_problem": SWITCH | {"table": [[0, True], [0, 1]]}}, "table holds true; give whole numbers"),
    ({"repl": {"varables": 3}}, "'varables'", "'variables'"),
    ({"repl": [3]}, "repl is [3]"),
]
BAD_AUTOMATA: list[tuple[Any, ...]] = [
    ({"state": []}, "none of the fields transitions"),
    (PARITY | {"table": [[0]]}, "transitions and table"),
    (PARITY | {"acepting": []}, "'acepting'", "'accepting'"),
    ({"transitions": PARITY["transitions"]}, "initial is missing"),
    ({"transitions": [[0, 1]], "initial": 0}, "transitions is [[0, 1]]"),
    ({"transitions": {}, "initial": "q"}, "transitions is empty"),
    (
        {"transitions": {"p": {"a": "q"}, "q": {"a": "q"}}, "initial": "p", "accepting": ["p"]},
        "the language of 'automaton' is finite",
    ),
    (loop("True", True), f"the target of 'True' under 'a' is true; {TEXT}"),
    (loop("['p']", "['p']", initial=["p"]), f'initial is ["p"]; {TEXT}'),
    (loop("True", "True", accepting=[True]), f"accepting holds true; {TEXT}"),
    ({"table": [[0, 1], [1]]}, "automaton"),
    ({"table": [[0.5]]}, "table holds 0.5; give whole numbers"),
    ({"table": [[0]], "tokens": ["x"]}, "'x'"),
    ({"table": Z2, "element_names": [1, 2], "tokens": [1]}, "tokens holds 1, the number of one element and"),
    ({"table": Z2, "tokens": [0, 1.9]}, "tokens holds 1.9; give numbers or names of elements"),
    ({"table": Z2, "tokens": [True, False]}, "tokens holds true; give numbers or names of elements"),
    ({"table": Z2, "element_names": ["e", None]}, f"element_names holds null; {TEXT}"),
    ({"generators": [[1, 4, 2]]}, "[1, 4, 2]", "1 … 3"),
    ({"generators": [[*range(2, 9), 1], [2, 1, *range(3, 9)]]}, "largest_order"),
    ({"generators": [[1, 2], [1]]}, "different lengths"),
    ({"generators": ["12"]}, "generators is", "give a list"),
    ({"generators": [[1, 2]], "token_names": []}, "token_names has 0"),
    (COIN | {"actions": {"flip": "no"}}, "action 'flip'", '"no"'),
    (COIN | {"actions": {"flip": [["0.1", 0.9], [0.9, 0.1]]}}, "'flip' holds \"0.1\"; give numbers"),
    (COIN | {"initial": [True, 0]}, "initial holds true; give numbers"),
    (COIN | {"reveals": {"look": [1, 1.0]}}, "reveal 'look' shows 1 and 1.0, which are equal"),
    (COIN | {"reveals": {"look": [1, True]}}, f"reveal 'look' holds true; {TEXT}"),
    (COIN | {"states": ["heads", None]}, f"states holds null; {TEXT}"),
    ({"actions": {}, "initial": [1]}, "states is missing"),
    (COIN | {"reveal_probability": "a"}, "reveal_probability is 'a'"),
]
BAD += [({"automaton": row[0]}, *row[1:]) for row in BAD_AUTOMATA]


@pytest.mark.parametrize("row", BAD, ids=lambda row: " … ".join(row[1:]))
def test_bad_input_is_refused_in_one_sentence(row: tuple[Any, ...], folder: Path) -> None:
    source, *words = row
    with pytest.raises(InputError) as caught:
        task_from(source)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert all(word in sentence for word in words), sentence


LONG = "ab" * 1000


@pytest.mark.parametrize(
    "source",
    [
        {"regex": LONG},
        {"regex": LONG + "[]", "alphabet": "ab"},
        {"regex": "a*", "alphabet": {LONG: 1}},
        {"regex": f"({LONG}|b)*", "hard_fraction": 0.5},
        {"recognition": LONG, "hard_fraction": 0.5},
        {"recognition": "a*", "name": LONG},
    ],
    ids=["finite", "empty", "alphabet", "avoids", "no word problem", "everything"],
)
def test_long_expressions_and_names_are_cut_in_sentences(source: Any) -> None:
    with pytest.raises(InputError) as caught:
        task_from(source)
    assert len(str(caught.value)) < 300


MANY = 100_000
"""Entries of a list, far more than a list that is compared each with each can have."""
PRODUCTS = [(np.random.default_rng(seed).permutation(10) + 1).tolist() for seed in range(3000)]
ACTIONS = {f"a{n}": [[1]] for n in range(MANY // 2)}


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"generators": [[*range(1, 10)]] * MANY}, "generators holds 100000 rows"),
        ({"generators": [[1, 2], [2, 1]] * 2000}, "generators holds '12' twice"),
        ({"generators": PRODUCTS}, "more products"),
        (
            {"generators": [[2, 1]] * MANY, "token_names": [*map(str, range(MANY - 1)), "99998"]},
            "'99998' twice",
        ),
        ({"states": ["p"], "initial": [1], "actions": ACTIONS, "reveals": {"=x": ["x"]}}, "holds '=x' twice"),
    ],
    ids=["generators", "generators that repeat", "generators of too many", "token names", "actions"],
)
def test_long_lists_are_refused_in_time(content: dict[str, Any], sentence: str) -> None:
    began = time.process_time()
    with pytest.raises(InputError, match=sentence):
        task_of_json(content, "file", "large")
    # a second is what some loops over the list take; comparing each with each takes minutes
    assert time.process_time() - began < 5


def test_repeated_generators_with_names_are_tokens_that_do_the_same() -> None:
    rows = [[2, 1, 3], [1, 3, 2], [2, 1, 3]]
    task = task_of_json({"generators": rows, "token_names": ["a", "b", "c"]}, "file", "S3")
    once = task_of_json({"generators": rows[:2]}, "file", "S3")
    assert isinstance(task, WordProblem)
    assert isinstance(once, WordProblem)
    assert np.array_equal(task.table, once.table[:, [0, 1, 0]])
    assert task.state_names == once.state_names


@pytest.mark.parametrize("letter", ["\u202e", "\u2066", "\u200b", "\x1b", "\udcff", "\u2028"])
def test_no_letter_that_is_not_seen_reaches_a_message(letter: str) -> None:
    """Every sentence is made visible by its error, whatever the source."""
    with pytest.raises(InputError) as refusal:
        task_from(f"{letter}parity")
    assert str(refusal.value).isprintable()
    assert str(InputError(letter)).isprintable()
