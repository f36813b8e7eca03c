"""Names in verdicts: an automaton by its size, hash and group, a run by its own words, quoted if odd."""

import hashlib
import json
import math

from automata.errors import InputError
from automata.machines.dfa import DFA
from automata.machines.equivalence import reachable_states, transition_monoid
from automata.machines.mealy import MealyMachine
from automata.monoids.groups import (
    alternating_group,
    cyclic_group,
    dihedral_group,
    quaternion_group,
    symmetric_group,
)
from automata.monoids.monoid import find_isomorphism

LONGEST_NAME = 60  # characters
LARGEST_TABLE = 32  # entries that are shown
LARGEST_GROUP = 720  # the largest number of maps of the states for which a group is looked for


def readable(name: str) -> str:
    """Return a name from a stranger's run folder, in quotes where it could be taken for more."""
    plain = name.replace("-", "").replace("_", "").isalnum() and name.isascii()
    return name if plain and len(name) <= LONGEST_NAME else ascii(name[:LONGEST_NAME])


def described(machine: MealyMachine) -> str:
    """Describe an automaton by size, hash of its table and group; its name is not used.

    States and answers that words reach are numbered in the order in which words meet them, shorter words
    first, so that every spelling of an automaton has one hash.
    """
    order = reachable_states(machine.table, machine.initial)
    numbers = {state: number for number, state in enumerate(order.tolist())}
    table = [[numbers[after] for after in row] for row in machine.table[order].tolist()]
    small = f"{table}, " if len(table) * len(table[0]) <= LARGEST_TABLE else ""
    more = ""
    if (machine.answers[order] != machine.table[order]).any():
        seen: dict[int, int] = {}
        answers = [[seen.setdefault(a, len(seen)) for a in row] for row in machine.answers[order].tolist()]
        more = f"; answers of SHA-256 {_sha256(answers)}"
    return (
        f"an automaton of {machine.token_count} tokens whose words reach {len(table)} of "
        f"{machine.state_count} states (table {small}of SHA-256 {_sha256(table)}{more}; its tokens generate "
        f"{_generated(table)})"
    )


def _sha256(rows: list[list[int]]) -> str:
    return hashlib.sha256(json.dumps(rows, separators=(",", ":")).encode()).hexdigest()


def _generated(table: list[list[int]]) -> str:
    """Name the group that the tokens generate as maps of the states, or the reason why there is no name."""
    try:
        monoid = transition_monoid(DFA.from_table(table), LARGEST_GROUP)
    except InputError:
        return f"more than {LARGEST_GROUP} maps of the states"
    order = monoid.order
    if not monoid.is_group:
        return f"a monoid of {order} maps, which is no group"
    named = [cyclic_group(order)]
    named += [symmetric_group(n) for n in range(3, 7) if math.factorial(n) == order]
    named += [alternating_group(n) for n in range(4, 7) if math.factorial(n) == 2 * order]
    named += [quaternion_group()] * (order == 8)
    named += [dihedral_group(sides) for sides in range(2, order) if 2 * sides == order]
    found = (group.name for group in named if find_isomorphism(monoid, group) is not None)
    return next(found, f"a group of order {order} that is none of Z, S, A, D and Q8")
