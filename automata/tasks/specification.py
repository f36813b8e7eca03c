"""A task from what a user gives: a name, a regular expression, a file, an object; and what rebuilds it.

A specification is JSON: the name of a registered task, or an object with one of these fields.

- ``name``: a registered task.
- ``regex``: a regular expression; tokens are letters of beginnings of long words that it matches, targets are
  the states of its minimal automaton; beside it ``alphabet``.
- ``file``: the path of a JSON file, see ``docs/your_own_task.md``. It may also hold a specification
  with ``regex``, ``recognition``, ``arithmetic``, ``connectivity``, ``matrices``, ``balls``, ``program`` or
  ``repl``.
- ``automaton``: the content of such a file; beside it ``name``, ``description``. The content alone will do.
- ``object``: ``module:name`` of a task, an automaton, a monoid or a probabilistic automaton, or of a class or
  function that makes one without arguments.
- ``text``: the path of a text; beside it ``unit``, ``sha256``, ``name``, ``description``.
- ``csv``: the path of a file of word problems, or a list of them, see `automata.tasks.sequence_file`; beside
  it ``sha256``, ``name``, ``description``.
- ``catbabi``: the folder or archive of bAbI's files; beside it ``predict``, ``begins``, ``sha256``, ``name``,
  ``description``.
- ``repl``: the fields of `ReplLanguage`; beside it ``name``, ``description``.
- ``balls``: the numbers of `SwappingBalls`; beside it ``name``, ``description``.
- ``program``: the numbers of `SmallPrograms`; beside it ``name``, ``description``.
- ``recognition``: a regular expression, or ``transitions``, ``initial`` and ``accepting`` of an automaton,
  for `automata.tasks.final_answers.Recognition`; beside it ``name``, ``description``.
- ``arithmetic``: the numbers of `automata.tasks.final_answers.ModularArithmetic`; beside it ``name``,
  ``description``.
- ``connectivity``: the numbers of `automata.tasks.final_answers.SortedConnectivity`; ``matrices``: those of
  `automata.tasks.matrix_products.MatrixProducts`; beside them ``name``, ``description``.
- ``word_problem``: the fields of `WordProblem`.

``hard_fraction`` may stand beside each that makes a word problem. ``task.specification()`` holds
everything that rebuilds the task, except that a user's code has to be importable and a text has to stand
where it stood: the content of a ``file`` is in it, as ``automaton``.
"""

import json
from collections.abc import Callable, Hashable, Iterable
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import PurePath
from typing import Any

from automata.checks import shown
from automata.data_files import data_file, strict_json
from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.regular_expressions import regular_expression_dfa
from automata.monoids.monoid import Monoid
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.catbabi import CatBabi
from automata.tasks.final_answers import ModularArithmetic, Recognition, SortedConnectivity
from automata.tasks.interface import Specification, Task, with_specification
from automata.tasks.json_formats import (
    FORMS,
    check_fields,
    dfa_of_json,
    read_json_object,
    task_of_json,
    text_of,
    word_problem_of_json,
)
from automata.tasks.matrix_products import MatrixProducts
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.puzzles import SmallPrograms, SwappingBalls
from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.sequence_file import SequenceFile
from automata.tasks.text_file import TextFile
from automata.tasks.word_problem import WordProblem
from implicit_ssm import find_own_code

TaskSource = Specification | Task | DFA | Monoid | ProbabilisticAutomaton
"""The sources that a task can be made from."""

_SHORT_FORMS = ("regex", "recognition", "file", "object", "text", "csv", "catbabi")


