"""What the commands of this package share: bad input, wrong flags too, is one sentence and exit code 2."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from automata.checks import printable
from automata.errors import InputError

BAD_INPUT = 2
INTERRUPTED = 130
NOT_READ = 141
"""The exit code if whoever reads the output stopped, as for a program that SIGPIPE ends."""


class Parser(argparse.ArgumentParser):
    """A parser whose faults are InputErrors.

    Example:
        >>> Parser("command").parse_args(["--flag"])
        Traceback (most recent call last):
        ...
        automata.errors.InputError: unrecognized arguments: --flag; --help shows all flags
    """

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise InputError(f"{message}; --help shows all flags")


def exit_code(command: Callable[[Sequence[str] | None], int | None], argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code: its own, 0 for None, or 2 for bad input, told in one sentence.

    It ends quietly if nobody reads its output any more, as in ``command | head -1``.

    Example:
        >>> exit_code(lambda argv: None, [])
        0
    """
    try:
        code = command(argv) or 0
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"error: {printable(error)}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes once more at its end, which must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
