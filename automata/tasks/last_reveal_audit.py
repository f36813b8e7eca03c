"""Shortcut audit of REPL traces: the next revealed value from the last reveal alone, in sessions as drawn."""

from dataclasses import dataclass
from math import sqrt

import numpy as np

from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.repl.commands import PROMPT
from automata.repl.grammar import NONE
from automata.repl.last_reveal import last_reveal_accuracy
from automata.tasks.repl_language import ReplLanguage

Place = tuple[int | None, int]
"""The number of actions before the last reveal (None: there is none before), and since then."""


@dataclass(frozen=True)
class LastRevealAccuracy:
    """How right the best classifier is that knows the last reveal and which variable is asked."""

    accuracy: float  # the share of right values of one that does not know the place in the session
    # that of one that knows the numbers of actions before the last reveal and since then
    with_position: float
    standard_error: float  # of with_position, since where reveals stand is drawn; 0 if is_exact
    is_exact: bool  # whether reveals stood at the same places in all sessions of the sample


def last_reveal_audit(
    task: ReplLanguage, length: int, last: int, sequences: int, rng: np.random.Generator
) -> LastRevealAccuracy | None:
    """Return what the last reveal alone tells, for values asked after one of the last places.

    The places of the reveals are those of a sample. Given them the accuracy is exact if all actions have the
    same number of tokens; otherwise where a reveal stands in a row tells of the actions before it, and there
    is no answer unless sessions are counted whole: see `places_tell_nothing`.

    Returns:
        None if no value is asked there in the sample, or the accuracy is not known: actions, or reveals,
        differ in tokens, all of more than six first values that repeat are revealed at once, or reveals are
        of a form of one's own.
    """
    if not places_tell_nothing(task, length, last):
        return None
    rows = _places(task, task.batch(sequences, length, rng).tokens, last)
    together = [place for row in rows for place in row]
    if not together:
        return None
    try:
        known = {place: last_reveal_accuracy(task.form, [place]) for place in set(together)}
    except InputError:
        return None
    mean = float(np.mean([known[place] for place in together]))
    # the places of one sequence depend on each other: the error is that of a ratio over sequences
    residuals = [sum(known[place] for place in row) - mean * len(row) for row in rows]
    is_exact = len({tuple(row) for row in rows}) == 1
    return LastRevealAccuracy(
        accuracy=last_reveal_accuracy(task.form, together),
        with_position=mean,
        standard_error=0.0 if is_exact else sqrt(sum(r * r for r in residuals)) / len(together),
        is_exact=is_exact,
    )


def places_tell_nothing(task: ReplLanguage, length: int, last: int) -> bool:
    """Return whether where a reveal stands in the last tokens of a row says nothing of what it shows.

    So it is if all actions have the same number of tokens, and all reveals. Otherwise a window of a row holds
    the reveals that short actions precede more often than others. It does not matter where all of every
    session is counted.
    """
    tables = task.tables
    actions, reveals = np.split(
        tables.lengths[tables.first_seen :], [tables.first_reveal - tables.first_seen]
    )
    if np.ptp(actions) == 0 == np.ptp(reveals):
        return True
    return task.commands is not None and last >= length >= task.longest_session


def _places(task: ReplLanguage, tokens: IntArray, last: int) -> list[list[Place]]:
    """Return for every sequence the places of the values that are asked."""
    reading = task.read(tokens)
    actions = np.cumsum(reading.actions != NONE, axis=1)
    commands = np.cumsum(tokens == task.tokenizer.numbers[PROMPT], axis=1)
    rows = []
    for row, asked in enumerate(reading.asked != NONE):
        places: list[Place] = []
        command, before, now = -1, None, None  # the actions before the last reveal and before this one
        for place in np.flatnonzero(asked).tolist():
            if commands[row, place] != command:
                command, before, now = int(commands[row, place]), now, int(actions[row, place])
            if place >= tokens.shape[1] - last:
                places.append((before, (now or 0) - (before or 0)))
        rows.append(places)
    return rows
