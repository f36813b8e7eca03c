"""The tasks that have names, and what each of them stands for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from automata.checks import check_type
from automata.errors import InputError, unknown_name
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
from automata.tasks.interface import Task, with_specification
from automata.tasks.partially_observed import PartiallyObserved, Target
from automata.tasks.repl_language import Predict, ReplLanguage
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import Asked, SwappingBalls
from automata.tasks.word_problem import WordProblem

S5_GENERATORS = ("12345", "54132", "34125", "53124", "21345")
"""Tokens of ``S5-generators``: the identity, the three permutations of a worked example, and (1 2).

The three are even, so that the transposition is what leads out of A5; without it they are the tokens of
``A5-generators``.
"""


@dataclass(frozen=True)
class TaskEntry:
    """One line of the registry.

    Attributes:
        name: what ``make_task`` takes.
        description: tokens, labels, and what the task stands for.
        build: makes the task from name, description and hard fraction.

    Example:
        >>> TASKS["S5"].description
        'product of permutations of five; all 120 are tokens; non-solvable, NC1-complete'
    """

    name: str
    description: str
    build: Callable[[str, str, float], Task]


def _of_monoid(monoid: Callable[[], Monoid]) -> Callable[[str, str, float], WordProblem]:
    return lambda name, description, hard_fraction: WordProblem.from_monoid(
        monoid(), hard_fraction=hard_fraction, name=name, description=description
    )


def _s5_transpositions(name: str, description: str, hard_fraction: float) -> WordProblem:
    S5 = symmetric_group(5)
    swaps = [x for x, images in enumerate(S5.element_names) if sum(map(str.__ne__, images, "12345")) == 2]
    return WordProblem.from_monoid(S5, swaps, hard_fraction=hard_fraction, name=name, description=description)


def _s5_generators(name: str, description: str, hard_fraction: float) -> WordProblem:
    S5 = symmetric_group(5)
    tokens = [S5.index(element) for element in S5_GENERATORS]
    return WordProblem.from_monoid(
        S5, tokens, hard_fraction=hard_fraction, name=name, description=description
    )


def _a5_generators(name: str, description: str, hard_fraction: float) -> WordProblem:
    A5 = alternating_group(5)
    tokens = [A5.index(element) for element in S5_GENERATORS[:4]]
    return WordProblem.from_monoid(
        A5, tokens, hard_fraction=hard_fraction, name=name, description=description
    )


def _times_m(
    group: Callable[[], Monoid], tokens: tuple[str, ...] | None = None
) -> Callable[[str, str, float], WordProblem]:
    def build(name: str, description: str, hard_fraction: float) -> WordProblem:
        factor, resets = group(), reset_monoid(3)
        chosen = range(factor.order) if tokens is None else [factor.index(element) for element in tokens]
        pairs = [element * resets.order + memory for element in chosen for memory in range(resets.order)]
        easy = [factor.identity * resets.order + memory for memory in range(resets.order)]
        return WordProblem.from_monoid(
            direct_product(factor, resets),
            pairs,
            hard_fraction=hard_fraction,
            easy_tokens=easy,
            name=name,
            description=description,
        )

    return build


def _flip_flop(name: str, description: str, hard_fraction: float) -> WordProblem:
    return WordProblem.from_dfa(
        flip_flop_dfa(), hard_fraction=hard_fraction, name=name, description=description
    )


def _counter(name: str, description: str, hard_fraction: float) -> WordProblem:
    return WordProblem.from_dfa(
        modular_counter_dfa(5), hard_fraction=hard_fraction, name=name, description=description
    )


def _navigation(name: str, description: str, hard_fraction: float) -> WordProblem:
    return WordProblem.from_dfa(
        cyclic_navigation_dfa(5), hard_fraction=hard_fraction, name=name, description=description
    )


def _dyck(max_depth: int, *brackets: str) -> Callable[[str, str, float], WordProblem]:
    return lambda name, description, hard_fraction: WordProblem.from_dfa(
        dyck_dfa(max_depth, brackets),
        hard_fraction=hard_fraction,
        avoid=["error"],
        name=name,
        description=description,
    )


def _observed(
    automaton: Callable[[], ProbabilisticAutomaton], target: Target
) -> Callable[[str, str, float], PartiallyObserved]:
    def build(name: str, description: str, hard_fraction: float) -> PartiallyObserved:
        _refuse_hard_fraction(name, hard_fraction)
        return PartiallyObserved(automaton(), target, name=name, description=description)

    return build


def _repl(variables: int, predict: Predict, **fields: Any) -> Callable[[str, str, float], ReplLanguage]:
    def build(name: str, description: str, hard_fraction: float) -> ReplLanguage:
        _refuse_hard_fraction(name, hard_fraction)
        return ReplLanguage(variables, predict=predict, name=name, description=description, **fields)

    return build


def _balls(balls: int, predict: Asked) -> Callable[[str, str, float], SwappingBalls]:
    def build(name: str, description: str, hard_fraction: float) -> SwappingBalls:
        _refuse_hard_fraction(name, hard_fraction)
        return SwappingBalls(balls, predict=predict, name=name, description=description)

    return build


def _programs(predict: Asked, reversible: bool = False) -> Callable[[str, str, float], SmallPrograms]:
    def build(name: str, description: str, hard_fraction: float) -> SmallPrograms:
        _refuse_hard_fraction(name, hard_fraction)
        return SmallPrograms(predict=predict, reversible=reversible, name=name, description=description)

    return build


def _refuse_hard_fraction(name: str, hard_fraction: float) -> None:
    if hard_fraction != 1:
        raise InputError(f"hard_fraction is {hard_fraction} but {name} is no word problem; leave it out")


TASKS = {
    entry.name: entry
    for entry in (
        TaskEntry(
            "parity",
            "running parity of the ones; tokens 0 and 1; solvable",
            _of_monoid(lambda: cyclic_group(2)),
        ),
        TaskEntry(
            "Z60",
            "running sum modulo 60; all residues are tokens; abelian",
            _of_monoid(lambda: cyclic_group(60)),
        ),
        TaskEntry(
            "S3",
            "product of permutations of three; all 6 are tokens; solvable",
            _of_monoid(lambda: symmetric_group(3)),
        ),
        TaskEntry(
            "D4",
            "symmetries of the square; all 8 are tokens; solvable",
            _of_monoid(lambda: dihedral_group(4)),
        ),
        TaskEntry(
            "Q8", "quaternions ±1, ±i, ±j, ±k; all 8 are tokens; solvable", _of_monoid(quaternion_group)
        ),
        TaskEntry(
            "A4",
            "product of even permutations of four; all 12 are tokens; solvable",
            _of_monoid(lambda: alternating_group(4)),
        ),
        TaskEntry(
            "S4",
            "product of permutations of four; all 24 are tokens; solvable",
            _of_monoid(lambda: symmetric_group(4)),
        ),
        TaskEntry(
            "A5",
            "product of even permutations of five; all 60 are tokens; non-solvable, NC1-complete",
            _of_monoid(lambda: alternating_group(5)),
        ),
        TaskEntry(
            "S5",
            "product of permutations of five; all 120 are tokens; non-solvable, NC1-complete",
            _of_monoid(lambda: symmetric_group(5)),
        ),
        TaskEntry(
            "S5-transpositions",
            "S5 with the 10 swaps as tokens, no identity; after t tokens the parity is that of t",
            _s5_transpositions,
        ),
        TaskEntry(
            "S5-generators",
            "S5 with 5 tokens: the identity and four elements that generate it",
            _s5_generators,
        ),
        TaskEntry(
            "A5-generators",
            "A5 with 4 tokens: the identity and three elements that generate it",
            _a5_generators,
        ),
        TaskEntry(
            "A5xM",
            "A5 × U3, the memory with three resets; all 240 pairs are tokens; easy ones rest in A5",
            _times_m(lambda: alternating_group(5)),
        ),
        TaskEntry(
            "A5-generatorsxM",
            "A5 × U3 with the tokens of A5-generators beside those of U3, 16 pairs; easy ones rest in A5",
            _times_m(lambda: alternating_group(5), S5_GENERATORS[:4]),
        ),
        TaskEntry(
            "S3xM",
            "S3 × U3, the memory with three resets; all 24 pairs are tokens; easy ones rest in S3",
            _times_m(lambda: symmetric_group(3)),
        ),
        TaskEntry(
            "flip-flop", "a bit that is kept or written; tokens keep, write 0, write 1; aperiodic", _flip_flop
        ),
        TaskEntry("counter-5", "number of ones modulo 5; tokens 0 and 1; abelian", _counter),
        TaskEntry(
            "cyclic-navigation", "place on a ring of 5; tokens stay, left, right; abelian", _navigation
        ),
        TaskEntry(
            "dyck-4",
            "depth of balanced brackets, at most 4 deep; random prefixes of such words; aperiodic",
            _dyck(4, "()"),
        ),
        TaskEntry(
            "dyck-2-3",
            "open brackets of two kinds, at most 3 deep; random prefixes of such words; aperiodic",
            _dyck(3, "()", "[]"),
        ),
        TaskEntry(
            "noisy-parity-reveals",
            "parity whose flips fail one time in ten; predict what each reveal shows",
            _observed(lambda: noisy_parity(0.1), "reveals"),
        ),
        TaskEntry(
            "noisy-parity-states",
            "parity whose flips fail one time in ten; predict the hidden state after every token",
            _observed(lambda: noisy_parity(0.1), "states"),
        ),
        TaskEntry(
            "lazy-swaps-3-reveals",
            "three variables whose swaps happen half of the time; predict what each reveal shows",
            _observed(lambda: lazy_swaps(3), "reveals"),
        ),
        TaskEntry(
            "lazy-swaps-3-states",
            "three variables whose swaps happen half of the time; predict the hidden arrangement",
            _observed(lambda: lazy_swaps(3), "states"),
        ),
        TaskEntry(
            "likely-swaps-3-reveals",
            "three variables whose swaps happen nine times in ten; predict what partial reveals show",
            _observed(lambda: lazy_swaps(3, 0.9, full_reveal=False), "reveals"),
        ),
        TaskEntry(
            "lazy-swaps-5-reveals",
            "five variables whose swaps happen half of the time; predict what each reveal shows",
            _observed(lambda: lazy_swaps(5), "reveals"),
        ),
        TaskEntry(
            "repl-3",
            "Python sessions that swap three variables and print one after every 4 swaps; every next token",
            _repl(3, "all"),
        ),
        TaskEntry(
            "repl-3-reveals",
            "Python sessions that swap three variables and print one after every 4 swaps; the printed lines",
            _repl(3, "reveals"),
        ),
        TaskEntry(
            "repl-3-values",
            "Python sessions that swap three variables and print one after every 4 swaps; the printed values",
            _repl(3, "values"),
        ),
        TaskEntry(
            "repl-3-values-1",
            "Python sessions that swap three variables and print one after every swap; the printed values",
            _repl(3, "values", reveal_every=1),
        ),
        TaskEntry(
            "repl-3-values-8",
            "Python sessions that swap three variables and print one after every 8 swaps; the printed values",
            _repl(3, "values", reveal_every=8),
        ),
        TaskEntry(
            "repl-3-random",
            "Python sessions that swap three variables and print one after one swap in 4; every next token",
            _repl(3, "all", spacing="random"),
        ),
        TaskEntry(
            "repl-3-values-random",
            "Python sessions that swap three variables and print one after one swap in 4; the printed values",
            _repl(3, "values", spacing="random"),
        ),
        TaskEntry(
            "repl-3-hidden",
            "Python sessions that swap three variables or not, unseen, and print one each time; its value",
            _repl(3, "values", reveal_every=1, hidden="if"),
        ),
        TaskEntry(
            "repl-5-reveals",
            "Python sessions that swap five variables and print one after every 4 swaps; the printed lines",
            _repl(5, "reveals"),
        ),
        TaskEntry(
            "repl-5-values",
            "Python sessions that swap five variables and print one after every 4 swaps; the printed values",
            _repl(5, "values"),
        ),
        TaskEntry(
            "repl-5-random",
            "Python sessions that swap five variables and print one after one swap in 4; every next token",
            _repl(5, "all", spacing="random"),
        ),
        TaskEntry(
            "repl-5-values-random",
            "Python sessions that swap five variables and print one after one swap in 4; the printed values",
            _repl(5, "values", spacing="random"),
        ),
        TaskEntry(
            "repl-5-end",
            "Python sessions that swap five variables and print one of them at the end; its value",
            _repl(5, "values", spacing="end"),
        ),
        TaskEntry(
            "swap-balls-3",
            '"swap ball 1 and 3, …. Where does ball 2 end up?" with three balls; the answer',
            _balls(3, "values"),
        ),
        TaskEntry(
            "swap-balls-5",
            '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; the answer',
            _balls(5, "values"),
        ),
        TaskEntry(
            "swap-balls-5-all",
            '"swap ball 1 and 3, …. Where does ball 5 end up?" with five balls; every next token',
            _balls(5, "all"),
        ),
        TaskEntry(
            "small-programs",
            "Python programs of assignments, loops and conditions on three variables; what they print",
            _programs("values"),
        ),
        TaskEntry(
            "reversible-programs",
            "Python programs of swaps, sums, loops and conditions that forget nothing; what they print",
            _programs("values", reversible=True),
        ),
        TaskEntry(
            "small-programs-all",
            "Python programs of assignments, loops and conditions on three variables; every next token",
            _programs("all"),
        ),
    )
}
"""The registry, by name."""


def registered_task(name: str, hard_fraction: float | None = None) -> Task:
    """Return the task of this name, of whatever kind.

    Args:
        name: one of ``task_names()``.
        hard_fraction: as for ``make_task``.

    Raises:
        InputError: as for ``make_task``, or ``hard_fraction`` is below 1 for a task that is no word problem.

    Example:
        >>> registered_task("repl-3-reveals")
        <ReplLanguage repl-3-reveals: 3 variables, 15 tokens>
    """
    check_type("task", name, str, "give a name such as 'parity'; automata.task_names() lists them")
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    entry = TASKS[name]
    fraction = 1.0 if hard_fraction is None else float(hard_fraction)
    task = entry.build(entry.name, entry.description, fraction)
    return with_specification(task, name if fraction == 1 else {"name": name, "hard_fraction": fraction})


def make_task(name: str, hard_fraction: float | None = None) -> WordProblem:
    """Return the word problem of this name.

    ``automata.tasks.specification.task_from`` takes the names of the other tasks too.

    Args:
        name: one of ``task_names()`` that is a word problem.
        hard_fraction: the probability that a token is drawn uniformly from all tokens instead of being the
            identity (in ``A5xM``, ``A5-generatorsxM`` and ``S3xM``: the identity of the group beside a
            uniform element of M); 1 if left out.

    Raises:
        InputError: the name is unknown (the nearest one is named) or is that of another kind of task, or
            ``hard_fraction`` is not in [0, 1] or below 1 for a task without an identity among its tokens.

    Example:
        >>> make_task("S5", hard_fraction=0.5)
        <WordProblem S5: 120 tokens, 120 states>
        >>> make_task("partiy")
        Traceback (most recent call last):
        ...
        automata.errors.InputError: task 'partiy' is unknown; did you mean 'parity'? Known: ...
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


def describe_tasks() -> str:
    """Return a line for each task: its name and what it stands for.

    Example:
        >>> print(describe_tasks().splitlines()[0])
        parity             running parity of the ones; tokens 0 and 1; solvable
    """
    width = max(map(len, TASKS))
    return "\n".join(f"{entry.name:<{width}}  {entry.description}" for entry in TASKS.values())
