"""A session as text: what was typed, what was printed, and what the variables held.

The format is that of Siems et al. 2026 (arXiv 2602.14814), as far as it is public: a prompt before every
command, one assignment a line, swaps as tuple assignments, and reveals that print a named variable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from automata.checks import check_integer, check_type, shown
from automata.errors import InputError
from automata.repl.commands import (
    CONTINUATION,
    PROMPT,
    VARIABLES,
    Command,
    MovedVariables,
    PartialReveal,
    initial_assignment,
)


@dataclass(frozen=True)
class ReplTrace:
    r"""A session: its commands, what each printed, and the values of the variables after each.

    Attributes:
        commands: what was typed after each prompt, without the prompt; a one-line ``if`` ends with ``"\n"``,
            since an empty line ends it.
        outputs: for every command the line that it printed, or "".
        states: for every command the values of all variables after it, in alphabetical order; variables
            that are not yet assigned are left out.
        reveal_spans: where in ``text`` the revealed values stand, as (start, end): what a loss on revealed
            values is put on.
        seed: what Python's ``random`` is seeded with before the session, so that its hidden actions turn out
            as they did; None if there are none. It does not stand in the text.

    Example:
        >>> trace = repl_trace([(2, 1, 3)], values=(1, 2, 3), reveals=["a"])
        >>> trace.text.splitlines()[3:]
        ['>>> a, b = b, a', ">>> print('a', a)", 'a 2']
        >>> [trace.text[start:end] for start, end in trace.reveal_spans]
        ['2']
    """

    commands: tuple[str, ...]
    outputs: tuple[str, ...]
    states: tuple[tuple[int, ...], ...]
    reveal_spans: tuple[tuple[int, int], ...]
    seed: int | None = None

    @property
    def text(self) -> str:
        """The session as it would stand on the screen, lines joined by newlines."""
        return "\n".join(
            PROMPT + command.replace("\n", f"\n{CONTINUATION}") + (f"\n{output}" if output else "")
            for command, output in zip(self.commands, self.outputs, strict=True)
        )

    @property
    def source(self) -> str:
        """The commands as a Python program."""
        return "\n".join(self.commands)


def trace_of_commands(steps: Iterable[tuple[Command, Sequence[int]]], seed: int | None = None) -> ReplTrace:
    """Return the session of commands, each with the values of the variables after it.

    Example:
        >>> trace_of_commands([(initial_assignment(0), (7,))]).text
        '>>> a = 7'
    """
    commands, outputs, states, spans = [], [], [], []
    position = 0
    for command, values in steps:
        typed, output = command.lines(values)
        commands.append(typed)
        outputs.append(output)
        states.append(tuple(int(value) for value in values))
        for piece, share in zip(command.pieces, command.shares, strict=True):
            width = len(piece if isinstance(piece, str) else str(values[piece]))
            if share == 2:
                spans.append((position, position + width))
            position += width
    return ReplTrace(tuple(commands), tuple(outputs), tuple(states), tuple(spans), seed)


def repl_trace(
    permutations: Sequence[Sequence[int]], values: Sequence[int], reveals: Sequence[str | None]
) -> ReplTrace:
    """Return the session that assigns the values and then applies the permutations one by one.

    The permutation σ, a one-line tuple, makes ``state_t[i] = state_{t-1}[σ[i]]``, so that on the values
    1 … n the state is the product in S_n. Only the variables that move are written. InputError if there are
    more than 26 variables or none, a value is no whole number, a permutation is not one of 1 … n, a reveal is
    not a variable, or permutations and reveals differ in number.

    Args:
        permutations: one-line tuples of 1 … n; the identity is written as ``a = a``.
        values: the initial values of the n variables a, b, c, …; they may repeat.
        reveals: for every permutation the variable that is printed after it, or None.

    Example:
        >>> repl_trace([(3, 1, 2)], values=(5, 5, 7), reveals=[None]).commands[-1]
        'a, b, c = c, a, b'
    """
    kinds = Sequence, np.ndarray
    check_type("permutations", permutations, kinds, "give one-line tuples such as [(2, 1)]")
    check_type("values", values, kinds, "give whole numbers such as (1, 2)")
    check_type("reveals", reveals, kinds, "give a variable or None for each permutation")
    size = len(values)
    if not 1 <= size <= len(VARIABLES):
        raise InputError(f"values has {size} entries; give 1 to 26")
    if len(reveals) != len(permutations):
        raise InputError(
            f"reveals has {len(reveals)} entries; give one for each of the {len(permutations)} steps"
        )
    state = [check_integer("values", value) for value in values]
    prints = PartialReveal().commands(size)
    steps = [(initial_assignment(number), tuple(state[: number + 1])) for number in range(size)]
    for permutation, reveal in zip(permutations, reveals, strict=True):
        check_type("permutations: one entry", permutation, kinds, f"give one-line tuples of 1 … {size}")
        images = [check_integer("permutations: one image", image) for image in permutation]
        if sorted(images) != list(range(1, size + 1)):
            raise InputError(f"permutations holds {shown(tuple(images))}; give one-line tuples of 1 … {size}")
        state = [state[image - 1] for image in images]
        steps.append((MovedVariables().command(images), tuple(state)))
        if reveal is not None:
            if not isinstance(reveal, str) or len(reveal) != 1 or reveal not in VARIABLES[:size]:
                known = ", ".join(VARIABLES[:size])
                raise InputError(f"reveals holds {shown(reveal)}; give one of {known} or None")
            steps.append((prints[VARIABLES.index(reveal)], tuple(state)))
    return trace_of_commands(steps)
