"""Shortcut audit: how right a classifier is that sees the last k tokens only, and so cannot track a state.

For a word problem the best such classifier is known. After the word w of the last k tokens the state is
distributed as the vector v_w[s] = Pr(w, and the state after it is s), and the best answer is right with
probability Σ_w max_s v_w[s]. Words whose vectors are proportional are counted together, so that there are
few of them (in a group with independent tokens at most as many as elements), however long the words are.

Arithmetic is in float64: vectors that agree to 1e-10 in every entry count as proportional, so that an
accuracy is right to about k·S·1e-10 for S states, far below what anybody reports.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import sqrt

import numpy as np

from automata.checks import checked, shown
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.repl.last_reveal import last_reveal_accuracy
from automata.repl.text import PROMPT
from automata.repl.tokens import NONE
from automata.tasks.interface import Batch, Ceiling, Task, check_at_least_one
from automata.tasks.repl_language import ReplLanguage
from automata.tasks.word_problem import FloatArray, WordProblem

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
    is no answer unless sessions are counted whole. None too where no value is asked, where all of more than
    six first values that repeat are revealed at once, and where reveals are of a form of one's own.
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

    So it is if all actions have the same number of tokens, and all reveals: otherwise a window of a row holds
    the reveals behind short actions more often. It does not matter where all of every session is counted.
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


REPORTED_TOKENS = 10
"""Accuracies are those of the last ten tokens of a sequence, as in the reports on models."""

_DECIMALS = 10
_LARGEST_WORK = 2**24  # entries of the vectors of one step: 128 MiB
_NEVER_SEEN = -1


@dataclass(frozen=True)
class WindowAccuracy:
    """The best classifier on the last k tokens.

    Attributes:
        window: k.
        accuracy: the share of right answers of the best classifier that knows these tokens.
        with_position: the same if it also knows the position in the sequence. None where only a sample is at
            hand.
        standard_error: that of ``accuracy`` if it is estimated from a sample; 0 if it is exact.
        is_exact: whether nothing was sampled.
    """

    window: int
    accuracy: float
    with_position: float | None
    standard_error: float
    is_exact: bool


@dataclass(frozen=True)
class ShortcutAudit:
    """The accuracy up to which a task is no evidence that a state is tracked.

    Attributes:
        task: the name of the task.
        length: tokens in a sequence.
        last: the figures are for the last so many tokens of it.
        majority: the share of the most frequent answer; of data in files, in their test part.
        position_only: the share of the best answer to the number of tokens so far alone, counted from the
            beginning of the sequence, or of its last document where the task marks documents.
        windows: one entry for each k.
        method: how the entries were found, in one sentence.
        ceiling: what the best answers on the whole sequence reach; None where that is not known.
        last_reveal: for a task of REPL traces what the last reveal alone tells of the next revealed value;
            None for other tasks, where none is asked at the last tokens, and where actions differ in tokens.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> audit = shortcut_audit(make_task("parity"), length=32, windows=[0, 31, 32])
        >>> [(entry.window, entry.accuracy) for entry in audit.windows]  # 31 hold all of nine of ten places
        [(0, 0.5), (31, 0.95), (32, 1.0)]
    """

    task: str
    length: int
    last: int
    majority: float
    position_only: float
    windows: tuple[WindowAccuracy, ...]
    method: str
    ceiling: Ceiling | None
    last_reveal: LastRevealAccuracy | None = None

    def table(self) -> str:
        """Return the figures as text, a line for each classifier."""
        width = len("best on the last 1024 tokens")
        lines = [
            f"{self.task}: last {self.last} of {self.length} tokens",
            f"{'classifier':<{width}}  accuracy  with position",
            f"{'most frequent answer':<{width}}  {self.majority:8.4f}",
            f"{'number of tokens alone':<{width}}  {self.position_only:8.4f}",
        ]
        for entry in self.windows:
            tokens = "token" if entry.window == 1 else "tokens"
            position = "" if entry.with_position is None else f"{entry.with_position:13.4f}"
            error = "" if entry.is_exact else f"  ± {entry.standard_error:.4f}"
            label = f"best on the last {entry.window} {tokens}"
            lines.append(f"{label:<{width}}  {entry.accuracy:8.4f}  {position}{error}".rstrip())
        if self.last_reveal is not None:
            found = self.last_reveal
            error = "" if found.is_exact else f"  ± {found.standard_error:.4f}"
            label = f"{'values, from the last reveal':<{width}}"
            lines.append(f"{label}  {found.accuracy:8.4f}  {found.with_position:13.4f}{error}")
        if self.ceiling is not None:
            lines.append(f"{'best on all tokens':<{width}}  {self.ceiling.accuracy:8.4f}")
        return "\n".join([*lines, self.method])


@checked
def shortcut_audit(
    task: Task,
    length: int = 64,
    *,
    last: int = REPORTED_TOKENS,
    windows: Iterable[int] | None = None,
    sequences: int = 2048,
    rng: np.random.Generator | None = None,
) -> ShortcutAudit:
    """Return how right the best classifier on the last k tokens is, for several k.

    Exact for word problems, unless there are too many different vectors (see the top of this module): then
    the best answer to each of a sample of words is exact, and the mean over words is an estimate. For others
    the classifier is a table, from the last k tokens to the most frequent target, made from one sample and
    measured on another: a lower bound on the best. For REPL traces whose actions all have the same number of
    tokens there is the exact accuracy of the best answer to a revealed value from the last reveal alone as
    well; otherwise where a reveal stands tells of the actions, and the last sentence says so. InputError if a
    number is out of its range.

    Args:
        task: any task.
        length: tokens in a sequence.
        last: count the last so many of them.
        windows: the numbers k; 0, 1, 2, 4, 8, … up to the length and at most 32 if None. Those above the
            length count as the length.
        sequences: the size of each sample, where one is needed.
        rng: its source of randomness; ``np.random.default_rng(0)`` if None.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> print(shortcut_audit(make_task("S5-transpositions"), windows=[0, 8]).table())
        S5-transpositions: last 10 of 64 tokens
        classifier                    accuracy  with position
        most frequent answer            0.0083
        number of tokens alone          0.0167
        best on the last 0 tokens       0.0083         0.0167
        best on the last 8 tokens       0.0083         0.0167
        best on all tokens              1.0000
        Exact.
    """
    check_at_least_one(length=length, last=last, sequences=sequences)
    chosen = _windows(length, windows)
    last = min(last, length)
    source = np.random.default_rng(0) if rng is None else rng
    if isinstance(task, WordProblem):
        known = _Known(task)
        entries = [_word_problem_window(task, length, last, k, sequences, source, known) for k in chosen]
        blind = float(task.state_probabilities(length)[-last:].max(axis=1).mean())
        method = (
            "Exact."
            if all(entry.is_exact for entry in entries)
            else f"Exact without ±; else the mean over the words of {sequences} sampled sequences, each "
            "answered as well as possible."
        )
    else:
        entries, blind = _table_windows(task, length, last, chosen, sequences, source)
        method = (
            f"Estimated by tables made from {sequences} sequences and measured on {sequences} others: a "
            "lower bound on the best classifier, and a weak one where most windows are seen once."
        )
        if isinstance(task, ReplLanguage) and not places_tell_nothing(task, length, last):
            method += (
                " Nothing is said of the last reveal alone: actions or reveals differ in tokens, so that "
                "where a reveal stands tells of them."
            )
    return ShortcutAudit(
        task.name,
        length,
        last,
        task.part("test").majority_baseline(length, last=last, sequences=sequences, rng=source),
        blind,
        tuple(entries),
        method,
        task.ceiling(length, last=last, sequences=min(sequences, 256), rng=source),
        last_reveal_audit(task, length, last, sequences, source) if isinstance(task, ReplLanguage) else None,
    )


def _windows(length: int, windows: Iterable[int] | None) -> list[int]:
    if windows is None:
        return [0, *(2**power for power in range(6) if 2**power <= length)]
    given = list(windows)
    for window in given:
        if window < 0:
            raise InputError(f"windows holds {window}; give numbers of at least 0")
    if not given:
        raise InputError("windows is empty; give at least one number of tokens")
    return given


def _word_problem_window(
    task: WordProblem,
    length: int,
    last: int,
    window: int,
    sequences: int,
    rng: np.random.Generator,
    known: "_Known",
) -> WindowAccuracy:
    initial = np.eye(task.state_count)[task.initial_state]
    before = np.concatenate([initial[None], task.state_probabilities(length)])  # [t] is after t tokens
    ends = range(length - last + 1, length + 1)
    # at a position with fewer than k tokens before it, the classifier sees those that there are
    seen = Counter(min(window, end) for end in ends)
    try:
        right = sum(known.best(before[end - min(window, end)], min(window, end)) for end in ends)
        blind = sum(
            count * known.best(np.mean([before[end - k] for end in ends if min(window, end) == k], axis=0), k)
            for k, count in seen.items()
        )
    except _TooMany:
        return _sampled_window(task, before, ends, window, sequences, rng)
    return WindowAccuracy(window, blind / last, right / last, 0.0, is_exact=True)


class _TooMany(Exception):  # noqa: N818
    """There are too many vectors to hold."""


class _Known:
    """The best accuracies found so far, from each distribution of the state before the window."""

    def __init__(self, task: WordProblem) -> None:
        self.task = task
        self.found: dict[bytes, tuple[FloatArray, FloatArray, list[float]]] = {}

    def best(self, start: FloatArray, window: int) -> float:
        """Return Σ_w max_s v_w[s] over the words of this length; `_TooMany` if that is out of reach."""
        key = start.round(_DECIMALS).tobytes()
        fresh = start[None], np.ones(1), [float(start.max())]
        vectors, masses, values = self.found.pop(key, fresh)
        while len(values) <= window:
            if len(vectors) * self.task.table.size > _LARGEST_WORK:
                raise _TooMany
            moved = _after_each_token(self.task, vectors)  # [vectors, tokens, states]
            weights = moved.sum(axis=-1)
            possible = weights > 0
            masses = (masses[:, None] * weights)[possible]
            vectors, masses = _merged(moved[possible] / weights[possible][:, None], masses)
            values.append(float(masses @ vectors.max(axis=1)))
        self.found[key] = vectors, masses, values
        return values[window]


def _after_each_token(task: WordProblem, vectors: FloatArray) -> FloatArray:
    """Return for every vector and token the vector after it, shape ``[vectors, tokens, states]``."""
    states, tokens = task.table.shape
    moved = np.zeros((len(vectors), tokens, states))
    for state in range(states):
        share = vectors[:, state, None] * task.token_probabilities[state]
        # within one state every token leads to one place: no place is met twice
        moved[:, np.arange(tokens), task.table[state]] += share
    return moved


def _merged(vectors: FloatArray, masses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Count equal vectors together."""
    numbers: dict[bytes, int] = {}
    rounded = vectors.round(_DECIMALS)
    which = np.array([numbers.setdefault(row.tobytes(), len(numbers)) for row in rounded])
    first = np.unique(which, return_index=True)[1]
    return vectors[first], np.bincount(which, masses).astype(np.float64)


