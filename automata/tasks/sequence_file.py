"""Word problems as CSV: the rows ``seed,input,target`` of the public generator, read and written.

A row is a word and its prefix products, as numbers separated by spaces. The generator is that of Merrill,
Petty and Sabharwal 2024, "The Illusion of State in State-Space Models", arXiv 2404.08819
(https://github.com/jopetty/word-problem). Its numbers of the elements of A5 are those of the tasks here.
"""

import csv
import errno
import hashlib
import io
import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_memory, checked, repeated, shown
from automata.data_files import data_file, fresh_file, read_file, stored_path
from automata.errors import InputError
from automata.machines.mealy import MealyMachine
from automata.monoids.cayley import IntArray
from automata.tasks.interface import Batch, Part, StoredTask, Task
from automata.tasks.word_problem import WordProblem

HEADER = ["seed", "input", "target"]
LARGEST_NUMBER = 2**20
"""The largest token or target; a name is made for each."""
_GAPS_BELOW = 2**16
"""Smaller numbers may have gaps; each takes a weight, and a logit of every token."""
_AT_ONCE = 1024
_NUMBER = np.dtype(">i4")  # whose bytes are in the order of the numbers


class SequenceFile(StoredTask):
    """Stored words with the answer after every token, from one CSV file or several.

    The words that differ are divided in three, in a random order that is always the same: 80% for training,
    10% for validation, 10% for test. The object gives words of its own part only (training unless asked
    otherwise) and ``part`` gives the others. So no word of the test part is a word of training, though one
    may begin like another.

    A batch draws words with replacement and cuts them to its length; shorter ones are padded.

    Files are read where they stand; a run folder holds their paths and the SHA-256 of their bytes. The last
    line may lack its newline; a file that was cut within its last number looks the same. InputError if a file
    cannot be read, has no columns ``input`` and ``target``, or a row is not a word and as many answers; a
    word has two different answers; fewer than 10 words differ; or the files are not those with the digest.

    Args:
        paths: of a file, or of several; may begin with ``$IMPLICIT_SSM_DATA/``.
        confined_to: the part that words are taken from.
        digest: the SHA-256 that the bytes of all files, one after the other, are expected to have.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from automata.tasks.registry import make_task
        >>> with TemporaryDirectory() as folder:
        ...     file = Path(folder) / "S3=5.csv"
        ...     _ = write_sequences(file, make_task("S3"), sequences=100, length=5)
        ...     task = SequenceFile(file)
        >>> task, len(task.words), len(task.part("test").words)
        (<SequenceFile S3=5: 80 words for train>, 80, 10)
    """

    longest: int
    specified_as, specified_beside = "csv", ("sha256", "name", "description")

    @checked
    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        confined_to: Part = "train",
        *,
        name: str | None = None,
        description: str | None = None,
        digest: str | None = None,
    ) -> None:
        given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        if not given:
            raise InputError("csv holds no path; give that of a file")
        stored = [stored_path(path) for path in given]
        self._stored_path = stored if len(stored) > 1 else stored[0]
        rows, found = dict[bytes, tuple[bytes, str]](), hashlib.sha256()
        for path in given:
            try:
                content = read_file(data_file(path))
            except OSError as error:
                raise InputError(
                    f"file {path} cannot be read ({error.strerror}); give the path of a file"
                ) from error
            found.update(content)
            for word, answers, where in _rows(path, content):
                known, before = rows.setdefault(word, (answers, where))
                if known != answers:
                    raise InputError(
                        f"{where}: its answers are not those that {before} has for the same word; "
                        "leave one of the rows out"
                    )
        self.sha256 = found.hexdigest()
        self.check_digest(f"file {given[0]}", digest)
        if len(rows) < 10:
            raise InputError(f"file {given[0]} has {len(rows)} words that differ; give at least 10")
        self.name = data_file(given[0]).stem if name is None else name
        self.description = description or f"the answers of {', '.join(data_file(p).name for p in given)}"
        words = sorted(rows)
        self._tokens = np.frombuffer(b"".join(words), _NUMBER)  # of all words, one after the other
        self._targets = np.frombuffer(b"".join(rows[word][0] for word in words), _NUMBER)
        self._lengths = np.array([len(word) // _NUMBER.itemsize for word in words])
        self._begins = self._lengths.cumsum() - self._lengths
        self.token_names = self._names("input", self._tokens)
        self.target_names = self._names("target", self._targets)
        self.longest = int(self._lengths.max())
        self._order = np.random.default_rng(0).permutation(len(rows))
        self.confined_to = confined_to

    def _names(self, column: str, numbers: NDArray[np.int32]) -> tuple[str, ...]:
        largest = int(numbers.max())
        if largest >= _GAPS_BELOW and largest > 64 * (found := np.count_nonzero(np.bincount(numbers))):
            raise InputError(
                f"{column} of {shown(self.name)} holds {largest}, and {found} numbers in all; number from 0 "
                "without gaps"
            )
        return tuple(map(str, range(1 + largest)))

    @property
    def _told_sizes(self) -> str:
        return f"{len(self._chosen)} words for {self.confined_to}"

    @property
    def _chosen(self) -> IntArray:
        return self._order[self.own_share(len(self._order))]

    @property
    def words(self) -> IntArray:
        """The words of this part, ``[words, longest]``, padded with 0."""
        needed = 32 * self._chosen.size * self.longest
        check_memory(f"a table of the words of {shown(self.name)}", needed, "draw batches of them")
        return self._cut(self._chosen, self.longest)[0]

    def _cut(self, rows: IntArray, length: int) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
        """Return words and answers, cut to a length and padded with 0, and which of them are no padding."""
        inside = np.arange(length) < self._lengths[rows, None]
        places = np.where(inside, self._begins[rows, None] + np.arange(length), 0)
        words, answers = (np.where(inside, numbers[places], 0) for numbers in (self._tokens, self._targets))
        return words.astype(np.int64), answers.astype(np.int64), inside

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw words; InputError if all are shorter than the length, or a start is given."""
        self.check_fresh(batch_size, length, rng, start)
        if length > self.longest:
            raise InputError(
                f"length is {length}, and the longest word of {shown(self.name)} has {self.longest} tokens; "
                f"give a length of at most {self.longest}"
            )
        drawn = rng.choice(self._chosen, batch_size)
        words, answers, asked = self._cut(drawn, length)
        return Batch(words, answers, asked.astype(np.float32), None if asked.all() else asked.sum(axis=1))

    @cached_property
    def word_problem(self) -> WordProblem:
        """The word problem whose states are the answers, read off all words of the files.

        InputError if the answers are not the states of an automaton, the words are too few to tell, or no
        answer can stand before the first token.
        """
        name, unknown, tokens, answers = shown(self.name), -1, self._tokens, self._targets
        # Where every token is read in every state, there are as many tokens as entries of the table.
        if (self.output_size + 1) * self.vocabulary_size > 2**24 + 64 * len(tokens):
            raise InputError(
                f"{name} has answers up to {self.output_size - 1}, tokens up to {self.vocabulary_size - 1}, "
                f"and {len(tokens)} tokens in all; number both from 0 without gaps"
            )
        before = np.r_[self.output_size, answers[:-1]]
        before[self._begins] = self.output_size  # a row more, for the beginning: the last one
        table = np.full((self.output_size + 1, self.vocabulary_size), unknown)
        table[before, tokens] = answers
        wrong = np.flatnonzero(table[before, tokens] != answers)
        if wrong.size:
            row, token = before[wrong[0]], tokens[wrong[0]]
            two = sorted({int(table[row, token]), int(answers[wrong[0]])})
            raise InputError(
                f"the answers of {name} are not the states of an automaton: {self._place(row)}, token "
                f"{token} leads to {two[0]} and to {two[1]}"
            )
        known = np.union1d(before, answers)
        gaps = np.argwhere(table[known] == unknown)
        if gaps.size:
            row, token = known[gaps[0][0]], gaps[0][1]
            raise InputError(
                f"no word of {name} reads token {token} {self._place(row)}, so its automaton is not "
                "known; give more words"
            )
        begins = np.flatnonzero((table[:-1] == table[-1]).all(axis=1))
        if not begins.size:
            raise InputError(
                f"no answer of {name} can stand before the first token: none leads on as the beginning "
                "does; give words of an automaton one of whose answers is that of the empty word"
            )
        never = np.arange(self.output_size)[:, None]
        return WordProblem(
            np.where(table[:-1] == unknown, never, table[:-1]),
            int(begins[0]),
            self.token_names,
            self.target_names,
            name=self.name,
            description=self.description,
        )

    def _place(self, row: int) -> str:
        return "at the beginning" if row == self.output_size else f"after answer {row}"

    def machine(self) -> MealyMachine | None:
        """Return the machine of `word_problem`; None where the words are those of none."""
        try:
            return self.word_problem.machine()
        except InputError:
            return None


@checked
def write_sequences(
    path: str | os.PathLike[str], task: Task, *, sequences: int, length: int, seed: int = 0
) -> Path:
    """Write random words of a task, with the answer after every token, as CSV; return the path.

    InputError if the task does not ask after every token, a number is below its least, or the file exists
    already or cannot be written.

    Example:
        >>> from automata import make_task
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     file = write_sequences(f"{folder}/s3.csv", make_task("S3"), sequences=1, length=3)
        ...     print(file.read_text().rstrip())
        seed,input,target
        0,5 3 3,5 2 1
    """
    rows = _random_rows(task, sequences, length, seed)
    first = next(rows)  # refused before the file is made
    try:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        with fresh_file(Path(path)) as file:
            file.write(f"{','.join(HEADER)}\n".encode())
            for row in chain([first], rows):
                cells = (" ".join(map(str, numbers)) for numbers in row)
                file.write(f"{seed},{','.join(cells)}\n".encode())
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror}); give the path of a new file"
        ) from error
    return Path(path)


@checked
def sequence_dataset(task: Task, *, sequences: int, length: int, seed: int = 0) -> Any:
    """Return random words of a task as a ``datasets.Dataset`` with lists ``input`` and ``target``.

    InputError as for `write_sequences`, or the package ``datasets`` is not installed.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> data = sequence_dataset(make_task("parity"), sequences=3, length=4)
        >>> data.column_names, len(data), len(data[0]["input"])
        (['seed', 'input', 'target'], 3, 4)
    """
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            f"package datasets cannot be imported ({error}); install it with pip install datasets, or write "
            "CSV with write_sequences, which it reads"
        ) from error
    words, answers = zip(*_random_rows(task, sequences, length, seed), strict=True)
    return datasets.Dataset.from_dict({"seed": [seed] * sequences, "input": words, "target": answers})


def _random_rows(task: Task, sequences: int, length: int, seed: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield words with their answers."""
    rng = np.random.default_rng(check_integer("seed", seed, 0))
    check_integer("sequences", sequences, 1)
    for begin in range(0, sequences, _AT_ONCE):
        batch = task.batch(min(_AT_ONCE, sequences - begin), length, rng)
        if not batch.counted.all():
            raise InputError(f"task {shown(task.name)} does not ask after every token; give one that does")
        yield from zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True)


def _rows(path: str | os.PathLike[str], content: bytes) -> Iterator[tuple[bytes, bytes, str]]:
    """Yield the words of a file with their answers, as bytes of numbers, and where they stand."""
    try:
        csv.field_size_limit(max(csv.field_size_limit(), len(content)))  # a long word is no fault
        reader = csv.reader(io.TextIOWrapper(io.BytesIO(content), "utf-8-sig", newline=""), strict=True)
        header = next(reader, [])
        if not {"input", "target"} <= set(header):
            raise InputError(f"file {path} has no columns input and target; give a first row that names them")
        if len(set(header)) < len(header):
            raise InputError(f"file {path} has two columns {shown(repeated(header))}; leave one of them out")
        for row in filter(None, reader):
            where = f"file {path}, line {reader.line_num}"
            if len(row) != len(header):
                raise InputError(
                    f"{where}: it has {len(row)} cells, and the first row has {len(header)}; give as many"
                )
            word, answers = (_numbers(where, name, row[header.index(name)]) for name in ("input", "target"))
            if len(word) != len(answers):
                raise InputError(
                    f"{where}: input has {len(word)} numbers and target {len(answers)}; "
                    "give an answer for each token"
                )
            yield word.tobytes(), answers.tobytes(), where
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"file {path} is no CSV in UTF-8 ({error}); convert it") from error


def _numbers(where: str, name: str, text: str) -> NDArray[np.int32]:
    listed = re.fullmatch(r" *\[ *(\d+(?:(?: *, *| +)\d+)*) *\] *", text)  # as datasets writes lists
    words = listed[1].replace(",", " ").split() if listed else text.split()
    if not words or not all(word.isascii() and word.isdigit() and len(word) <= 7 for word in words):
        raise InputError(f"{where}: {name} is not a row of numbers from 0 on; separate them by spaces")
    numbers = np.array(list(map(int, words)), _NUMBER)
    if numbers.max() >= LARGEST_NUMBER:
        raise InputError(f"{where}: {name} holds {numbers.max()}; give numbers below {LARGEST_NUMBER}")
    return numbers
