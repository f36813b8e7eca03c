"""Stories of bAbI as rows of words, in the form of catbAbI.

A file of bAbI has a line per sentence or question; numbers begin anew with every story. In catbAbI letters
are lower case, full stops and question marks are words of their own, an answer is one word even where it has
a comma, and the supporting facts are left out. A story with its questions and answers is one row of words.

Source: Weston et al. 2015, arXiv 1502.05698; catbAbI, Schlag et al. 2021, arXiv 2011.07831, whose preparation
leaves out the last story of every file.
"""

import bz2
import gzip
import lzma
import os
import re
import sys
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any, Literal, get_args

from automata.data_files import read_file
from automata.errors import InputError, unknown_name

StoryPart = Literal["train", "valid", "test"]
"""The names of files of bAbI."""

QUESTION = "?"
"""The word behind which an answer stands."""
MOST_ENTRIES = 10**4
"""Files and folders below that of bAbI, which has some hundreds: a path may be any, such as ``/``."""
LARGEST_TEXT = 2**26
"""Bytes of all files together, also of an archive as it is unpacked; the largest set has 33 million."""
MOST_LINES = 2 * 10**6
"""Lines of all files together; the largest set has a million."""
LONGEST_LINE = 10**4
_TOO_MUCH = f"more than {LARGEST_TEXT} bytes or {MOST_LINES} lines; give one set of bAbI's files"
_COMPRESSED: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ": lzma.open}
_FILE = re.compile(r"qa(\d{1,2})_(train|valid|test)\.txt")


TASK_NAMES = {
    1: "single supporting fact",
    2: "two supporting facts",
    3: "three supporting facts",
    4: "two argument relations",
    5: "three argument relations",
    6: "yes/no questions",
    7: "counting",
    8: "lists and sets",
    9: "simple negation",
    10: "indefinite knowledge",
    11: "basic coreference",
    12: "conjunction",
    13: "compound coreference",
    14: "time reasoning",
    15: "basic deduction",
    16: "basic induction",
    17: "positional reasoning",
    18: "size reasoning",
    19: "path finding",
    20: "agent's motivations",
}
"""By number. Source: Weston et al. 2015, arXiv 1502.05698, section 3."""


@dataclass(frozen=True)
class Story:
    """A story of task 1 to 20 with its questions and answers: words in lower case, in their order.

    Example:
        >>> story = Story(1, ("where", "is", "mary", "?", "bathroom"))
        >>> story.answers
        (4,)
    """

    task: int
    words: tuple[str, ...]

    @property
    def answers(self) -> tuple[int, ...]:
        """The places of the answers: a question mark is before each."""
        return tuple(place + 1 for place, word in enumerate(self.words) if word == QUESTION)


def parse_stories(lines: Iterable[str], task: int, name: str = "the text") -> list[Story]:
    r"""Read the stories of one file from its lines; its name is for errors.

    InputError if a line does not begin with a number or has more letters than ``LONGEST_LINE``, a story does
    not begin with 1, or a question has no answer of one word.

    Example:
        >>> lines = ["1 Mary went home.", "2 Where is Mary?\thome\t1", "1 How do you go?\tn,n\t4 5"]
        >>> [" ".join(story.words) for story in parse_stories(lines, 1)]
        ['mary went home . where is mary ? home', 'how do you go ? n,n']
    """
    stories: list[list[str]] = []
    for place, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if len(line) > LONGEST_LINE:
            raise InputError(f"line {place} of {name} has more than {LONGEST_LINE} letters; give a sentence")
        number, _, rest = line.strip("\r\n").partition(" ")
        if not number.isdecimal():
            raise InputError(f"line {place} of {name} begins with {number!r}; give a number and a sentence")
        if number == "1":
            stories.append([])
        if not stories:
            raise InputError(f"line {place} of {name} is number {number} of no story; begin with number 1")
        sentence, *fields = rest.split("\t")
        words = sentence.lower().replace(".", " . ").replace("?", " ? ").split()
        if QUESTION in words:
            answer = fields[0].strip().lower() if fields else ""
            if words[-1] != QUESTION or words.count(QUESTION) != 1 or len(answer.split()) != 1:
                raise InputError(
                    f"line {place} of {name} is a question without an answer of one word; give "
                    "'question?', a tab and the answer"
                )
            words.append(answer)
        stories[-1].extend(map(sys.intern, words))  # few words make up all stories
    return [Story(task, tuple(words)) for words in stories]


