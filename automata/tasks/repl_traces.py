"""The permutation word problem as a trace of a Python session: assignments, swaps, and printed variables.

The format is that of Siems et al. 2026 (arXiv 2602.14814), as far as it is public: a prompt before every
command, one assignment a line, swaps as tuple assignments, and reveals that print a named variable.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_lowercase

import numpy as np

from automata.errors import InputError

PROMPT = ">>> "


@dataclass(frozen=True)
class ReplTrace:
    """A session: its commands, what each printed, and the values of the variables after each.

    Attributes:
        commands: the lines that were typed, without prompt.
        outputs: for every command the line that it printed, or "".
        states: for every command the values of all variables after it, in alphabetical order; variables
            that are not yet assigned are left out.

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

    @property
    def text(self) -> str:
        """The session as it would stand on the screen, lines joined by newlines."""
        return "\n".join(
            f"{PROMPT}{command}" + (f"\n{output}" if output else "")
            for command, output in zip(self.commands, self.outputs, strict=True)
        )

    @property
    def source(self) -> str:
        """The commands as a Python program."""
        return "\n".join(self.commands)

    @property
    def reveal_spans(self) -> tuple[tuple[int, int], ...]:
        """Where in ``text`` the revealed values stand, as (start, end): what state-reveal loss is put on."""
        spans = []
        position = 0
        for command, output in zip(self.commands, self.outputs, strict=True):
            position += len(PROMPT) + len(command) + 1
            if output:
                end = position + len(output)
                spans.append((end - len(output.split()[-1]), end))
                position = end + 1
        return tuple(spans)


def repl_trace(
    permutations: Sequence[Sequence[int]],
    values: Sequence[int],
    reveals: Sequence[str | None],
) -> ReplTrace:
    """Return the session that assigns the values and then applies the permutations one by one.

    The permutation σ, a one-line tuple, makes ``state_t[i] = state_{t-1}[σ[i]]``, so that on the values
    1 … n the state is the product in S_n. Only the variables that move are written.

    Args:
        permutations: one-line tuples of 1 … n; the identity is written as ``a = a``.
        values: the initial values of the n variables a, b, c, …; they may repeat.
        reveals: for every permutation the variable that is printed after it, or None.

    Raises:
        InputError: there are more than 26 variables or none, a permutation is not one of 1 … n, a reveal is
            not a variable, or permutations and reveals differ in number.

    Example:
        >>> repl_trace([(3, 1, 2)], values=(5, 5, 7), reveals=[None]).commands[-1]
        'a, b, c = c, a, b'
    """
    size = len(values)
    if not 1 <= size <= len(ascii_lowercase):
        raise InputError(f"values has {size} entries; give 1 to 26")
    if len(reveals) != len(permutations):
        raise InputError(
            f"reveals has {len(reveals)} entries; give one for each of the {len(permutations)} steps"
        )
    variables = ascii_lowercase[:size]
    state = [int(value) for value in values]
    commands = [f"{variable} = {value}" for variable, value in zip(variables, state, strict=True)]
    outputs = [""] * size
    states = [tuple(state[: count + 1]) for count in range(size)]
    for permutation, reveal in zip(permutations, reveals, strict=True):
        if sorted(permutation) != list(range(1, size + 1)):
            raise InputError(f"permutations holds {tuple(permutation)}; give one-line tuples of 1 … {size}")
        moved = [i for i in range(size) if permutation[i] != i + 1] or [0]
        left = ", ".join(variables[i] for i in moved)
        right = ", ".join(variables[permutation[i] - 1] for i in moved)
        state = [state[image - 1] for image in permutation]
        commands.append(f"{left} = {right}")
        outputs.append("")
        states.append(tuple(state))
        if reveal is not None:
            if len(reveal) != 1 or reveal not in variables:
                raise InputError(f"reveals holds {reveal!r}; give one of {', '.join(variables)} or None")
            commands.append(f"print({reveal!r}, {reveal})")
            outputs.append(f"{reveal} {state[variables.index(reveal)]}")
            states.append(tuple(state))
    return ReplTrace(tuple(commands), tuple(outputs), tuple(states))


def sample_repl_trace(
    rng: np.random.Generator, variables: int = 5, swaps: int = 16, reveal_every: int = 4
) -> ReplTrace:
    """Return a session of random swaps with a random variable printed after every few, and after the last.

    Args:
        rng: the source of randomness.
        variables: their number, 2 to 26; they start as 1, 2, 3, ….
        swaps: the number of swaps, each uniform among all pairs of different variables.
        reveal_every: the number of swaps from one reveal to the next.

    Raises:
        InputError: one of the numbers is out of its range.

    Example:
        >>> trace = sample_repl_trace(np.random.default_rng(0), variables=3, swaps=8, reveal_every=4)
        >>> len(trace.commands), len(trace.reveal_spans)
        (13, 2)
    """
    if not 2 <= variables <= len(ascii_lowercase):
        raise InputError(f"variables is {variables}; give a number in 2 … 26")
    for field, value in (("swaps", swaps), ("reveal_every", reveal_every)):
        if value < 1:
            raise InputError(f"{field} is {value}; give a number of at least 1")
    permutations, reveals = [], []
    for step in range(1, swaps + 1):
        i, j = rng.choice(variables, size=2, replace=False).tolist()
        swap = list(range(1, variables + 1))
        swap[i], swap[j] = swap[j], swap[i]
        permutations.append(swap)
        shown = ascii_lowercase[int(rng.integers(variables))]
        reveals.append(shown if step % reveal_every == 0 or step == swaps else None)
    return repl_trace(permutations, range(1, variables + 1), reveals)
