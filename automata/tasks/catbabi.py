"""catbAbI: the stories of bAbI one after the other, of which the next word is predicted."""

import hashlib
import os
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from automata.babi import QUESTION, Story, StoryPart, read_stories
from automata.checks import check_integer, checked
from automata.data_files import data_file, stored_path
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.tasks.interface import Batch, Part, StoredTask, check_batch, starts

Asked = Literal["all", "answers"]
"""Which next words are in the loss: every one ("LM"), or the answers alone ("QM")."""

Beginning = Literal["story", "anywhere"]
"""Where a row that does not go on begins: with a story, or at any token."""

END_OF_STORY = "<eos>"
_FILES: dict[Part, StoryPart] = {"train": "train", "validation": "valid", "test": "test"}
_EPOCHS = 2**20
"""Orders of the stories that a row may begin with; together fewer places than int64 has."""


class CatBabi(StoredTask):
    """Stories of all tasks in a random order, each after the token ``<eos>``; the next token is asked.

    A row reads one order of all stories of its part after the other, so that none is drawn again before all
    were. In the published protocol the rows of a batch share one pool of stories; here every row has orders
    of its own. InputError if the files cannot be read, or are not those with the digest.

    Args:
        path: a folder with files ``qa1_train.txt`` and so on, or a ``.tar.gz`` of one; may begin with
            ``$IMPLICIT_SSM_DATA/``.
        predict: which next tokens are asked.
        begins: ``"story"`` where rows go on in the next batch, as published; ``"anywhere"`` where a model
            reads every batch from its initial state: pieces that mostly begin within a story.
        confined_to: the part whose stories are read.
        digest: the SHA-256 that the stories are expected to have.

    Source:
        Schlag et al. 2021, arXiv 2011.07831: catbAbI, its loss of all words and its loss of answers.
    """

    continues = True
    document_token = 0
    specified_as = "catbabi"
    specified_beside: tuple[str, ...] = ("predict", "begins", "sha256", "name", "description")

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        predict: Asked = "all",
        confined_to: Part = "train",
        *,
        begins: Beginning = "story",
        name: str = "catbabi",
        description: str | None = None,
        digest: str | None = None,
    ) -> None:
        self.path, self.predict, self.confined_to = data_file(path), predict, confined_to
        self.begins = begins
        if begins == "story":  # the default is not written down
            self.specified_beside = ("predict", "sha256", "name", "description")
        self._stored_path = stored_path(path)
        stories = {part: read_stories(self.path, file) for part, file in _FILES.items()}
        self.sha256 = _digest(stories)
        self.check_digest(f"catbabi {path}", digest)
        words = sorted({word for part in stories.values() for story in part for word in story.words})
        self.token_names = self.target_names = (END_OF_STORY, *words)
        numbers = {word: number for number, word in enumerate(self.token_names)}
        self._parts = {part: _numbered(found, numbers) for part, found in stories.items()}
        # as bytes, whose hash is computed once, since orders are looked up by them
        self._lengths = {part: np.diff(begins).tobytes() for part, (_, begins, _) in self._parts.items()}
        self._question = numbers[QUESTION]
        self.name = name
        asked = {"all": "every next word", "answers": "the answers"}[predict]
        self.description = description or f"{asked} of the stories of bAbI, one after the other"

    @property
    def _told_sizes(self) -> str:
        return f"{len(self.tasks)} stories for {self.confined_to}"

    @property
    def tasks(self) -> IntArray:
        """The task, 1 to 20, of every story of the part, ``[stories]``."""
        return self._parts[self.confined_to][2]

    @property
    def tokens(self) -> IntArray:
        """All stories of the part in the order of the files, each after ``<eos>``, ``[tokens]``."""
        return self._parts[self.confined_to][0]

    def start(self) -> int:
        """Return -1: a row begins in an order of its own."""
        return -1

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw rows of stories; ``start`` and ``end`` hold the number of the order and the place in it."""
        check_batch(batch_size, length, rng)
        size = len(self.tokens)
        before = starts(start, batch_size, -1, -1, _EPOCHS * size)
        orders = rng.integers(0, _EPOCHS // 2, batch_size) * size
        within = rng.integers(0, size, batch_size) if self.begins == "anywhere" else 0
        begin = np.where(before < 0, orders + within, before)
        rows = np.stack([self._row(place, length + 1) for place in begin.tolist()])
        tokens = rows[:, :-1].copy()
        asked = np.ones_like(tokens, bool) if self.predict == "all" else tokens == self._question
        return Batch(tokens, rows[:, 1:].copy(), asked.astype(np.float32), end=begin + length)

    def whole_part(self, order: int = 0) -> tuple[IntArray, IntArray, IntArray]:
        """Return all stories of the part once, in one of the 2**20 orders that rows have.

        It is the tokens, those after each (at the end ``<eos>``), the tasks of their stories, ``[tokens]``.
        """
        if check_integer("order", order, 0) >= _EPOCHS:
            raise InputError(f"order is {order}; give a number below {_EPOCHS}")
        stories, _ = self._in_order(order)
        _, begins, tasks = self._parts[self.confined_to]
        tokens = self._row(order * len(self.tokens), len(self.tokens))
        return tokens, np.append(tokens[1:], 0), np.repeat(tasks[stories], np.diff(begins)[stories])

    def _row(self, place: int, length: int) -> IntArray:
        """The tokens from a place on, across orders."""
        tokens, begins, _ = self._parts[self.confined_to]
        pieces, missing = [], length
        while missing:
            epoch, offset = divmod(place, len(tokens))
            order, ends = self._in_order(epoch)
            first, last = np.searchsorted(ends, offset, "right"), np.searchsorted(ends, offset + missing)
            stories = order[first : last + 1].tolist()
            joined = np.concatenate([tokens[begins[story] : begins[story + 1]] for story in stories])
            before = ends[first - 1] if first else 0
            pieces.append(joined[offset - before :][:missing])
            place, missing = place + len(pieces[-1]), missing - len(pieces[-1])
        return np.concatenate(pieces)

    def _in_order(self, epoch: int) -> tuple[IntArray, IntArray]:
        """The stories of the part in one order, and where each ends in it."""
        return _order(self._lengths[self.confined_to], list(_FILES).index(self.confined_to), epoch)


@lru_cache(maxsize=256)
def _order(of_stories: bytes, part: int, epoch: int) -> tuple[IntArray, IntArray]:
    """One order of stories of these lengths, and where each ends in it: a function of its number alone."""
    lengths = np.frombuffer(of_stories, dtype=np.int64)
    generator = np.random.default_rng(np.random.SeedSequence(0, spawn_key=(part, epoch)))
    order = generator.permutation(len(lengths))
    return order, np.cumsum(lengths[order])


def _numbered(stories: list[Story], numbers: dict[str, int]) -> tuple[IntArray, IntArray, IntArray]:
    """All stories as one row of tokens, where each begins and the last ends, and their tasks."""
    rows = [[0, *(numbers[word] for word in story.words)] for story in stories]
    begins = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    tokens = np.array([token for row in rows for token in row], dtype=np.int64)
    return tokens, begins.astype(np.int64), np.array([story.task for story in stories], dtype=np.int64)


def _digest(stories: dict[Part, list[Story]]) -> str:
    found = hashlib.sha256()
    for part in _FILES:
        for story in stories[part]:
            found.update(f"{part} {story.task} {' '.join(story.words)}\n".encode())
    return found.hexdigest()