def specification_from_text(text: str) -> Specification:
    """Return the specification that a command line gives.

    It is a name, a JSON object, or one of ``regex:EXPRESSION``, ``recognition:EXPRESSION``, ``file:PATH``,
    ``object:MODULE:NAME``, ``text:PATH``, ``csv:PATH`` and ``catbabi:PATH``. A path that ends in ``.json`` or
    ``.csv`` needs no kind. InputError if what begins like a JSON object is not one.

    Example:
        >>> specification_from_text("parity"), specification_from_text("regex:(ab|ba)*")
        ('parity', {'regex': '(ab|ba)*'})
        >>> specification_from_text("lift.json"), specification_from_text("words.csv")
        ({'file': 'lift.json'}, {'csv': 'words.csv'})
    """
    if text.lstrip().startswith("{"):
        return dict(strict_json(text, f"task {shown(text)}"))
    kind, colon, value = text.partition(":")
    if colon and kind in _SHORT_FORMS:
        return {kind: value}
    by_suffix = {".json": "file", ".csv": "csv"}.get(PurePath(text).suffix)
    return {by_suffix: text} if by_suffix else text


def is_pinned(source: TaskSource) -> bool:
    """Return whether a specification pins its data by a digest, so that its meaning is known unread."""
    if not isinstance(source, dict) or not isinstance(source.get("sha256"), str):
        return False
    return any(kind in source and set(source) <= {kind, *_KINDS[kind][1]} for kind in _STORED)


def task_from(
    source: TaskSource, hard_fraction: float | None = None, *, avoid: Iterable[Hashable] | None = None
) -> Task:
    """Return the task of a specification or of a Python object.

    InputError if a name is unknown, a file is missing or holds no automaton, a module cannot be imported, an
    object is of the wrong kind, a field is unknown, or ``hard_fraction`` does not fit.

    Args:
        source: a specification (see the top of this module), its short form as text, such as
            ``"regex:(ab|ba)*"`` or ``"module:name"``, a task, a DFA, a monoid or a probabilistic automaton.
        hard_fraction: for a word problem, the probability that a token is drawn uniformly from all tokens
            instead of the easy ones; what the source says if None.
        avoid: for a DFA, the states that sampling keeps out of; see `WordProblem.from_dfa`. A file of an
            automaton has a field for them.

    Example:
        >>> task_from("S3"), task_from({"regex": "(ab|ba)*"})
        (<WordProblem S3: 6 tokens, 6 states>, <WordProblem (ab|ba)*: 2 tokens, 4 states>)
        >>> task_from({"object": "automata:parity_dfa"}).specification()
        {'object': 'automata:parity_dfa'}
    """
    if avoid is not None:
        if not isinstance(source, DFA):
            raise InputError(
                f"avoid is given, and task is {shown(source)}; give it for a DFA, or leave it out"
            )
        source = WordProblem.from_dfa(source, avoid=avoid)
    if isinstance(source, str):
        source = specification_from_text(source)
    if isinstance(source, str):
        source = {"object" if ":" in source else "name": source}
    if not isinstance(source, dict):
        return _with_hard_fraction(_task_of_object(source, "task"), hard_fraction)
    if FORMS.keys() & source and not _OTHER_KINDS & source.keys():
        source = {"automaton": source}
    kinds = [kind for kind in _KINDS if kind in source and (kind != "name" or not _OTHER_KINDS & set(source))]
    if len(kinds) != 1:
        raise InputError(
            f"task {json.dumps(source, default=str)[:80]} has {len(kinds)} of the fields "
            f"{', '.join(_KINDS)}; give one, and the content of a task file under automaton"
        )
    build, beside = _KINDS[kinds[0]]
    check_fields("field of a task", source, (kinds[0], "hard_fraction", *beside))
    fraction = source.get("hard_fraction") if hard_fraction is None else hard_fraction
    return _with_hard_fraction(build(source), fraction)


