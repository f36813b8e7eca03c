"""The hidden state of a session: which first value each variable holds, and how actions move it."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_memory, checked
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.monoids.transformations import one_line_name, transformation_closure
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.repl.session_format import SessionFormat

LARGEST_GROUP = 720
"""The greatest number of arrangements: all those of six variables."""


@checked
def arrangements(form: SessionFormat) -> IntArray:
    """Return all that the actions can lead to, int64 ``[arrangements, variables]``, in lexicographic order.

    ``[g, i]`` is the variable, counted from 0, whose first value variable i holds. With ordered first values
    1 … n that is the value itself, less 1. InputError if there are more than ``LARGEST_GROUP``.
    """
    try:
        found, _, _ = transformation_closure(np.array(form.permutations) - 1, "functions", LARGEST_GROUP)
    except InputError:
        raise InputError(
            f"actions of {form.variables} variables lead to more than {LARGEST_GROUP} arrangements, too many "
            "for exact beliefs; give fewer variables, or actions that generate a smaller group"
        ) from None
    return found[np.lexsort(found.T[::-1])]


@lru_cache(maxsize=4)
def session_automaton(form: SessionFormat) -> ProbabilisticAutomaton:
    """Return the probabilistic automaton behind the sessions of a format.

    States are the arrangements, named in one-line form. Actions are the commands, seen ones first: one that
    is seen moves the state, one that is hidden does so with the probability of the format. Reveals are named
    like the variables, and show whose first value each holds, counted from 1: with first values that repeat,
    a session shows less than that.

    Raises:
        InputError: there are more arrangements than ``LARGEST_GROUP``, or too many for the memory.
    """
    held = arrangements(form)
    commands = [*form.seen_actions, *form.hidden_actions]
    check_memory(
        f"the matrices of {len(commands)} actions on {len(held)} arrangements",
        2 * 8 * len(commands) * len(held) ** 2,
        "give fewer actions or variables",
    )
    numbers = {row.tobytes(): number for number, row in enumerate(held)}
    stay = np.eye(len(held))
    moves = []
    for images in np.array(form.permutations) - 1:
        after = [numbers[row.tobytes()] for row in held[:, images]]
        moves.append(stay[:, after])  # column g is the arrangement after g
    matrices: list[NDArray[np.float64]] = [*(moves if form.seen_actions else [])]
    if form.hidden_action is not None:
        chance = form.hidden_action.probability
        matrices += [(1 - chance) * stay + chance * move for move in moves]
    return ProbabilisticAutomaton(
        [one_line_name(row) for row in held],
        stay[numbers[np.arange(form.variables).tobytes()]],
        {command.lines([])[0]: matrix for command, matrix in zip(commands, matrices, strict=True)},
        {name: (held[:, i] + 1).tolist() for i, name in enumerate(form.variable_names)},
    )
