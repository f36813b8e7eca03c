"""Random sessions, drawn as whole numbers for many at once, then written as tokens, as text or into files.

Draws are taken from the generator in this order, each only if the format needs it: first values, actions,
which reveal, whether there is one, which actions are hidden, seeds. The outcome of a hidden action is not
drawn from the generator but from Python's own ``random.Random(seed)``, since that is what the session's
reader has: the interpreter whose ``random`` was seeded with the session's seed finds the same outcomes.
"""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_integer, check_memory, check_type
from automata.data_files import fresh_file
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.repl.session_format import SessionFormat
from automata.repl.text import ReplTrace, trace_of_commands
from automata.repl.tokens import NOTHING, TokenTables, token_tables

_LARGEST_SEED = 2**32


@dataclass(frozen=True, eq=False)
class Sessions:
    """Sessions of one format, as numbers.

    Attributes:
        form: their format.
        tables: its templates.
        templates: int64 ``[sessions, slots]``, the template of every command; ``NOTHING`` in empty slots.
        states: int64 ``[sessions, moments, variables]``, the values at first and after every action.
        moments: int64 ``[slots]``, which moment the commands of a slot are at.
        seeds: int64 ``[sessions]``, what ``random`` is seeded with; None if no action is hidden.

    Example:
        >>> form = SessionFormat(2, hidden="if", reveal_every=1)
        >>> sessions = sample_sessions(form, 1, np.random.default_rng(0), commands=2)
        >>> sessions.trace(0).commands[:3], sessions.trace(0).seed
        (('from random import random', 'a = 1', 'b = 2'), 1158725112)
        >>> sessions.trace(0).text.splitlines()[3:7]
        ['>>> if random() < 0.5: a, b = b, a', '... ', ">>> print('b', b)", 'b 2']
    """

    form: SessionFormat
    tables: TokenTables
    templates: IntArray
    states: IntArray
    moments: IntArray
    seeds: IntArray | None = None

    def tokens(self, width: int) -> tuple[IntArray, NDArray[np.uint8], IntArray]:
        """Return the sessions as rows of tokens, cut or filled up with token 0.

        InputError if the width is below 0.

        Returns:
            The tokens, int64 ``[sessions, width]``; for each 2 if it is a revealed value, 1 if it is other
            output of a reveal, else 0; and the number of tokens of every whole session, ``[sessions]``.
        """
        check_integer("width", width, 0)
        tables, rows = self.tables, len(self.templates)
        lengths = tables.lengths[self.templates]
        ends = np.cumsum(lengths, axis=1)
        begins = ends - lengths
        totals = ends[:, -1] - 1  # the last line has no newline
        parts = np.minimum(lengths, width - begins).ravel()
        slots = np.flatnonzero(parts > 0)
        parts = parts[slots]
        firsts = np.cumsum(parts) - parts
        count = np.arange(parts.sum())
        sources = count + np.repeat(self.templates.ravel()[slots] * tables.tokens.shape[1] - firsts, parts)
        row = slots // lengths.shape[1]
        places = count + np.repeat(row * width + begins.ravel()[slots] - firsts, parts)
        written = tables.tokens.ravel()[sources]
        gaps = np.flatnonzero(written < 0)
        slot = np.repeat(slots, parts)[gaps] if gaps.size else gaps
        session, column = np.divmod(slot, lengths.shape[1])
        values = self.states[session, self.moments[column], -1 - written[gaps]]
        written[gaps] = tables.tokenizer.first_value - 1 + values
        tokens = np.zeros((rows, width), dtype=np.int64)
        shares = np.zeros((rows, width), dtype=np.uint8)
        tokens.ravel()[places] = written  # ravel of a new array is a view of it
        shares.ravel()[places] = tables.shares.ravel()[sources]
        whole = np.flatnonzero(totals < width)
        tokens[whole, totals[whole]] = 0
        return tokens, shares, totals

    def trace(self, number: int) -> ReplTrace:
        """Return one of the sessions as text; InputError if there is none of that number."""
        if not -len(self.templates) <= check_integer("number", number) < len(self.templates):
            raise InputError(f"number is {number}; give one in 0 … {len(self.templates) - 1}")
        first = len(self.form.preamble) - self.form.variables  # slots of imports, before anything is assigned
        steps = []
        for slot, template in enumerate(self.templates[number].tolist()):
            if template == NOTHING:
                continue
            values = self.states[number, self.moments[slot]].tolist()
            known = slot - first + 1 if slot < len(self.form.preamble) else self.form.variables
            steps.append((self.tables.commands[template - 1], tuple(values[: max(known, 0)])))
        return trace_of_commands(steps, None if self.seeds is None else int(self.seeds[number]))