def read_stories(path: str | os.PathLike[str], part: StoryPart, *, last_story: bool = False) -> list[Story]:
    r"""Read the stories of a part, task by task.

    InputError if the path cannot be read, holds no file of the part, one that is not as it should be, or more
    than ``LARGEST_TEXT`` bytes or ``MOST_LINES`` lines.

    Args:
        path: a folder with files ``qa1_train.txt`` and so on, at any depth, or a ``.tar.gz`` of one.
        part: which files.
        last_story: whether the last story of every file is read; catbAbI leaves it out.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     _ = (Path(folder) / "qa1_test.txt").write_text("1 A b.\n2 C?\td\t1\n1 E?\tf\t1\n")
        ...     read_stories(folder, "test")
        [Story(task=1, words=('a', 'b', '.', 'c', '?', 'd'))]
    """
    if part not in get_args(StoryPart):
        raise unknown_name("part", str(part), get_args(StoryPart))
    files, size, lines = {}, 0, 0
    for name, text in _files(Path(path)):
        size, lines = size + len(text), lines + text.count("\n")
        if size > LARGEST_TEXT or lines > MOST_LINES:
            raise InputError(f"{path} holds {_TOO_MUCH}")
        found = _FILE.fullmatch(name.rpartition("/")[2])
        if found and found[2] == part:
            if int(found[1]) in files:
                raise InputError(f"{path} holds {found[0]} twice; give a folder with one set of files")
            files[int(found[1])] = name, text
    if not files:
        raise InputError(f"{path} holds no file such as qa1_{part}.txt; give the folder of bAbI's files")
    stories: list[Story] = []
    for task, (name, text) in sorted(files.items()):
        read = parse_stories(text.split("\n"), task, name)
        stories.extend(read if last_story else read[:-1])
    return stories


def _files(path: Path) -> Iterator[tuple[str, str]]:
    """The names and texts of a folder's or an archive's files of bAbI."""
    try:
        if path.is_dir():
            found = list(islice(path.rglob("*"), MOST_ENTRIES + 1))
            if len(found) > MOST_ENTRIES:
                raise InputError(f"{path} holds more than {MOST_ENTRIES} files; give the folder of bAbI's")
            for file in sorted(file for file in found if file.match("qa*.txt")):
                yield str(file), read_file(file, LARGEST_TEXT).decode("utf-8-sig")
            return
        with tarfile.open(fileobj=BytesIO(_unpacked(path)), mode="r:") as archive:
            for number, member in enumerate(archive):
                if number == MOST_ENTRIES:
                    raise InputError(
                        f"{path} holds more than {MOST_ENTRIES} files; give the folder of bAbI's"
                    )
                content = archive.extractfile(member) if _FILE.fullmatch(Path(member.name).name) else None
                if content is not None:
                    yield member.name, content.read(LARGEST_TEXT + 1).decode("utf-8-sig")
    except (
        OSError,
        EOFError,
        KeyError,
        RecursionError,
        tarfile.TarError,
        zlib.error,
        lzma.LZMAError,
    ) as error:
        raise InputError(f"{path} cannot be read ({error}); give a folder or a .tar.gz") from error
    except UnicodeDecodeError as error:
        raise InputError(f"a file of {path} is not UTF-8 ({error}); give the files of bAbI") from error


def _unpacked(path: Path) -> bytes:
    """The bytes of an archive, unpacked: its headers can be as large as its files."""
    content = read_file(path, LARGEST_TEXT)
    for magic, opened in _COMPRESSED.items():
        if content.startswith(magic):
            with opened(BytesIO(content)) as file:
                content = file.read(LARGEST_TEXT + 1)
            if len(content) > LARGEST_TEXT:
                raise InputError(f"{path} unpacks to {_TOO_MUCH}")
    return content


@dataclass(frozen=True)
class Counts:
    """How much there is in a part.

    Tokens are words, and one that ends each story; words are the different ones, without that.
    """

    stories: int
    questions: int
    tokens: int
    words: int

    @classmethod
    def of(cls, stories: Iterable[Story]) -> "Counts":
        """Count."""
        given = list(stories)
        return cls(
            len(given),
            sum(len(story.answers) for story in given),
            sum(len(story.words) + 1 for story in given),
            len({word for story in given for word in story.words}),
        )
