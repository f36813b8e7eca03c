"""The interface of tasks: batches of tokens, targets and loss weights, and the exact object behind them."""

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_memory, check_type, checked, shown
from automata.errors import InputError, printable
from automata.machines.mealy import MealyMachine
from automata.monoids.cayley import IntArray, as_array, float_array, integer_array

FloatArray = NDArray[np.float32]
Part = Literal["train", "validation", "test"]
"""The purpose of a batch. Only a task with a fixed store of data, such as a text, tells them apart."""

Specification = str | dict[str, Any]
"""JSON that rebuilds a task, see ``automata.tasks.specification``."""

AnyTask = TypeVar("AnyTask", bound="Task")


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences of tokens, and what is asked after each token.

    InputError for shapes that do not fit together, weights that are negative or not finite, lengths that are
    no number of tokens, or a weight at padding.

    Attributes:
        tokens: int64 ``[batch, length]``.
        targets: int64 ``[batch, length]``, the right answer after each token.
        weights: float32 ``[batch, length]``, the weight of each target in the loss; 0 where nothing is asked.
        lengths: int64 ``[batch]``, the number of tokens of each sequence; what follows is padding (token 0,
            target 0, weight 0). None if all are full.
        end: int64 ``[batch]``, where the exact object stands after the last token: what ``start`` of the next
            batch takes. None where sequences cannot go on.

    Example:
        >>> batch = Batch(np.array([[1, 0]]), np.array([[1, 1]]), np.array([[0, 1]], np.float32))
        >>> batch.tokens.shape, batch.counted.tolist(), batch.lengths is None
        ((1, 2), [[False, True]], True)
    """

    tokens: IntArray
    targets: IntArray
    weights: FloatArray
    lengths: IntArray | None = None
    end: IntArray | None = None

    def __post_init__(self) -> None:
        """Check that nothing is asked at padding: it would count as a right answer. Lists become arrays."""
        for field in ("tokens", "targets", "weights", "lengths", "end"):
            if (value := getattr(self, field)) is not None:
                object.__setattr__(self, field, _read(field, value))
        shape = self.tokens.shape
        if len(shape) != 2:
            raise InputError(f"tokens has shape {list(shape)}; give [batch, length]")
        for field, array, expected in (
            ("targets", self.targets, shape),
            ("weights", self.weights, shape),
            ("lengths", self.lengths, shape[:1]),
            ("end", self.end, shape[:1]),
        ):
            if array is not None and array.shape != expected:
                raise InputError(f"{field} has shape {list(array.shape)}; give {list(expected)}")
        if not ((self.weights >= 0) & (self.weights < np.inf)).all():
            raise InputError("weights has entries that are negative or not finite; give 0 or more")
        if self.lengths is not None and ((self.lengths < 1) | (self.lengths > shape[1])).any():
            raise InputError(
                f"lengths has entries outside of 1 … {shape[1]}; give the tokens of each sequence"
            )
        if self.weights[~self.real].any():
            raise InputError("weights has entries above 0 behind the end of a sequence; set them to 0")

    @property
    def real(self) -> NDArray[np.bool_]:
        """Which tokens are not padding, ``[batch, length]``."""
        batch, length = self.tokens.shape
        ends = np.full(batch, length) if self.lengths is None else self.lengths
        return np.asarray(np.arange(length) < ends[:, None])

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Where something is asked, ``[batch, length]``: accuracy is the mean over these places."""
        return np.asarray(self.weights > 0)


def _read(field: str, value: object) -> IntArray | FloatArray:
    array = as_array(field, value)
    if field == "weights":
        return float_array(field, array, "numbers").astype(np.float32, copy=False)
    return integer_array(field, array.astype(np.int64) if array.dtype == bool else array)


@dataclass(frozen=True)
class Ceiling:
    """The accuracy of the best possible answers, given the tokens only.

    Attributes:
        accuracy: the expected share of right answers.
        log_loss: the expected negative log probability of the target, in nats.
    """

    accuracy: float
    log_loss: float


