"""Sessions against Python's own interactive interpreter, which is given their commands line by line."""

import contextlib
import io
import random
import threading
from code import InteractiveConsole
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np

from automata.checks import check_integer, check_type, checked
from automata.repl.sampling import sample_sessions
from automata.repl.session_format import Initial, SessionFormat, Spacing
from automata.repl.text import ASSIGNMENTS, CONTINUATION, HIDDEN, PROMPT, REVEALS, ReplTrace

_AT_ONCE = 50  # sessions of one choice of the other fields
_ALONE = threading.Lock()
"""Sessions share the screen and the state of ``random``, which belong to the process."""


@dataclass(frozen=True)
class Difference:
    r"""The first line in which a session is not what the interpreter shows.

    Attributes:
        line: its number, from 1.
        claimed: the line of the session; None if the session ends before it.
        shown: the line that the interpreter shows; None if it shows no more.

    Example:
        >>> print(check_with_interpreter(">>> a = 1\n>>> print('a', a)\na 2"))
        line 3 is 'a 2', and the interpreter shows 'a 1'
    """

    line: int
    claimed: str | None
    shown: str | None

    def __str__(self) -> str:
        claimed, shown = ("nothing" if line is None else repr(line) for line in (self.claimed, self.shown))
        return f"line {self.line} is {claimed}, and the interpreter shows {shown}"


def check_with_interpreter(session: ReplTrace | str, seed: int | None = None) -> Difference | None:
    """Return the first line of a session that the interpreter would not show; None if all is true.

    The lines that stand after a prompt are typed into ``code.InteractiveConsole``, which compiles and runs
    them as ``python -i`` does; its prompts and all that it prints, tracebacks included (in which only the
    name of the file is another), are compared with the whole text. The state of ``random`` is set before and
    put back afterwards. The text is *executed*: give only one that you would run.

    A text may come with the ``seed`` of ``random``; a trace has its own. InputError if the session is
    neither, or the seed no whole number.

    Example:
        >>> from automata.repl.text import repl_trace
        >>> check_with_interpreter(repl_trace([(2, 1)], (1, 2), ["b"])) is None
        True
    """
    check_type("session", session, (ReplTrace, str), "give a trace, or the text of one")
    if seed is not None:
        check_integer("seed", seed)
    text = session if isinstance(session, str) else session.text
    if seed is None and isinstance(session, ReplTrace):
        seed = session.seed
    claimed = text.split("\n")
    with _ALONE:
        shown = _screen(text, seed)
    for number in range(max(len(claimed), len(shown))):
        pair = tuple(lines[number] if number < len(lines) else None for lines in (claimed, shown))
        if pair[0] != pair[1]:
            return Difference(number + 1, *pair)
    return None


def _screen(text: str, seed: int | None) -> list[str]:
    """Return the lines on the screen after all that the text types was typed."""
    console = InteractiveConsole()
    screen = io.StringIO()
    before = random.getstate()
    try:
        if seed is not None:
            random.seed(seed)
        unfinished = False
        with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
            for line in text.split("\n"):
                if line.startswith((PROMPT, CONTINUATION)):
                    typed = line[len(PROMPT) :]
                    screen.write(f"{CONTINUATION if unfinished else PROMPT}{typed}\n")
                    unfinished = console.push(typed)
    finally:
        random.setstate(before)
    return screen.getvalue().removesuffix("\n").split("\n")


def formats() -> tuple[SessionFormat, ...]:
    """Return one format for every way to write, to hide and to reveal, with the defaults otherwise."""
    return tuple(
        SessionFormat(assignment=assignment, hidden=hidden, reveal=reveal)
        for assignment, hidden, reveal in product(ASSIGNMENTS, (None, *HIDDEN), REVEALS)
    )


@dataclass(frozen=True)
class Verification:
    """How many sessions of a format are true.

    The sessions revealed ``revealed`` values; ``wrong`` of them the interpreter shows otherwise, the first at
    ``first_difference`` (else None). If the format was varied, its other fields were drawn anew for every
    fifty sessions.

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


@checked
def verify(
    form: SessionFormat, sessions: int, rng: np.random.Generator, *, varied: bool = True
) -> Verification:
    """Check so many random sessions of a format with the interpreter.

    The number of commands (1 to 12) is drawn anew every fifty sessions; so are, if the format is ``varied``,
    the number of variables (2 to 6), actions (swaps, all of a group, a few permutations), first values,
    spacing, and the probability and share of hidden actions.
    """
    check_integer("sessions", sessions, 1)
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
