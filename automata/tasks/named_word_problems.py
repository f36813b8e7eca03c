"""Word problems that have names: of groups, of products with a memory, and of small automata."""

from collections.abc import Callable

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
from automata.tasks.entry import TaskEntry
from automata.tasks.word_problem import WordProblem

S5_GENERATORS = ("12345", "54132", "34125", "53124", "21345")
"""Tokens of ``S5-generators``: the identity, the three permutations of a worked example, and (1 2).

The three are even, so that the transposition is what leads out of A5; without it they are the tokens of
``A5-generators``.
"""


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


WORD_PROBLEMS = (
    TaskEntry(
        "parity", "running parity of the ones; tokens 0 and 1; solvable", _of_monoid(lambda: cyclic_group(2))
    ),
    TaskEntry(
        "Z60", "running sum modulo 60; all residues are tokens; abelian", _of_monoid(lambda: cyclic_group(60))
    ),
    TaskEntry(
        "S3",
        "product of permutations of three; all 6 are tokens; solvable",
        _of_monoid(lambda: symmetric_group(3)),
    ),
    TaskEntry(
        "D4", "symmetries of the square; all 8 are tokens; solvable", _of_monoid(lambda: dihedral_group(4))
    ),
    TaskEntry("Q8", "quaternions ±1, ±i, ±j, ±k; all 8 are tokens; solvable", _of_monoid(quaternion_group)),
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
        "S5-generators", "S5 with 5 tokens: the identity and four elements that generate it", _s5_generators
    ),
    TaskEntry(
        "A5-generators", "A5 with 4 tokens: the identity and three elements that generate it", _a5_generators
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
    TaskEntry("cyclic-navigation", "place on a ring of 5; tokens stay, left, right; abelian", _navigation),
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
)
"""The easier ones first."""