class Task(ABC):
    """Training data with its exact answers. A subclass sets the attributes and writes ``batch``.

    Attributes:
        name: a short name.
        description: what the tokens and the targets are, in one sentence. Tasks of the package take both, or
            make them of their numbers or files.
        token_names: the name of every token.
        target_names: the name of every target.
        continues: whether a sequence can go on in the next batch. Then ``batch`` takes ``start`` and gives
            ``end``.
        document_token: the token that every document of a row begins with; None where a row is one document.
        longest: tokens of the longest sequence that ``batch`` can give; None where there is no such limit.
        specified_as: the field of a specification that holds what rebuilds the task; of our own classes only.
        specified_by: the attributes that stand under this field.
        specified_beside: the attributes that stand beside it.

    Example:
        A task of one's own: is the token the same as the one before?

        >>> class Repetition(Task):
        ...     name = "repetition"
        ...     description = "whether a token equals the one before it"
        ...     token_names = ("a", "b", "c")
        ...     target_names = ("other", "same")
        ...
        ...     def batch(self, batch_size, length, rng, start=None):
        ...         tokens = rng.integers(0, 3, (batch_size, length))
        ...         targets = np.zeros_like(tokens)
        ...         targets[:, 1:] = tokens[:, 1:] == tokens[:, :-1]
        ...         return Batch(tokens, targets, np.ones(tokens.shape, np.float32))
        >>> task = Repetition()
        >>> task.vocabulary_size, task.output_size, task.continues
        (3, 2, False)
    """

    name: str
    description: str
    token_names: tuple[str, ...]
    target_names: tuple[str, ...]
    continues: bool = False
    document_token: int | None = None
    longest: int | None = None
    specified_as: str
    specified_by: tuple[str, ...] = ()
    specified_beside: tuple[str, ...] = ("name", "description")
    _specification: Specification | None = None

    def __repr__(self) -> str:
        # a name may be a stranger's
        return printable(f"<{type(self).__name__} {self.name}: {self._told_sizes}>")

    @property
    def _told_sizes(self) -> str:
        """How large the task is, as its ``repr`` tells it."""
        return f"{self.vocabulary_size} tokens, {self.output_size} answers"

    @abstractmethod
    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw sequences; InputError if a number is below 1, or ``start`` does not fit.

        Args:
            batch_size: the number of sequences.
            length: the number of tokens in each, with padding.
            rng: the source of randomness; the same state of it gives the same batch.
            start: where the exact object stands before each sequence, ``[batch_size]``: ``start()`` or the
                ``end`` of an earlier batch. ``start()`` for all of them if None.
        """

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens."""
        return len(self.token_names)

    @property
    def output_size(self) -> int:
        """The number of targets."""
        return len(self.target_names)

    def start(self) -> int:
        """Return the number that stands for a sequence's beginning in ``start`` of ``batch``.

        It is the initial state where that is one state, and -1 where the beginning is drawn at random.
        InputError if the sequences of this task cannot go on.
        """
        raise InputError(
            f"sequences of task {shown(self.name)} cannot go on in the next batch; leave start out, "
            "and train without carried states"
        )

    def check_fresh(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None
    ) -> None:
        """Check the arguments of `batch` where sequences begin anew: any start is refused."""
        check_batch(batch_size, length, rng)
        if start is not None:
            self.start()

    @checked
    def part(self, part: Part) -> "Task":
        """Return the task confined to the data for training, validation or test.

        Sequences that are drawn afresh need no such division: the task itself is returned.
        """
        return self

    def machine(self) -> MealyMachine | None:
        """Return the exact finite machine that answers after every token; None where there is none."""
        return None

    def target_shares(self, length: int, last: int | None = None) -> NDArray[np.float64] | None:
        """Return the expected share of each target among those counted, exactly, shape ``[output_size]``.

        None, as here, where it is not known exactly: then ``majority_baseline`` draws a sample. Only the last
        so many of ``length`` places count if ``last`` is given.
        """
        return None

    def majority_baseline(
        self,
        length: int,
        *,
        last: int | None = None,
        sequences: int = 1024,
        rng: np.random.Generator | None = None,
    ) -> float:
        """Return the share of the counted targets that the most frequent answer gets right.

        Exact where ``target_shares`` is. Else it is estimated from a sample: for n counted targets and a
        share p the standard error is at least sqrt(p (1 - p) / n), more where the targets of a sequence
        depend on each other. InputError if a number is below 1, or nothing is asked in the sample.

        Args:
            length: the number of tokens in a sequence.
            last: count only the targets of the last so many places; all if None.
            sequences: the size of the sample, where one is needed.
            rng: its source of randomness; ``np.random.default_rng(0)`` if None.
        """
        check_at_least_one(length=length, last=1 if last is None else last, sequences=sequences)
        shares = self.target_shares(length, last)
        if shares is None:
            drawn = self.batch(sequences, length, np.random.default_rng(0) if rng is None else rng)
            places = last_places(length, last)
            targets = drawn.targets[:, places][drawn.counted[:, places]]
            if not targets.size:
                raise InputError(
                    f"length is {length}: task {shown(self.name)} asks nothing in {sequences} such "
                    "sequences; give a greater length"
                )
            if targets.min() < 0:
                raise InputError(
                    f"task {shown(self.name)} gives target {targets.min()} where weights are 1; give 0 there"
                )
            shares = np.bincount(targets) / targets.size
        return float(shares.max())

    def ceiling(
        self,
        length: int,
        *,
        last: int | None = None,
        sequences: int = 1024,
        rng: np.random.Generator | None = None,
    ) -> Ceiling | None:
        """Return what the best possible answers reach; None where that is not known.

        Arguments are those of ``majority_baseline``.
        """
        return Ceiling(1.0, 0.0) if self._answers_are_certain else None

    @property
    def _answers_are_certain(self) -> bool:
        """Return whether the tokens up to a place tell its answer, as they do where there is a machine."""
        return self.machine() is not None

    def specification(self) -> Specification:
        """Return JSON that ``automata.tasks.specification.task_from`` rebuilds this task from.

        InputError if the task holds code of your own, or is of your own subclass, and no import was named.
        """
        if self._specification is not None:
            return copy.deepcopy(self._specification)
        if "specified_as" not in vars(type(self)):  # of a subclass other fields would be missing
            raise InputError(
                f"task {shown(self.name)} is an object of the class {type(self).__module__}:"
                f"{type(self).__qualname__}, which a run folder cannot hold; give the task as "
                '{"object": "module:name"} with the name of an object, or of a function that makes it, '
                "in a module that can be imported"
            )
        return {
            self.specified_as: self._specified(),
            **{field: getattr(self, field) for field in self.specified_beside},
        }

    def _specified(self) -> Any:
        return {field: getattr(self, field) for field in self.specified_by}