def _of_regex(given: dict[str, Any]) -> Task:
    expression = text_of(given, "regex")
    alphabet = given.get("alphabet")
    if alphabet is not None and not (
        isinstance(alphabet, str | list) and all(isinstance(letter, str) for letter in alphabet)
    ):
        raise InputError(f"alphabet is {shown(alphabet)}; give a text or a list of letters")
    dfa = regular_expression_dfa(expression, alphabet)
    if not dfa.accepting:
        raise InputError(f"expression {shown(expression)} matches no word; correct it")
    description = f"state of the minimal automaton of {expression}, on beginnings of long words of it"
    task = WordProblem.from_dfa(dfa, name=expression, description=description)
    # the alphabet is written down, so that the automaton does not depend on how it is found
    return with_specification(task, {"regex": expression, "alphabet": list(dfa.alphabet)})


def _of_file(given: dict[str, Any]) -> Task:
    path = data_file(text_of(given, "file"))
    content = read_json_object(path)
    if _DATA & content.keys():
        try:
            return task_from(content)
        except InputError as error:
            raise InputError(f"task file {path}: {error}") from error
    if not FORMS.keys() & content.keys():
        kinds = [*FORMS, *sorted(_DATA)]
        near = [match for field in content for match in get_close_matches(field, kinds, 1)]
        raise InputError(
            f"task file {path} is no automaton: it has none of the fields {', '.join(kinds)}; "
            + (f"did you mean {near[0]!r}?" if near else "give one of them")
        )
    task = task_of_json(content, f"task file {path}", path.stem)
    return with_specification(task, {"automaton": content, "name": task.name})


def _of_automaton(given: dict[str, Any]) -> Task:
    content = given["automaton"]
    if not isinstance(content, dict):
        raise InputError(f"automaton is {str(content)[:60]!r}; give an object, as a task file holds it")
    fields = _labels(given)
    task = task_of_json({**fields, **content}, "automaton", "automaton")
    return with_specification(task, {field: given[field] for field in ("automaton", *fields)})


def _of_import(given: dict[str, Any]) -> Task:
    reference = text_of(given, "object")
    module_name, colon, attribute = reference.partition(":")
    if not (module_name and colon and attribute):
        raise InputError(f"object is {reference!r}; give module:name, such as my_tasks:parity")
    find_own_code()
    try:
        found: Any = import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"module {module_name!r} of task {reference} cannot be imported ({error}); put its folder on "
            "PYTHONPATH or install it"
        ) from error
    except (Exception, SystemExit) as error:  # whatever a user's module raises
        raise InputError(
            f"module {module_name!r} of task {reference} raises {type(error).__name__} when imported "
            f"({_one_line(error)}); mend it"
        ) from error
    for name in attribute.split("."):
        if not hasattr(found, name):
            raise InputError(f"module {module_name!r} has no {attribute!r}; name an object that it holds")
        found = getattr(found, name)
    if callable(found) and not isinstance(found, Task):
        try:
            found = found()
        except InputError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{reference} raises {type(error).__name__} when called without arguments "
                f"({_one_line(error)}); name a function that needs none"
            ) from error
    return with_specification(_task_of_object(found, reference), {"object": reference})


def _of_files(made: type[Any], given: dict[str, Any]) -> Task:
    """Return a task of files; their path, or paths, stand under its kind."""
    beside = {field: text_of(given, field) for field in ("unit", "predict", "begins") if field in given}
    paths = given[made.specified_as]
    if made is not SequenceFile:
        paths = text_of(given, made.specified_as)
    elif not isinstance(paths, str) and not (
        isinstance(paths, list) and all(isinstance(path, str) for path in paths)
    ):
        raise InputError(f"csv is {shown(paths)}; give a path or a list of paths")
    return made(paths, digest=given.get("sha256"), **beside, **_labels(given))


def _of_options(made: type[Any], given: dict[str, Any]) -> Task:
    """Return a task of the options that stand under its kind, whose values it checks itself."""
    kind, known = made.specified_as, made.specified_by
    options = given[kind]
    if not isinstance(options, dict):
        raise InputError(f"{kind} is {shown(options)}; give an object with {', '.join(known)}")
    check_fields(f"field of {kind}", options, known)
    return made(**options, **_labels(given))


