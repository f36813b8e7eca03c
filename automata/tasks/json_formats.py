"""Automata in JSON: the task of a file in one of four forms, which its fields tell apart.

``docs/your_own_task.md`` has an example of each form, and all fields.
"""

import json
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from automata.checks import check_different, shown
from automata.data_files import read_file, strict_json
from automata.errors import InputError, unknown_name
from automata.machines.dfa import DFA
from automata.monoids.groups import LARGEST_ORDER, one_line_name, transformation_closure
from automata.monoids.monoid import Monoid
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.interface import Task
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.word_problem import WordProblem

Content = dict[str, Any]
LARGEST_TASK_FILE = 2**28
"""Bytes; the table of S7, the largest here, has 150 million."""


def read_json_object(path: Path) -> Content:
    """Return the JSON object that a file holds; InputError if it cannot be read or holds something else."""
    try:
        content = strict_json(read_file(path, LARGEST_TASK_FILE), f"task file {path}")
    except OSError as error:
        raise InputError(
            f"task file {path} cannot be read ({error.strerror}); give the path of a readable file"
        ) from error
    if not isinstance(content, dict):
        raise InputError(
            f"task file {path} holds a {type(content).__name__}; give an object that describes an automaton"
        )
    return content


def task_of_json(content: Content, where: str, name: str) -> Task:
    """Return the task of an automaton in one of the four forms; ``where`` begins the sentence of a fault."""
    found = [field for field in FORMS if field in content]
    if len(found) != 1:
        raise InputError(
            f"{where} is no automaton: it has {' and '.join(found) or 'none'} of the fields "
            f"{', '.join(FORMS)}; give exactly one of them (fields: docs/your_own_task.md)"
        )
    build, fields = FORMS[found[0]]
    known = {*found, *fields, "name", "description"}
    try:
        check_fields("field", content, known)
        label = text_of(content, "name", name)
        return build(content, label, text_of(content, "description", ""))
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{where} is no automaton: a value of {found[0]} or beside it is of the wrong kind ({error}); "
            "see the fields in docs/your_own_task.md"
        ) from error


def word_problem_of_json(fields: Content) -> WordProblem:
    """Return the word problem of the fields of its class."""
    for field, value in _need(fields, "word_problem", dict).items():
        if field in ("token_names", "state_names"):
            _names(value, field)
        elif field in ("table", "avoid") or (field == "easy_tokens" and value is not None):
            _numbers(value, field, int)
        elif field == "hard_fraction":
            _numbers([value], field, int, float)
    try:
        return WordProblem(**fields)
    except InputError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"word_problem is none ({' '.join(str(error).split())}); give the fields of WordProblem"
        ) from error


def dfa_of_json(content: Content) -> DFA:
    """Return the automaton of ``transitions``, ``initial`` and ``accepting``."""
    transitions = {
        state: {
            symbol: _name(target, f"the target of {state!r} under {symbol!r}")
            for symbol, target in _need(row, f"transitions of {state!r}", dict).items()
        }
        for state, row in _need(content.get("transitions"), "transitions", dict).items()
    }
    if "initial" not in content:
        raise InputError("initial is missing; name the initial state")
    if not transitions:
        raise InputError("transitions is empty; give at least one state")
    accepting = _names(content.get("accepting", []), "accepting")
    alphabet = dict.fromkeys(symbol for row in transitions.values() for symbol in row)
    return DFA(transitions, alphabet, transitions, _name(content["initial"], "initial"), accepting)


def _of_dfa(content: Content, name: str, description: str) -> Task:
    avoid = _names(content["avoid"], "avoid") if "avoid" in content else None
    return WordProblem.from_dfa(dfa_of_json(content), avoid=avoid, name=name, description=description)


def _of_monoid(content: Content, name: str, description: str) -> Task:
    names = content.get("element_names")
    monoid = Monoid(
        _numbers(content["table"], "table", int),
        None if names is None else _names(names, "element_names"),
        name,
    )
    tokens = content.get("tokens")
    chosen = None if tokens is None else [_element(monoid, t) for t in _need(tokens, "tokens", list)]
    return WordProblem.from_monoid(monoid, chosen, name=name, description=description)


def _element(monoid: Monoid, token: Any) -> int:
    if type(token) is int:
        if str(token) in monoid.element_names and monoid.index(str(token)) != token:
            raise InputError(
                f"tokens holds {token}, the number of one element and the name of another; give the name as "
                f'"{token}", or names that are no numbers'
            )
        return token
    if not isinstance(token, str):
        raise InputError(f"tokens holds {json.dumps(token)[:60]}; give numbers or names of elements")
    return monoid.index(token)