def _sampled_window(
    task: WordProblem, before: FloatArray, ends: range, window: int, sequences: int, rng: np.random.Generator
) -> WindowAccuracy:
    """Estimate from the exact best answer to every word of a sample."""
    tokens, _ = task.sample(sequences, ends[-1], rng)
    rows = np.arange(sequences)[:, None]
    right = np.empty((2, sequences, len(ends)))
    for column, end in enumerate(ends):
        k = min(window, end)
        alike = [other for other in ends if min(window, other) == k]
        starts = (np.mean([before[other - k] for other in alike], axis=0), before[end - k])
        for kind, start in enumerate(starts):
            vectors = np.tile(start, (sequences, 1))
            for token in tokens[:, end - k : end].T:
                moved = np.zeros_like(vectors)
                np.add.at(moved, (rows, task.table.T[token]), vectors * task.token_probabilities.T[token])
                vectors = moved / moved.sum(axis=1, keepdims=True)
            right[kind, :, column] = vectors.max(axis=1)
    means = right.mean(axis=2)
    error = float(means[0].std(ddof=1) / sqrt(sequences)) if sequences > 1 else 1.0
    return WindowAccuracy(window, float(means[0].mean()), float(means[1].mean()), error, is_exact=False)


def _table_windows(
    task: Task, length: int, last: int, windows: list[int], sequences: int, rng: np.random.Generator
) -> tuple[list[WindowAccuracy], float]:
    """Estimate from tables of the most frequent target after each window, else after a shorter one.

    Also return what a table of the number of tokens reaches.
    """
    made, held_out = (part.batch(sequences, length, rng) for part in (task, task.part("test")))
    if not made.counted[:, -last:].any() or not held_out.counted[:, -last:].any():
        raise InputError(
            f"length is {length}: {shown(task.name)} asks nothing in the last {last} tokens; give another, "
            "or a greater last"
        )
    by_size: dict[int, IntArray] = {}  # [counted targets]: the answer of the table, or _NEVER_SEEN
    entries = []
    # a window that the table has not seen is answered by a shorter one, of those asked for or a power of two
    for window in sorted({0, *windows, *(2**power for power in range(6) if 2**power < max(windows))}):
        by_size[window] = _answers(made, held_out, last, partial(_ending, window))
    places = held_out.counted[:, -last:]
    targets = held_out.targets[:, -last:][places]
    row_of = np.nonzero(places)[0]
    for window in windows:
        answers = by_size[window]
        for shorter in sorted((k for k in by_size if k < window), reverse=True):
            answers = np.where(answers == _NEVER_SEEN, by_size[shorter], answers)
        right = (answers == targets).astype(np.float64)
        # the targets of one sequence depend on each other
        error = cluster_error(right, row_of)
        entries.append(WindowAccuracy(window, float(right.mean()), None, error, is_exact=False))
    answers = _answers(made, held_out, last, partial(_since_begin, task.document_token))
    answers = np.where(answers == _NEVER_SEEN, by_size[0], answers)
    return entries, float((answers == targets).mean())


