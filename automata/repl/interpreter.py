"""Whether a session is true: Python's own interactive interpreter is given its commands, line by line."""

import contextlib
import io
import random
import threading
from code import InteractiveConsole
from dataclasses import dataclass

from automata.checks import check_integer, check_type
from automata.repl.commands import CONTINUATION, PROMPT
from automata.repl.traces import ReplTrace

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

    Args:
        session: a trace, or the text of one.
        seed: what ``random`` is seeded with, for a text; that of the trace if None.

    Raises:
        InputError: the session is neither, or the seed no whole number.

    Example:
        >>> from automata.repl.traces import repl_trace
        >>> check_with_interpreter(repl_trace([(2, 1)], (1, 2), ["b"])) is None
        True
        >>> check_with_interpreter(">>> assert 1 == 2").shown
        'Traceback (most recent call last):'
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
