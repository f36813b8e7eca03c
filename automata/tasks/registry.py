"""The tasks that have names: a name, what it stands for, and how the task is made."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import permutations, starmap
from typing import Any

from automata.checks import check_number, check_type
from automata.errors import InputError, unknown_name
from automata.machines.dfa import DFA
from automata.machines.named_dfas import cyclic_navigation_dfa, dyck_dfa, flip_flop_dfa, modular_counter_dfa
from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    quaternion_group,
    reset_monoid,
    symmetric_group,
)
from automata.monoids.monoid import Monoid, direct_product
from automata.probabilistic.named_pfsas import lazy_swaps, noisy_parity
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.tasks.final_answers import ModularArithmetic, Recognition, SortedConnectivity
from automata.tasks.interface import Task, with_specification
from automata.tasks.matrix_products import MatrixProducts
from automata.tasks.partially_observed import PartiallyObserved, Target
from automata.tasks.puzzles import SmallPrograms, SwappingBalls
from automata.tasks.repl_language import Predict, ReplLanguage
from automata.tasks.word_problem import WordProblem

S5_GENERATORS = ("12345", "54132", "34125", "53124", "21345")
"""Tokens of ``S5-generators``: the identity, the three permutations of a worked example, and (1 2).

The three are even, so that the transposition is what leads out of A5; without it they are the tokens of
``A5-generators``.
"""


@dataclass(frozen=True)
class TaskEntry:
    """One row of the registry.

    ``description`` says tokens, labels and what the task stands for; ``build`` makes the task from both, a
    word problem from ``hard_fraction`` too.
    """

    name: str
    description: str
    build: Callable[..., Task]


_Row = tuple[str, str, Callable[..., Task]]


def _monoid(
    monoid: Callable[..., Monoid], *size: int, tokens: Iterable[str] | None = None
) -> Callable[..., Task]:
    def build(**fields: Any) -> WordProblem:
        made = monoid(*size)
        return WordProblem.from_monoid(made, None if tokens is None else map(made.index, tokens), **fields)

    return build


def _times_m(group: Callable[[int], Monoid], size: int, *tokens: str) -> Callable[..., Task]:
    """A group times the memory with three resets; easy tokens rest in the group."""

    def build(**fields: Any) -> WordProblem:
        factor, resets = group(size), reset_monoid(3)
        chosen = [factor.index(element) for element in tokens or factor.element_names]
        pairs = [element * resets.order + memory for element in chosen for memory in range(resets.order)]
        easy = [factor.identity * resets.order + memory for memory in range(resets.order)]
        return WordProblem.from_monoid(direct_product(factor, resets), pairs, easy_tokens=easy, **fields)

    return build


def _dfa(dfa: Callable[..., DFA], *given: Any, avoid: tuple[str, ...] = ()) -> Callable[..., Task]:
    return lambda **fields: WordProblem.from_dfa(dfa(*given), avoid=avoid, **fields)


_SWAPS = ["".join(p) for p in permutations("12345") if sum(map(str.__ne__, p, "12345")) == 2]
_WORD_PROBLEMS: tuple[_Row, ...] = (
    ("parity", "running parity of the ones; tokens 0 and 1; solvable", _monoid(cyclic_group, 2)),
    ("Z60", "running sum modulo 60; all residues are tokens; abelian", _monoid(cyclic_group, 60)),
    ("S3", "product of permutations of three; all 6 are tokens; solvable", _monoid(symmetric_group, 3)),
    ("D4", "symmetries of the square; all 8 are tokens; solvable", _monoid(dihedral_group, 4)),
    ("Q8", "quaternions ±1, ±i, ±j, ±k; all 8 are tokens; solvable", _monoid(quaternion_group)),
    (
        "A4",
        "product of even permutations of four; all 12 are tokens; solvable",
        _monoid(alternating_group, 4),
    ),
    ("S4", "product of permutations of four; all 24 are tokens; solvable", _monoid(symmetric_group, 4)),
    (
        "A5",
        "product of even permutations of five; all 60 are tokens; non-solvable, NC1-complete",
        _monoid(alternating_group, 5),
    ),
    (
        "S5",
        "product of permutations of five; all 120 are tokens; non-solvable, NC1-complete",
        _monoid(symmetric_group, 5),
    ),
    (
        "S5-transpositions",
        "S5 with the 10 swaps as tokens, no identity; after t tokens the parity is that of t",
        _monoid(symmetric_group, 5, tokens=_SWAPS),
    ),
    (
        "S5-generators",
        "S5 with 5 tokens: the identity and four elements that generate it",
        _monoid(symmetric_group, 5, tokens=S5_GENERATORS),
    ),
    (
        "A5-generators",
        "A5 with 4 tokens: the identity and three elements that generate it",
        _monoid(alternating_group, 5, tokens=S5_GENERATORS[:4]),
    ),
    (
        "A5xM",
        "A5 × U3, the memory with three resets; all 240 pairs are tokens; easy ones rest in A5",
        _times_m(alternating_group, 5),
    ),
    (
        "A5-generatorsxM",
        "A5 × U3 with the tokens of A5-generators beside those of U3, 16 pairs; easy ones rest in A5",
        _times_m(alternating_group, 5, *S5_GENERATORS[:4]),
    ),
    (
        "S3xM",
        "S3 × U3, the memory with three resets; all 24 pairs are tokens; easy ones rest in S3",
        _times_m(symmetric_group, 3),
    ),
    (
        "flip-flop",
        "a bit that is kept or written; tokens keep, write 0, write 1; aperiodic",
        _dfa(flip_flop_dfa),
    ),
    ("counter-5", "number of ones modulo 5; tokens 0 and 1; abelian", _dfa(modular_counter_dfa, 5)),
    (
        "cyclic-navigation",
        "place on a ring of 5; tokens stay, left, right; abelian",
        _dfa(cyclic_navigation_dfa, 5),
    ),
    (
        "dyck-4",
        "depth of balanced brackets, at most 4 deep; random prefixes of such words; aperiodic",
        _dfa(dyck_dfa, 4, ("()",), avoid=("error",)),
    ),
    (
        "dyck-2-3",
        "open brackets of two kinds, at most 3 deep; random prefixes of such words; aperiodic",
        _dfa(dyck_dfa, 3, ("()", "[]"), avoid=("error",)),
    ),
)
"""The easier ones first."""


def _observed(
    automaton: Callable[[], ProbabilisticAutomaton], target: Target = "reveals"
) -> Callable[..., Task]:
    return lambda **fields: PartiallyObserved(automaton(), target, **fields)


def _sessions(
    name: str, variables: int, predict: Predict, when: str = "every 4 swaps", **fields: Any
) -> _Row:
    count = {3: "three", 5: "five"}[variables]
    asked = {"all": "every next token", "reveals": "the printed lines", "values": "the printed values"}[
        predict
    ]
    description = f"Python sessions that swap {count} variables and print one after {when}; {asked}"
    return name, description, partial(ReplLanguage, variables, predict=predict, **fields)


_OTHER_TASKS: tuple[_Row, ...] = (
    (
        "connectivity",
        "is a node reachable from another along sorted single edges? in unary, asked at the end",
        SortedConnectivity,
    ),
    (
        "matrices-3-mod-2",
        "first entry of the product of 3 by 3 matrices modulo 2, read entry by entry, after each",
        partial(MatrixProducts, 3, 2),
    ),
    (
        "matrices-3-mod-5",
        "first entry of the product of 3 by 3 matrices modulo 5, read entry by entry, after each",
        MatrixProducts,
    ),
    (
        "dyck-4-recognition",
        "are brackets balanced, at most 4 deep? asked after the last; half of the words are nearly so",
        lambda **fields: Recognition(dyck_dfa(4), **fields),
    ),
    ("modular-arithmetic", "value of digits with +, -, * modulo 5, asked after =", ModularArithmetic),
    (
        "modular-arithmetic-brackets",
        "value of digits with +, -, * and brackets, at most 3 deep, modulo 5, asked after =",
        partial(ModularArithmetic, depth=3),
    ),
    (
        "noisy-parity-reveals",
        "parity whose flips fail one time in ten; predict what each reveal shows",
        _observed(lambda: noisy_parity(0.1)),
    ),
    (
        "noisy-parity-states",
        "parity whose flips fail one time in ten; predict the hidden state after every token",
        _observed(lambda: noisy_parity(0.1), "states"),
    ),
    (
        "lazy-swaps-3-reveals",
        "three variables whose swaps happen half of the time; predict what each reveal shows",
        _observed(lambda: lazy_swaps(3)),
    ),
    (
        "lazy-swaps-3-states",
        "three variables whose swaps happen half of the time; predict the hidden arrangement",
        _observed(lambda: lazy_swaps(3), "states"),
    ),
    (
        "likely-swaps-3-reveals",
        "three variables whose swaps happen nine times in ten; predict what partial reveals show",
        _observed(lambda: lazy_swaps(3, 0.9, full_reveal=False)),
    ),
    (
        "lazy-swaps-5-reveals",
        "five variables whose swaps happen half of the time; predict what each reveal shows",
        _observed(lambda: lazy_swaps(5)),
    ),
    _sessions("repl-3", 3, "all"),
    _sessions("repl-3-reveals", 3, "reveals"),
    _sessions("repl-3-values", 3, "values"),
    _sessions("repl-3-values-1", 3, "values", "every swap", reveal_every=1),
    _sessions("repl-3-values-8", 3, "values", "every 8 swaps", reveal_every=8),
    _sessions("repl-3-random", 3, "all", "one swap in 4", spacing="random"),
    _sessions("repl-3-values-random", 3, "values", "one swap in 4", spacing="random"),
    (
        "repl-3-hidden",
        "Python sessions that swap three variables or not, unseen, and print one each time; its value",
        partial(ReplLanguage, 3, predict="values", reveal_every=1, hidden="if"),
    ),
    _sessions("repl-5-reveals", 5, "reveals"),
    _sessions("repl-5-values", 5, "values"),
    _sessions("repl-5-random", 5, "all", "one swap in 4", spacing="random"),
    _sessions("repl-5-values-random", 5, "values", "one swap in 4", spacing="random"),
    (
        "repl-5-end",
        "Python sessions that swap five variables and print one of them at the end; its value",
        partial(ReplLanguage, 5, predict="values", spacing="end"),
    ),
    (
        "swap-balls-3",
        '"swap ball 1 and 3, …. Where does ball 2 end up?" with three balls; the answer',
        partial(SwappingBalls, 3),
    ),
    (
        "swap-balls-5",
        '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; the answer',
        partial(SwappingBalls, 5),
    ),
    (
        "swap-balls-5-all",
        '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; every next token',
        partial(SwappingBalls, 5, predict="all"),
    ),
    (
        "small-programs",
        "Python programs of assignments, loops and conditions on three variables; what they print",
        SmallPrograms,
    ),
    (
        "reversible-programs",
        "Python programs of swaps, sums, loops and conditions that forget nothing; what they print",
        partial(SmallPrograms, reversible=True),
    ),
    (
        "small-programs-all",
        "Python programs of assignments, loops and conditions on three variables; every next token",
        partial(SmallPrograms, predict="all"),
    ),
)
"""Automata that are partly observed, then sessions, puzzles and programs: none has a ``hard_fraction``."""

TASKS = {entry.name: entry for entry in starmap(TaskEntry, (*_WORD_PROBLEMS, *_OTHER_TASKS))}
"""The registry, by name."""
LISTED = "python -m implicit.train --list and automata.task_names() list all"
"""Where the names stand."""


def registered_task(name: str, hard_fraction: float | None = None) -> Task:
    """Return the task of this name, one of ``task_names()``, of whatever kind.

    InputError as for ``make_task``, or ``hard_fraction`` is below 1 for a task that is no word problem.

    Example:
        >>> registered_task("repl-3-reveals")
        <ReplLanguage repl-3-reveals: 15 tokens, 15 answers>
    """
    check_type("task", name, str, "give a name such as 'parity'; automata.task_names() lists them")
    if name not in TASKS:
        raise unknown_name("task", name, TASKS, LISTED)
    entry = TASKS[name]
    fraction = 1.0 if hard_fraction is None else check_number("hard_fraction", hard_fraction)
    options = {} if fraction == 1 else {"hard_fraction": fraction}
    if options and name not in {row[0] for row in _WORD_PROBLEMS}:
        raise InputError(f"hard_fraction is {fraction} but {name!r} is no word problem; leave it out")
    task = entry.build(name=entry.name, description=entry.description, **options)
    return with_specification(task, name if fraction == 1 else {"name": name, "hard_fraction": fraction})


def make_task(name: str, hard_fraction: float | None = None) -> WordProblem:
    """Return the word problem of this name.

    ``automata.tasks.specification.task_from`` takes the names of the other tasks too. InputError if the name
    is unknown (the nearest one is named) or is that of another kind of task, or ``hard_fraction`` is not in
    [0, 1] or below 1 for a task without an identity among its tokens.

    Args:
        name: one of ``task_names()`` that is a word problem.
        hard_fraction: the probability that a token is drawn uniformly from all tokens instead of being the
            identity (in ``A5xM``, ``A5-generatorsxM`` and ``S3xM``: the identity of the group beside a
            uniform element of M); 1 if left out.

    Example:
        >>> make_task("S5", hard_fraction=0.5)
        <WordProblem S5: 120 tokens, 120 states>
    """
    task = registered_task(name, hard_fraction)
    if not isinstance(task, WordProblem):
        raise InputError(f"task {name!r} is no word problem; make it with task_from({name!r})")
    return task


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks: word problems, the easier ones first, then the other kinds.

    Example:
        >>> task_names()[:3]
        ('parity', 'Z60', 'S3')
    """
    return tuple(TASKS)