def cluster_error(values: FloatArray, clusters: IntArray) -> float:
    """Return the standard error of a mean of values ``[count]`` that depend on each other within clusters."""
    residuals = np.bincount(clusters, values - values.mean())
    return sqrt(float(residuals @ residuals)) / len(values)


def _ending(window: int, row: IntArray, end: int) -> IntArray:
    """The last so many tokens."""
    return row[max(0, end - window) : end]


def _since_begin(document_token: int | None, row: IntArray, end: int) -> IntArray:
    """The number of tokens since the document began, ``[1]``."""
    begins = np.flatnonzero(row[:end] == document_token)
    return end - begins[-1:] if len(begins) else np.array([end])


def _answers(made: Batch, held_out: Batch, last: int, key: Callable[[IntArray, int], IntArray]) -> IntArray:
    """The most frequent target for each key, which is a function of a row and of how much of it was read."""
    frequent: defaultdict[bytes, Counter[int]] = defaultdict(Counter)
    for known, target in _keys(made, last, key):
        frequent[known][target] += 1
    return np.array(
        [
            frequent[known].most_common(1)[0][0] if known in frequent else _NEVER_SEEN
            for known, _ in _keys(held_out, last, key)
        ]
    )


def _keys(batch: Batch, last: int, key: Callable[[IntArray, int], IntArray]) -> Iterable[tuple[bytes, int]]:
    """Yield the key and the target of every counted place among the last ones."""
    length = batch.tokens.shape[1]
    for row, column in zip(*np.nonzero(batch.counted[:, -last:]), strict=True):
        end = length - min(last, length) + int(column) + 1
        yield key(batch.tokens[row], end).tobytes(), int(batch.targets[row, end - 1])
