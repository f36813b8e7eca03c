"""A text file as a task: predict the next byte or character."""

import hashlib
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_memory, checked, shown
from automata.data_files import data_file, read_file, stored_path
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.tasks.interface import Batch, Part, StoredTask, check_batch, starts

Unit = Literal["bytes", "characters"]
"""The kinds of a token."""

LARGEST_TEXT = 2**32
"""Bytes; a token takes eight in memory."""


class TextFile(StoredTask):
    """Contiguous pieces of a text, with the next token as the target of each.

    The text is divided in three, in the order of the file: the first 80% of its tokens for training, 10% for
    validation, 10% for test. The object gives pieces of its own part only (training unless asked otherwise)
    and ``part`` gives the others, so that no token of the test part is an input or a target in training.

    Every place of the part is as likely to be the beginning of a piece. A piece that reaches the end of the
    part goes on at its beginning. ``end`` and ``start`` hold places in the part.

    The file is read where it stands; a run folder holds its path and the SHA-256 of its bytes. InputError if
    the file cannot be read, is not UTF-8 where characters are asked for, has fewer than 100 tokens, or is not
    the one with the digest.

    Args:
        path: a file; may begin with ``$IMPLICIT_SSM_DATA/``.
        unit: bytes, with 256 tokens, or the characters of UTF-8, with those that occur in the file as tokens.
        confined_to: the part that pieces are taken from.
        digest: the SHA-256 that the file is expected to have.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "abc.txt").write_text("abc" * 100)
        ...     text = TextFile(Path(folder) / "abc.txt", unit="characters")
        >>> text.token_names, len(text.tokens), len(text.part("test").tokens)
        (('a', 'b', 'c'), 240, 30)
    """

    continues = True
    specified_as, specified_beside = "text", ("unit", "sha256", "name", "description")

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        unit: Unit = "bytes",
        confined_to: Part = "train",
        *,
        name: str | None = None,
        description: str | None = None,
        digest: str | None = None,
    ) -> None:
        self.path, self._stored_path = data_file(path), stored_path(path)
        try:
            content = read_file(self.path, LARGEST_TEXT, memory=9)
        except OSError as error:
            raise InputError(
                f"text file {path} cannot be read ({error.strerror or error}); give the path of a file"
            ) from error
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.check_digest(f"text file {path}", digest)
        numbers, names = _bytes(content) if unit == "bytes" else _characters(self.path, content)
        if len(numbers) < 100:
            raise InputError(f"text file {path} has {len(numbers)} {unit}; give one of at least 100")
        self.unit = unit
        self.token_names = self.target_names = names
        self.name = self.path.stem if name is None else name
        self.description = description or f"the next of the {unit} of {self.path.name}"
        self.confined_to = confined_to
        self._numbers = numbers

    @property
    def _told_sizes(self) -> str:
        return f"{len(self.tokens)} {self.unit} for {self.confined_to}"

    @property
    def tokens(self) -> IntArray:
        """The tokens of this part, one after the other."""
        return self._numbers[self.own_share(len(self._numbers))]

    def start(self) -> int:
        """Return -1: a piece begins anywhere."""
        return -1

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw pieces; InputError if the part is too short for one and the target after it."""
        check_batch(batch_size, length, rng)
        size = len(self.tokens)
        if length >= size:
            raise InputError(
                f"length is {length}, and the {self.confined_to} part of {shown(self.name)} has {size} "
                f"tokens; give a length of at most {size - 1}"
            )
        before = starts(start, batch_size, -1, -1, size)
        drawn = rng.integers(0, size, size=batch_size)
        begin = np.where(before < 0, drawn, before)
        places = (begin[:, None] + np.arange(length + 1)) % size
        pieces = self.tokens[places]
        return Batch(
            pieces[:, :-1].copy(),
            pieces[:, 1:].copy(),
            np.ones((batch_size, length), np.float32),
            end=places[:, -1].copy(),
        )

    def target_shares(self, length: int, last: int | None = None) -> NDArray[np.float64]:
        """Return the share of every token of the part, exactly: every place is as likely.

        Where a model is compared on the test part, ask the test part: ``task.part("test")``.
        """
        return np.bincount(self.tokens, minlength=self.output_size) / len(self.tokens)


def _bytes(content: bytes) -> tuple[IntArray, tuple[str, ...]]:
    r"""Return the bytes as tokens, named as in Python: 'a', '\n', '\xff'."""
    return np.frombuffer(content, np.uint8).astype(np.int64), tuple(
        repr(bytes([n]))[2:-1] for n in range(256)
    )


def _characters(path: Path, content: bytes) -> tuple[IntArray, tuple[str, ...]]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(
            f"text file {path} is not UTF-8 (byte {error.start}); convert it, or take bytes as tokens"
        ) from error
    check_memory(f"what {path} holds", 38 * len(text), "give a smaller file")  # sorting takes most of it
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    known, numbers = np.unique(codes, return_inverse=True)
    return numbers.astype(np.int64), tuple(map(chr, known.tolist()))