def sample_sessions(
    form: SessionFormat,
    sessions: int,
    rng: np.random.Generator,
    *,
    commands: int | None = None,
    length: int | None = None,
    tables: TokenTables | None = None,
) -> Sessions:
    """Draw sessions.

    InputError if a number is below 1, ``commands`` and ``length`` are both None, the sessions do not fit into
    memory, or ``form`` or ``rng`` is of another kind.

    ``commands`` is the number of actions in each. If it is None, sessions fill rows of ``length`` tokens: one
    that goes on beyond the row, or, if its only reveal is at the end, the longest that the row holds; of one
    action, and too long, if it holds none. ``tables`` are those of the format, if they are at hand.

    Example:
        >>> drawn = sample_sessions(SessionFormat(3), 2, np.random.default_rng(0), commands=8)
        >>> [len(drawn.trace(row).commands) for row in range(2)]
        [13, 13]
    """
    check_type("form", form, SessionFormat, "give a SessionFormat")
    check_type("rng", rng, np.random.Generator, "give a generator, such as numpy.random.default_rng(0)")
    check_integer("sessions", sessions, 1)
    tables = token_tables(form) if tables is None else tables
    if commands is None:
        if length is None:
            raise InputError("commands and length are both None; give one of them")
        count = _actions_that_fill(form, tables, check_integer("length", length, 1))
    else:
        count = check_integer("commands", commands, 1)
    size = form.variables
    check_memory(
        f"drawing sessions of {count} actions, {sessions} at once,",
        8 * int(sessions) * count * (4 + size),  # actions, reveals, two templates and the values, int64
        "give fewer actions or sessions, or a shorter length",
    )
    shape = sessions, count
    initial = np.tile(np.arange(1, size + 1), (sessions, 1))
    if form.initial == "shuffled":
        initial = rng.permuted(initial, axis=1)
    elif form.initial == "repeated":
        initial = rng.integers(1, size + 1, size=initial.shape)
    actions = rng.integers(0, len(form.permutations), size=shape)
    reveals = tables.first_reveal + rng.integers(0, len(form.reveals), size=(sessions, count + 1))
    reveals[:, 0] *= form.reveal_first
    if form.spacing == "random":
        reveals[:, 1:-1] *= rng.random((sessions, count))[:, :-1] * form.reveal_every < 1
    elif form.spacing == "fixed":
        reveals[:, 1:-1] *= np.arange(1, count) % form.reveal_every == 0
    else:
        reveals[:, 1:-1] = NOTHING
    written, happens, seeds = _outcomes(form, tables, actions, rng)
    templates = np.zeros((sessions, len(form.preamble) + 1 + 2 * count), dtype=np.int64)
    templates[:, : len(form.preamble)] = np.arange(1, len(form.preamble) + 1)
    after = templates[:, len(form.preamble) :]  # the reveal at first, then action, reveal, action, reveal, …
    after[:, 0::2] = reveals
    after[:, 1::2] = written
    if commands is None and form.spacing == "end":
        _end_within(
            after, tables, cast(int, length) - int(tables.lengths[templates[0, : -after.shape[1]]].sum())
        )
    moments = np.concatenate([np.zeros(len(form.preamble), np.int64), (np.arange(2 * count + 1) + 1) // 2])
    return Sessions(form, tables, templates, _states(form, initial, actions, happens), moments, seeds)


def _actions_that_fill(form: SessionFormat, tables: TokenTables, length: int) -> int:
    """Return a number of actions whose tokens reach beyond a row and its last target, or fit into it."""
    before = int(tables.lengths[1 : len(form.preamble) + 1].sum())
    lengths = tables.lengths[tables.first_seen : tables.first_reveal]
    shortest = int(lengths.min())
    reveal = int(tables.lengths[tables.first_reveal :].min())
    if form.spacing == "end":
        room = (
            length + 1 - before - int(tables.lengths[tables.first_reveal :].max()) * (1 + form.reveal_first)
        )
        return max(1, room // shortest)
    beyond = max(1, length + 1 - before - reveal * form.reveal_first)
    if form.spacing == "random":
        return -(-beyond // shortest)
    # k actions and a reveal again and again; the last action ends beyond the row, whatever follows it
    rounds, rest = divmod(beyond, form.reveal_every * shortest + reveal)
    return rounds * form.reveal_every + max(1, min(form.reveal_every, -(-rest // shortest)))


def _end_within(after: IntArray, tables: TokenTables, room: int) -> None:
    """Leave as many actions of every row as fit into the room with the last reveal, which follows them."""
    last = after[:, -1].copy()
    after[:, -1] = NOTHING
    taken = np.cumsum(tables.lengths[after], axis=1)[:, 1::2] + tables.lengths[last][:, None] - 1
    kept = np.maximum(1, (taken <= room).sum(axis=1))
    after[np.arange(after.shape[1]) > 2 * kept[:, None]] = NOTHING
    after[np.arange(len(after)), 2 * kept] = last


def _outcomes(
    form: SessionFormat, tables: TokenTables, actions: IntArray, rng: np.random.Generator
) -> tuple[IntArray, NDArray[np.bool_] | None, IntArray | None]:
    """Return the template of every action, whether it happens (None: all do), and the seeds."""
    hidden = form.hidden_action
    if hidden is None:
        return tables.first_seen + actions, None, None
    is_hidden = np.ones(actions.shape, dtype=bool)
    if form.hidden_fraction < 1:
        is_hidden = rng.random(actions.shape) < form.hidden_fraction
    seeds = rng.integers(0, _LARGEST_SEED, size=len(actions))
    drawn: list[bool] = []
    generator = random.Random()
    for seed, count in zip(seeds.tolist(), is_hidden.sum(axis=1).tolist(), strict=True):
        generator.seed(seed)
        drawn += hidden.outcomes(generator, count)
    happens = np.ones(actions.shape, dtype=bool)
    happens[is_hidden] = drawn
    return np.where(is_hidden, tables.first_hidden, tables.first_seen) + actions, happens, seeds


def _states(
    form: SessionFormat, initial: IntArray, actions: IntArray, happens: NDArray[np.bool_] | None
) -> IntArray:
    """Return the values at first and after every action, ``[sessions, actions + 1, variables]``."""
    size = form.variables
    images = np.array([*form.permutations, tuple(range(1, size + 1))]) - 1
    effects = actions if happens is None else np.where(happens, actions, len(images) - 1)
    # flat places: the values of session s begin at s·n
    sources = images[effects.T] + (np.arange(len(actions)) * size)[None, :, None]
    states = np.empty((actions.shape[1] + 1, len(actions), size), dtype=np.int64)
    states[0] = initial
    for step, source in enumerate(sources):
        np.take(states[step], source, out=states[step + 1])
    return states.transpose(1, 0, 2)


def sample_repl_trace(
    rng: np.random.Generator, variables: int = 5, swaps: int = 16, reveal_every: int = 4
) -> ReplTrace:
    """Return a session of random swaps with a random variable printed after every few, and after the last.

    The 2 to 26 variables start as 1, 2, 3, …; each swap is uniform among all pairs of them. InputError if one
    of the numbers is out of its range.

    Example:
        >>> trace = sample_repl_trace(np.random.default_rng(0), variables=3, swaps=8, reveal_every=4)
        >>> len(trace.commands), len(trace.reveal_spans)
        (13, 2)
    """
    check_integer("swaps", swaps, 1)
    form = SessionFormat(variables, reveal_every=reveal_every)
    return sample_sessions(form, 1, rng, commands=swaps).trace(0)


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