class StoredTask(Task):
    """A task of data in files, which are divided in three; ``part`` gives the same data confined to another.

    Attributes:
        confined_to: the part that batches are taken from.
        sha256: the digest of the data.
    """

    confined_to: Part
    sha256: str
    _stored_path: str | list[str]

    def check_digest(self, where: str, expected: str | None) -> None:
        """Raise InputError if the data are not those with the digest."""
        if expected not in (None, self.sha256):
            raise InputError(
                f"{where} is not the one that the task was made from (its SHA-256 is {self.sha256}, "
                f"not {expected}); restore that"
            )

    @checked
    def part(self, part: Part) -> Self:
        """Return the task confined to another part of the same data."""
        if part == self.confined_to:
            return self
        other = copy.copy(self)
        other.confined_to = part
        return other

    def _specified(self) -> str | list[str]:
        return self._stored_path

    def own_share(self, size: int) -> slice:
        """Return which of so many entries are in the part: 80% for training, 10% for each of the others."""
        begin, end = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}[self.confined_to]
        return slice(round(begin * size), round(end * size))


def with_specification(task: AnyTask, specification: Specification) -> AnyTask:
    """Return a copy of the task that says it is rebuilt from this specification.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> with_specification(make_task("parity"), {"object": "my_tasks:parity"}).specification()
        {'object': 'my_tasks:parity'}
    """
    described = copy.copy(task)
    object.__setattr__(described, "_specification", copy.deepcopy(specification))
    return described


def last_places(length: int, last: int | None) -> slice:
    """Return which places of a sequence are the last so many; all for None."""
    return slice(0 if last is None else max(0, length - last), None)


def check_at_least_one(**numbers: int) -> None:
    """Raise InputError if one of the numbers is below 1."""
    for field, value in numbers.items():
        if check_integer(field, value) < 1:
            raise InputError(f"{field} is {value}; give a {field} of at least 1")


BYTES_PER_TOKEN = 8 + 8 + 4
"""Bytes that a batch holds of a token at the least: itself and its target, int64, and its weight, float32."""


def check_batch(batch_size: int, length: int, rng: np.random.Generator) -> None:
    """Refuse sizes below 1 or beyond the memory, and what is no generator."""
    check_at_least_one(batch_size=batch_size, length=length)
    check_type("rng", rng, np.random.Generator, "give a generator, such as numpy.random.default_rng(0)")
    check_memory(
        f"a batch of {batch_size} sequences of length {length}",
        BYTES_PER_TOKEN * int(batch_size) * int(length),
        "give a shorter length or fewer sequences",
    )


def starts(start: ArrayLike | None, batch_size: int, first: int, smallest: int, bound: int) -> IntArray:
    """Return ``start`` of ``batch`` as ``[batch_size]`` numbers, each checked."""
    before = np.full(batch_size, first) if start is None else integer_array("start", start)
    if before.shape != (batch_size,) or before.min() < smallest or before.max() >= bound:
        raise InputError(
            f"start holds {before.tolist()}; give {batch_size} states in {smallest} … {bound - 1}"
        )
    return before
