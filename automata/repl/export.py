"""Sessions for other people's models: text and JSON lines."""

import json
from collections.abc import Callable, Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from automata.checks import check_integer, check_type
from automata.data_files import fresh_file
from automata.errors import InputError
from automata.repl.sampling import sample_sessions
from automata.repl.session_format import SessionFormat
from automata.repl.text import ReplTrace
from automata.repl.tokens import token_tables

_AT_ONCE = 256


def sample_traces(
    form: SessionFormat, sessions: int, rng: np.random.Generator, *, commands: int
) -> Iterator[ReplTrace]:
    """Yield so many random sessions with so many actions each, drawn in blocks of 256.

    InputError if a number is below 1, or ``form`` or ``rng`` is of another kind.

    Example:
        >>> traces = sample_traces(SessionFormat(), 2, np.random.default_rng(0), commands=4)
        >>> [len(trace.outputs) for trace in traces]
        [8, 8]
    """
    check_type("form", form, SessionFormat, "give a SessionFormat")
    check_integer("sessions", sessions, 1)
    check_integer("commands", commands, 1)
    tables = token_tables(form)
    for begin in range(0, sessions, _AT_ONCE):
        count = min(_AT_ONCE, sessions - begin)
        drawn = sample_sessions(form, count, rng, commands=commands, tables=tables)
        yield from map(drawn.trace, range(count))


def record(trace: ReplTrace) -> dict[str, Any]:
    """Return a session as a record of JSON: what every export is made of.

    The fields are ``text``; ``commands``, what was typed after each prompt; ``reveal_spans``, pairs of places
    in the text between which a revealed value stands; ``states``, the values of the variables after each
    command, those that are assigned already; and ``seed``, what Python's ``random`` was seeded with, or None.
    InputError if it is no trace.

    Example:
        >>> from automata.repl.text import repl_trace
        >>> found = record(repl_trace([(2, 1)], (1, 2), ["a"]))
        >>> found["commands"], found["reveal_spans"], found["states"][-1], found["seed"]
        (['a = 1', 'b = 2', 'a, b = b, a', "print('a', a)"], [[56, 57]], [2, 1], None)
    """
    check_type("trace", trace, ReplTrace, "give a ReplTrace")
    return {
        "text": trace.text,
        "commands": list(trace.commands),
        "reveal_spans": [list(span) for span in trace.reveal_spans],
        "states": [list(state) for state in trace.states],
        "seed": trace.seed,
    }


def write_text(path: Path | str, traces: Iterable[ReplTrace]) -> int:
    r"""Write sessions as plain text, an empty line between two; return how many.

    No session holds an empty line, so that ``text.split("\n\n")`` gives them back. InputError if the file
    cannot be written, or something given is of another kind.

    Example:
        >>> write_text("/no/such/folder/sessions.txt", [])
        Traceback (most recent call last):
        ...
        automata.errors.InputError: path /no/such/folder/sessions.txt cannot be written (...); give another
    """
    return _write(path, traces, lambda trace: trace.text, between="\n\n")


def write_jsonl(path: Path | str, traces: Iterable[ReplTrace]) -> int:
    """Write sessions as JSON lines, one `record` each; return how many.

    InputError if the file cannot be written, or something given is of another kind.
    """
    return _write(path, traces, lambda trace: json.dumps(record(trace)), between="\n")


def _write(
    path: Path | str, traces: Iterable[ReplTrace], written: Callable[[ReplTrace], str], between: str
) -> int:
    check_type("path", path, (str, PathLike), "give the name of a file")
    check_type("traces", traces, Iterable, "give several traces")
    count = 0
    try:
        out = Path(path)
        with out.open("wb") if out.exists() and not out.is_file() else fresh_file(out) as file:
            for trace in traces:
                check_type("trace", trace, ReplTrace, "give a ReplTrace")
                file.write((between * (count > 0) + written(trace)).encode())
                count += 1
            file.write(b"\n" * (count > 0))
    except OSError as error:
        raise InputError(f"path {path} cannot be written ({error.strerror}); give another") from error
    return count