def _of_generators(content: Content, name: str, description: str) -> Task:
    rows = _need(content["generators"], "generators", list)
    token_names = content.get("token_names")
    if token_names is None and len(rows) > LARGEST_ORDER:
        raise InputError(
            f"generators holds {len(rows)} rows, which repeat each other or have more than {LARGEST_ORDER} "
            "products; give fewer"
        )
    lengths = {len(_need(row, "generators", list)) for row in rows}
    if len(lengths) != 1 or lengths == {0}:
        raise InputError(
            "generators holds rows of different lengths or none; give each as n numbers in 1 … n"
        )
    degree = lengths.pop()
    for row in rows:
        for image in row:
            if type(image) is not int or not 1 <= image <= degree:
                raise InputError(
                    f"generators holds {shown(row)}; give one-line forms with numbers in 1 … {degree}"
                )
    maps = np.array(rows) - 1
    given = (
        [one_line_name(row) for row in maps] if token_names is None else _names(token_names, "token_names")
    )
    if len(given) != len(rows):
        raise InputError(
            f"token_names has {len(given)} entries; give one for each of the {len(rows)} generators"
        )
    check_different("generators" if token_names is None else "token_names", given)
    elements, table, words = transformation_closure(maps, composition="functions")
    numbers = {element.tobytes(): number for number, element in enumerate(elements)}
    return WordProblem(
        table[:, [numbers[row.tobytes()] for row in maps]],
        words.index(()),
        given,
        [one_line_name(element) for element in elements],
        name=name,
        description=description,
    )


def _of_probabilistic(content: Content, name: str, description: str) -> Task:
    for field in ("states", "initial"):
        if field not in content:
            raise InputError(f"{field} is missing; give it beside actions")
    reveals = _need(content.get("reveals", {}), "reveals", dict)
    automaton = ProbabilisticAutomaton(
        _names(content["states"], "states"),
        _numbers(content["initial"], "initial", int, float),
        {
            action: _numbers(matrix, f"the matrix of action {action!r}", int, float)
            for action, matrix in _need(content["actions"], "actions", dict).items()
        },
        {
            reveal: [
                _label(value, f"reveal {reveal!r}") for value in _need(values, f"reveal {reveal!r}", list)
            ]
            for reveal, values in reveals.items()
        },
    )
    probability = content.get("reveal_probability", 0.25)
    if isinstance(probability, bool) or not isinstance(probability, int | float):
        raise InputError(f"reveal_probability is {probability!r}; give a number in [0, 1]")
    return PartiallyObserved(
        automaton,
        content.get("target", "reveals" if reveals else "states"),
        probability,
        name=name,
        description=description or None,
    )


def _label(value: Any, field: str, verb: str = "holds") -> Any:
    """The text or number, for which no truth value, null or list stands."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InputError(f"{field} {verb} {json.dumps(value)[:60]}; give a text or a number")
    return value


def _name(value: Any, field: str) -> str:
    return str(_label(value, field, "is"))


def _names(value: Any, field: str) -> list[str]:
    return [str(_label(entry, field)) for entry in _need(value, field, list)]


def _need(value: Any, field: str, kind: type) -> Any:
    if not isinstance(value, kind):
        wanted = "a list" if kind is list else "an object"
        raise InputError(f"{field} is {json.dumps(value, default=str)[:60]}; give {wanted}")
    return value


def _numbers(value: Any, field: str, *kinds: type) -> Any:
    """The list, or the list of lists, in which no text and no truth value stands for a number."""
    rows = _need(value, field, list)
    for row in rows if rows and isinstance(rows[0], list) else [rows]:
        if not set(map(type, _need(row, field, list))).issubset(kinds):
            wrong = next(entry for entry in row if type(entry) not in kinds)
            wanted = "numbers" if float in kinds else "whole numbers"
            raise InputError(f"{field} holds {json.dumps(wrong)[:60]}; give {wanted}")
    return rows


def check_fields(kind: str, given: Iterable[str], known: Collection[str]) -> None:
    """Refuse a field that is not known."""
    for field in given:
        if field not in known:
            raise unknown_name(kind, str(field), known)


def text_of(content: Content, field: str, default: str = "") -> str:
    """Return the text of a field, or the default where it is missing; refuse what is no text."""
    value = content.get(field, default)
    if not isinstance(value, str):
        raise InputError(f"{field} is {value!r}; give a text")
    return value


FORMS: dict[str, tuple[Callable[[Content, str, str], Task], set[str]]] = {
    "transitions": (_of_dfa, {"initial", "accepting", "avoid"}),
    "table": (_of_monoid, {"element_names", "tokens"}),
    "generators": (_of_generators, {"token_names"}),
    "actions": (_of_probabilistic, {"states", "initial", "reveals", "target", "reveal_probability"}),
}
"""The four forms by the field that tells them, with what reads them and their other fields."""
