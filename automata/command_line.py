"""The frame of all commands. Bad input and wrong flags end in one sentence and exit code 2.

A warning is one sentence, too, told once and without a place in the code.
"""

import argparse
import errno
import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from automata.errors import InputError, printable

BAD_INPUT = 2
INTERRUPTED = 130
LONGEST_SENTENCE = 1000
"""Letters of what stands on standard error."""
NOT_READ = 141
"""The exit code if whoever reads the output stopped, as for a program that SIGPIPE ends."""

_REMEDIES = {
    errno.ENOSPC: "free some space and run the same command again",
    errno.EDQUOT: "free some space and run the same command again",
    errno.EFBIG: "raise the limit of file sizes and run the same command again",
    errno.EACCES: "give a place that you may write to",
    errno.EPERM: "give a place that you may write to",
    errno.EROFS: "give a place that you may write to",
    errno.ENOTDIR: "give a path below a folder",
    errno.ENAMETOOLONG: "give a shorter path",
}


class Parser(argparse.ArgumentParser):
    """A parser whose faults are InputErrors. It shows the first line of its description."""

    def __init__(self, prog: str | None = None, description: str | None = None, **options: Any) -> None:
        first = (description or "").partition("\n")[0]
        super().__init__(prog, description=first, **{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Raise InputError."""
        raise InputError(f"{message}; --help shows all flags")


def exit_code(
    command: Callable[[Sequence[str] | None], int | None], argv: Sequence[str] | None = None
) -> int:
    """Run a command and return its exit code; a fault of the caller becomes one sentence on standard error.

    It is 0 if the command returns None, 2 for bad input or a failing file system, 130 if interrupted. It ends
    quietly if nobody reads its output any more, as in ``command | head -1``.
    """
    for stream in (sys.stdin, sys.stdout):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a sign that the encoding lacks ends no command
    usual, warnings.showwarning = warnings.showwarning, _teller()
    try:
        code = command(argv) or 0
        if sys.stdout is not None:  # as it is where the caller closed it
            sys.stdout.flush()
        return code
    except InputError as error:
        return say("error", str(error), BAD_INPUT)
    except KeyboardInterrupt:
        return say("error", "interrupted; run the same command again to go on", INTERRUPTED)
    except BrokenPipeError:
        # Python flushes once more at its end, which must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "give another path or mend the file system")
        where = f"{error.filename}: " if error.filename else ""
        return say("error", f"{where}{(error.strerror or str(error)).lower()}; {remedy}", BAD_INPUT)
    finally:
        warnings.showwarning = usual


def progress_bar(told: Any = None, **options: Any) -> Any:
    """Return a bar of `tqdm` on standard error; where that is no terminal, it is shown every half minute.

    Args:
        told: what is gone through, if anything.
        options: of `tqdm`, such as ``total``, ``desc`` and ``unit``.
    """
    from tqdm import tqdm

    if sys.stderr is None or not sys.stderr.isatty():
        options = {"delay": 30, "mininterval": 30, "disable": sys.stderr is None} | options
    return tqdm(told, leave=False, **options)


def _teller() -> Callable[..., None]:
    told = set[str]()

    def tell(message: Warning | str, *_place: Any) -> None:
        if str(message) not in told:
            told.add(str(message))
            say("warning", str(message))

    return tell


def say(kind: str, sentence: str, code: int = 0) -> int:
    """Print a sentence on standard error, printable and cut, and return the exit code."""
    sentence = printable(" ".join(sentence.split()))
    if len(sentence) > LONGEST_SENTENCE:  # what was given is in the middle, and the remedy at the end
        half = LONGEST_SENTENCE // 2
        sentence = f"{sentence[:half]} … {sentence[-half:]}"
    print(f"{kind}: {sentence}", file=sys.stderr)
    return code
