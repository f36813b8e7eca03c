"""The exact filter on test sequences: beliefs, answers, evidence, and what was revealed when."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analysis.framework.arrays import FloatArray, IntArray
from automata.errors import InputError
from automata.tasks.observed import NOTHING, ObservedTask
from implicit.training.streams import Stream, draw_batch

NEVER = -1
"""The number of tokens since the last full reveal where there was none and the beginning was unknown."""


@dataclass(frozen=True, eq=False)
class ExactSequences:
    """Sequences with what Bayes' rule says of them. A *place* is a token after which something is asked."""

    task: ObservedTask  # from which they are drawn
    tokens: IntArray  # [sequences, length]
    lengths: IntArray  # real tokens of each sequence, [sequences]
    rows: IntArray  # the sequence of each place, [places]
    columns: IntArray  # its position, [places]
    targets: IntArray  # the right answer, [places]
    answers: FloatArray  # the exact distribution of it, [places, output_size]
    # tokens since the last full reveal, or since the beginning where that is known, [places]; NEVER where
    # neither is
    tokens_since: IntArray
    reveals_since: IntArray  # reveals since then, not counting the one that is asked, [places]; likewise
    # log Pr(what token t tells | those before), in nats, [sequences, length]; NaN at padding
    log_evidence: FloatArray
    kept: IntArray  # positions at which beliefs are kept, rising, [kept]
    beliefs: FloatArray  # after these, [sequences, kept, states]; NaN at padding

    @property
    def by_length(self) -> Iterator[tuple[IntArray, int]]:
        """The sequences of each length, as `of_one_length` goes through them."""
        return of_one_length(self.lengths)

    def places_in(self, rows: slice, first: int, after: int) -> IntArray:
        """Return the numbers of the places in some sequences, from one position to before another."""
        inside = (self.rows >= rows.start) & (self.rows < rows.stop)
        return np.flatnonzero(inside & (self.columns >= first) & (self.columns < after))


def exact_sequences(
    task: ObservedTask,
    sequences: int,
    length: int,
    seed: int,
    kept: Sequence[int] | IntArray,
    stream: Stream = Stream.TEST,
) -> ExactSequences:
    """Draw sequences and filter them.

    Beliefs are kept at the positions ``kept``. Sequences in which nothing is asked are refused.
    """
    batch = draw_batch(task, sequences, length, seed, stream, length, 0)
    tokens = batch.tokens.numpy()
    lengths = np.full(len(tokens), length) if batch.lengths is None else batch.lengths.numpy()
    wanted = np.unique(np.asarray(kept, dtype=np.int64))
    size = task.output_size
    beliefs = np.full((len(tokens), len(wanted), len(task.hidden_state_names)), np.nan)
    log_evidence = np.full(tokens.shape, np.nan)
    questions = np.full(tokens.shape, NOTHING)
    since = np.full((2, *tokens.shape), NEVER)
    rows, columns, answers = [], [], []
    for chosen, real in of_one_length(lengths):
        given = tokens[chosen, :real]
        asked = questions[chosen, :real] = task.questions(given)
        since[:, chosen, :real] = _since_full_reveal(task, given)
        for position, (belief, evidence) in enumerate(task.filtered(given)):
            log_evidence[chosen, position] = np.log(evidence)
            place = np.searchsorted(wanted, position)
            if place < len(wanted) and wanted[place] == position:
                beliefs[chosen, place] = belief
            here = np.flatnonzero(asked[:, position] != NOTHING)
            if here.size:
                rows.append(chosen[here])
                columns.append(np.full(len(here), position))
                answers.append(task.predicted(belief[here], asked[here, position]))
    if not rows:
        raise InputError(
            f"length is {length}: task {task.name!r} asks nothing in {sequences} such sequences; "
            "give a greater length"
        )
    at_rows, at_columns = np.concatenate(rows), np.concatenate(columns)
    return ExactSequences(
        task=task,
        tokens=tokens,
        lengths=lengths,
        rows=at_rows,
        columns=at_columns,
        targets=batch.targets.numpy()[at_rows, at_columns],
        answers=np.concatenate(answers).reshape(-1, size),
        tokens_since=since[0, at_rows, at_columns],
        reveals_since=since[1, at_rows, at_columns],
        log_evidence=log_evidence,
        kept=wanted,
        beliefs=beliefs,
    )


def of_one_length(lengths: IntArray) -> Iterator[tuple[IntArray, int]]:
    """Go through the lengths that sequences have, with the sequences of each: padding is no part of them.

    Example:
        >>> [(rows.tolist(), real) for rows, real in of_one_length(np.array([3, 2, 3]))]
        [([1], 2), ([0, 2], 3)]
    """
    for real in np.unique(lengths).tolist():
        yield np.flatnonzero(lengths == real), real


def _since_full_reveal(task: ObservedTask, tokens: IntArray) -> IntArray:
    """Tokens and reveals between the last full reveal and each token, ``[2, sequences, length]``."""
    length = tokens.shape[1]
    full, any_reveal = task.fully_revealed(tokens), task.revealed(tokens)
    known_at_first = np.count_nonzero(task.initial_belief) == 1
    places = np.where(full, np.arange(length), -1 if known_at_first else -length - 1)
    # the last one before each token: a reveal that is being asked is not yet answered
    first = np.full((len(tokens), 1), -1 if known_at_first else -length - 1)
    last = np.maximum.accumulate(np.concatenate([first, places[:, :-1]], axis=1), axis=1)
    told = np.concatenate([np.zeros((len(tokens), 1), np.int64), any_reveal.cumsum(axis=1)], axis=1)
    until_last = np.take_along_axis(told, np.maximum(last + 1, 0), axis=1)
    unknown = last < -1
    passed = np.arange(length) - last
    return np.stack([np.where(unknown, NEVER, passed), np.where(unknown, NEVER, told[:, :-1] - until_last)])