def _of_recognition(given: dict[str, Any]) -> Task:
    language = given["recognition"]
    if isinstance(language, str):
        labels = {"name": f"recognition of {language}", **_labels(given)}
        return Recognition(regular_expression_dfa(language), **labels)
    if not isinstance(language, dict):
        raise InputError(f"recognition is {shown(language)}; give a regular expression or an automaton")
    check_fields("field of recognition", language, ("transitions", "initial", "accepting"))
    return Recognition(dfa_of_json(language), **_labels(given))


_STORED = {made.specified_as: made for made in (TextFile, SequenceFile, CatBabi)}
_OF_OPTIONS = (
    ReplLanguage,
    SwappingBalls,
    SmallPrograms,
    ModularArithmetic,
    SortedConnectivity,
    MatrixProducts,
)
_DATA = {"regex", "recognition", *(made.specified_as for made in _OF_OPTIONS)}
"""The kinds that a task file may hold beside automata: numbers and texts, and no code or file."""
_KINDS: dict[str, tuple[Callable[[dict[str, Any]], Task], tuple[str, ...]]] = {
    "name": (lambda given: registered_task(text_of(given, "name")), ()),
    "regex": (_of_regex, ("alphabet",)),
    "file": (_of_file, ()),
    "automaton": (_of_automaton, ("name", "description")),
    "object": (_of_import, ()),
    **{kind: (partial(_of_files, made), made.specified_beside) for kind, made in _STORED.items()},
    **{made.specified_as: (partial(_of_options, made), made.specified_beside) for made in _OF_OPTIONS},
    "recognition": (_of_recognition, ("name", "description")),
    "word_problem": (lambda given: word_problem_of_json(given["word_problem"]), ()),
}
_OTHER_KINDS = set(_KINDS) - {"name"}


def _task_of_object(found: Any, where: str) -> Task:
    match found:
        case Task():
            for attribute in ("name", "description", "token_names", "target_names"):
                if not hasattr(found, attribute):
                    raise InputError(f"task {where} has no {attribute}; set it in {type(found).__name__}")
            return found
        case DFA():
            return WordProblem.from_dfa(found)
        case Monoid():
            return WordProblem.from_monoid(found)
        case ProbabilisticAutomaton():
            return PartiallyObserved(found, "reveals" if found.reveals else "states")
    raise InputError(f"{where} is {shown(found)}; give a Task, a DFA, a Monoid or a ProbabilisticAutomaton")


def _with_hard_fraction(task: Task, hard_fraction: object) -> Task:
    """Return the task with another hard fraction, and a specification that says so."""
    if hard_fraction is None:
        return task
    if isinstance(hard_fraction, bool) or not isinstance(hard_fraction, int | float):
        raise InputError(f"hard_fraction is {hard_fraction!r}; give a probability in [0, 1]")
    if not isinstance(task, WordProblem):
        if hard_fraction == 1:
            return task
        raise InputError(
            f"hard_fraction is {hard_fraction} but {shown(task.name)} is no word problem; leave it out"
        )
    if hard_fraction == task.hard_fraction:
        return task
    if type(task) is not WordProblem:
        raise InputError(
            f"hard_fraction is {hard_fraction} but {shown(task.name)} has its own ({type(task).__name__}); "
            "leave it out"
        )
    kept = ("table", "initial_state", "token_names", "state_names", "avoid", "name", "description")
    fields: dict[str, Any] = {field: getattr(task, field) for field in kept}
    other = WordProblem(**fields, hard_fraction=hard_fraction, easy_tokens=task.easy_tokens or None)
    made_from = task.specification()
    if isinstance(made_from, str):
        made_from = {"name": made_from}
    if "word_problem" in made_from:
        return other
    return with_specification(other, {**made_from, "hard_fraction": float(hard_fraction)})


def _labels(given: dict[str, Any]) -> dict[str, Any]:
    return {field: text_of(given, field) for field in ("name", "description") if field in given}


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
