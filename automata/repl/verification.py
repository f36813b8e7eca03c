"""Sessions of every format against Python's interactive interpreter: how many are true."""

from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np

from automata.checks import check_integer, check_type
from automata.repl.commands import ASSIGNMENTS, HIDDEN
from automata.repl.interpreter import Difference, check_with_interpreter
from automata.repl.reveals import REVEALS
from automata.repl.sampling import sample_sessions
from automata.repl.session_format import Initial, SessionFormat, Spacing

_AT_ONCE = 50  # sessions of one choice of the other fields


def formats() -> tuple[SessionFormat, ...]:
    """Return one format for every way to write, to hide and to reveal, with the defaults otherwise."""
    return tuple(
        SessionFormat(assignment=assignment, hidden=hidden, reveal=reveal)
        for assignment, hidden, reveal in product(ASSIGNMENTS, (None, *HIDDEN), REVEALS)
    )


@dataclass(frozen=True)
class Verification:
    """How many sessions of a format are true.

    Attributes:
        form: the format; if it was varied, its other fields were drawn anew for every fifty sessions.
        sessions: how many were checked.
        wrong: how many of them the interpreter shows otherwise.
        revealed: how many values they revealed.
        first_difference: of the first wrong one; None if there is none.

    Example:
        >>> found = verify(SessionFormat(), 20, np.random.default_rng(0))
        >>> found.sessions, found.wrong
        (20, 0)
    """

    form: SessionFormat
    sessions: int
    wrong: int
    revealed: int
    first_difference: Difference | None

    @property
    def name(self) -> str:
        """How the format writes, hides and reveals."""
        hidden = "seen" if self.form.hidden is None else f"hidden {self.form.hidden}"
        return f"{self.form.assignment}, {hidden}, {self.form.reveal}"


def verify(
    form: SessionFormat, sessions: int, rng: np.random.Generator, *, varied: bool = True
) -> Verification:
    """Check so many random sessions of a format with the interpreter.

    The number of commands (1 to 12) is drawn anew every fifty sessions; so are, if the format is ``varied``,
    the number of variables (2 to 6), actions (swaps, all of a group, a few permutations), first values,
    spacing, and the probability and share of hidden actions.

    Raises:
        InputError: the number is below 1, or ``form`` or ``rng`` is of another kind.
    """
    check_type("form", form, SessionFormat, "give a SessionFormat")
    check_integer("sessions", sessions, 1)
    check_type("rng", rng, np.random.Generator, "give a generator, such as numpy.random.default_rng(0)")
    wrong = revealed = 0
    first = None
    for begin in range(0, sessions, _AT_ONCE):
        count, commands = min(_AT_ONCE, sessions - begin), int(rng.integers(1, 13))
        drawn = sample_sessions(_other_fields(form, rng) if varied else form, count, rng, commands=commands)
        for number in range(count):
            trace = drawn.trace(number)
            difference = check_with_interpreter(trace)
            wrong += difference is not None
            revealed += len(trace.reveal_spans)
            first = first or difference
    return Verification(form, sessions, wrong, revealed, first)


def _other_fields(form: SessionFormat, rng: np.random.Generator) -> SessionFormat:
    variables = int(rng.integers(2, 7))
    several = {"".join(map(str, rng.permutation(variables) + 1)) for _ in range(3)}
    actions = ("swaps", f"S{variables}", f"A{variables}", sorted(several))[rng.integers(4)]
    return replace(
        form,
        variables=variables,
        actions=actions,
        initial=get_args(Initial)[rng.integers(3)],
        spacing=get_args(Spacing)[rng.integers(3)],
        reveal_every=int(rng.integers(1, 6)),
        reveal_first=bool(rng.integers(2)),
        probability=round(float(rng.random()), 3) if form.hidden == "if" else 0.5,
        hidden_fraction=(1.0, 0.5)[rng.integers(2)] if form.hidden else 1.0,
    )
