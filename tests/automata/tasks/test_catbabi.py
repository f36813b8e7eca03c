"""bAbI's stories, and catbAbI as a task: none comes twice before all came, and batches go on."""

import tarfile
from collections import Counter
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from automata.babi import Counts, parse_stories, read_stories
from automata.babi.__main__ import main
from automata.errors import InputError
from automata.tasks.catbabi import CatBabi
from automata.tasks.interface import Part
from automata.tasks.specification import task_from

FILE = """\
1 Mary moved to the bathroom.
2 John went to the hallway.
3 Where is Mary? \tbathroom\t1
4 Daniel went back to the hallway.
5 What is Mary carrying?\tapple,football\t3 12
1 The bedroom is south of the hallway.
2 How do you go from the garden to the bedroom?\tn,n\t4 5
1 Julius is a Lion
2 Is Julius a lion?\tyes\t1
"""
WORDS = [
    "mary moved to the bathroom . john went to the hallway . where is mary ? bathroom daniel went back to "
    "the hallway . what is mary carrying ? apple,football",
    "the bedroom is south of the hallway . how do you go from the garden to the bedroom ? n,n",
    "julius is a lion is julius a lion ? yes",
]


def write(folder: Path, *names: str, text: str = FILE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def test_words_are_those_of_catbabi() -> None:
    stories = parse_stories(FILE.splitlines(), 8)
    assert [" ".join(story.words) for story in stories] == WORDS
    assert {story.task for story in stories} == {8}
    assert [[story.words[place] for place in story.answers] for story in stories] == [
        ["bathroom", "apple,football"],
        ["n,n"],
        ["yes"],
    ]


def test_a_folder_and_an_archive_hold_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path / "en" / "deep", "qa2_valid.txt", "qa10_valid.txt", "qa1_test.txt")
    (folder / "qa1_valid.txt~").write_text("no story", encoding="utf-8")
    with tarfile.open(tmp_path / "babi.tar.gz", "w:gz") as archive:
        archive.add(folder, "en")
    stories = read_stories(tmp_path / "en", "valid")
    assert [story.task for story in stories] == [2, 2, 10, 10]  # in order, less the last each
    assert read_stories(tmp_path / "babi.tar.gz", "valid") == stories
    assert [story.task for story in read_stories(folder, "valid", last_story=True)] == [2] * 3 + [10] * 3


def test_counts_are_those_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "qa1_train.txt", "qa5_train.txt", "qa1_valid.txt", "qa1_test.txt")
    words = [word for row in WORDS[:2] for word in row.split()]
    found = Counts.of(read_stories(folder, "train"))
    numbers = (found.stories, found.questions, found.tokens, found.words)
    assert numbers == (4, 2 * 3, 2 * (len(words) + 2), len(set(words)))
    assert main([str(folder)]) == 0
    _, train, *_ = capsys.readouterr().out.splitlines()
    assert train.split() == ["train", "2", *map(str, numbers)]


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (["Mary went."], "line 1 of the text begins with 'Mary'; give a number"),
        (["2 Mary went."], "line 1 of the text is number 2 of no story; begin with number 1"),
        (["1 A.", "2 Where?"], "line 2 of the text is a question without an answer of one word"),
        (["1 Where?\ta b\t1"], "line 1 of the text is a question without an answer of one word"),
        (["1 Where? Here.\ta\t1"], "line 1 of the text is a question without an answer of one word"),
    ],
)
def test_a_bad_line_is_told(lines: list[str], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_stories(lines, 1)


def test_bad_folders_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError, match=r"holds no file such as qa1_train\.txt"):
        read_stories(tmp_path, "train")
    with pytest.raises(InputError, match="part 'validation' is unknown"):
        read_stories(tmp_path, "validation")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"missing.* cannot be read .*; give a folder or a \.tar\.gz"):
        read_stories(tmp_path / "missing", "train")
    write(tmp_path / "a", "qa1_train.txt")
    write(tmp_path / "b", "qa1_train.txt")
    with pytest.raises(InputError, match=r"holds qa1_train\.txt twice"):
        read_stories(tmp_path, "train")
    (tmp_path / "a" / "qa1_train.txt").write_bytes(b"1 \xff\n")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_stories(tmp_path / "a", "train")
    assert main([str(tmp_path / "missing")]) == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_folder_of_everything_is_not_walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path / "en", "qa1_test.txt", "notes", "more")
    monkeypatch.setattr("automata.babi.stories.MOST_ENTRIES", 2)
    with pytest.raises(InputError, match=r"en holds more than 2 files; give the folder of bAbI's"):
        read_stories(folder, "test")


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ([("x" * 2**15, {})], "unpacks to more than"),  # a name is a header, which is read whole
        ([("qa1_train.txt", {"size": 2**15})], "unpacks to more than"),
        ([("x", {}), ("y", {}), ("z", {})], "holds more than 2 files"),
        ([("qa1_train.txt", {"type": tarfile.SYMTYPE, "linkname": "qa1_train.txt"})], "cannot be read"),
        ([("qa1_train.txt", {"type": tarfile.LNKTYPE, "linkname": "missing"})], "cannot be read"),
    ],
)
@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_archives_of_strangers_are_bounded(
    members: list[tuple[str, dict[str, Any]]],
    sentence: str,
    mode: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("automata.babi.stories.LARGEST_TEXT", 2**14)  # tar fills up to 10240
    monkeypatch.setattr("automata.babi.stories.MOST_ENTRIES", 2)
    path = tmp_path / "babi.tar"
    with tarfile.open(path, mode) as archive:
        for name, fields in members:
            member = tarfile.TarInfo(name)
            for field, value in fields.items():
                setattr(member, field, value)
            archive.addfile(member, BytesIO(bytes(member.size)))
    with pytest.raises(InputError, match=sentence):
        read_stories(path, "train")


def test_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(tmp_path, "qa1_train.txt", "qa2_train.txt")
    for bound, most in (("MOST_LINES", FILE.count("\n") + 2), ("LARGEST_TEXT", len(FILE) + 2)):
        with monkeypatch.context() as patch:
            patch.setattr(f"automata.babi.stories.{bound}", most)
            with pytest.raises(InputError, match="give one set of bAbI's files"):
                read_stories(folder, "train")
    with pytest.raises(InputError, match="line 1 of the text has more than 10000 letters"):
        parse_stories(["1 " + "ab " * 10**4], 1)


PARTS: tuple[Part, ...] = ("train", "validation", "test")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two tasks, whose stories tell their number, part and task."""
    for part in ("train", "valid", "test"):
        for task in (1, 12):
            stories = [
                f"1 Person{n} of {part} went to room{task}.\n2 Where is person{n}?\troom{n % 3},x\t1\n"
                + (f"3 Again person{n}.\n" if n % 2 else "")
                for n in range(9)
            ]
            (tmp_path / f"qa{task}_{part}.txt").write_text("".join(stories), encoding="utf-8")
    return tmp_path


def texts(task: CatBabi, tokens: Any) -> list[str]:
    """The stories of a row, the last perhaps cut."""
    row = " ".join(task.token_names[token] for token in tokens)
    return [story.strip() for story in row.split("<eos>")[1:]]


@pytest.mark.parametrize("part", PARTS)
def test_a_row_has_every_story_once_before_any_comes_again(folder: Path, part: Part) -> None:
    task = CatBabi(folder).part(part)
    size = len(task.tokens)
    batch = task.batch(3, 2 * size, np.random.default_rng(0))
    words = {"train": "train", "validation": "valid", "test": "test"}[part]
    stories = Counter(" ".join(story.words) for story in read_stories(folder, words))  # type: ignore[arg-type]
    orders = []
    for row in batch.tokens:
        first, second = texts(task, row[:size]), texts(task, row[size:])
        assert Counter(first) == Counter(second) == stories
        assert first != second
        orders.append(tuple(first))
    assert len(set(orders)) == 3


def test_targets_are_the_next_tokens_and_batches_go_on(folder: Path) -> None:
    task, rng = CatBabi(folder), np.random.default_rng(1)
    size = len(task.tokens)
    pieces, start = [], None
    for _ in range(2 * size // 7):
        batch = task.batch(4, 7, rng, start)
        np.testing.assert_array_equal(batch.targets[:, :-1], batch.tokens[:, 1:])
        pieces.append(batch)
        start = batch.end
    for one, other in pairwise(pieces):
        np.testing.assert_array_equal(one.targets[:, -1], other.tokens[:, 0])
    whole = np.concatenate([piece.tokens for piece in pieces], axis=1)
    assert pieces[0].end is not None
    again = task.batch(4, whole.shape[1], rng, pieces[0].end - 7)
    np.testing.assert_array_equal(again.tokens, whole)
    assert (whole[:, 0] == 0).all()


@pytest.mark.parametrize("part", PARTS)
def test_the_whole_part_is_one_order_with_the_tasks_of_its_stories(folder: Path, part: Part) -> None:
    task = CatBabi(folder).part(part)
    tokens, targets, tasks = task.whole_part(3)
    row = task.batch(1, len(task.tokens), np.random.default_rng(0), [3 * len(task.tokens)])
    np.testing.assert_array_equal(row.tokens[0], tokens)
    np.testing.assert_array_equal(row.targets[0], targets)
    rooms = {task.token_names.index(f"room{number}"): number for number in (1, 12)}
    for place in np.flatnonzero(tokens == 0):
        story = [token for token in tokens[place : place + 7].tolist() if token in rooms]
        assert rooms[story[0]] == tasks[place] == tasks[place + 5]
    assert (task.whole_part()[0] != tokens).any()
    with pytest.raises(InputError, match="order is 1048576; give a number below"):
        task.whole_part(2**20)


def test_rows_that_begin_anywhere_are_pieces_of_the_same_orders(folder: Path) -> None:
    task = task_from({"catbabi": str(folder), "begins": "anywhere"})
    assert isinstance(task, CatBabi)
    batch = task.batch(300, 9, np.random.default_rng(0))
    assert batch.end is not None
    places = (batch.end - 9) % len(task.tokens)
    assert len(set(places.tolist())) > 150
    again = CatBabi(folder).batch(300, 9, np.random.default_rng(1), batch.end - 9)
    np.testing.assert_array_equal(again.tokens, batch.tokens)
    assert task_from(task.specification()).specification() == task.specification()
    assert "begins" not in CatBabi(folder).specification()
    with pytest.raises(InputError, match="begins 'nowhere' is unknown"):
        task_from({"catbabi": str(folder), "begins": "nowhere"})


def test_only_answers_are_asked_or_everything(folder: Path) -> None:
    answers, everything = CatBabi(folder, "answers"), CatBabi(folder, "all")
    one, other = (task.batch(2, 100, np.random.default_rng(2)) for task in (answers, everything))
    np.testing.assert_array_equal(one.tokens, other.tokens)
    assert other.counted.all()
    asked = [answers.token_names[token] for token in one.tokens[one.counted]]
    assert set(asked) == {"?"}
    assert len(asked) == int((one.tokens == answers.token_names.index("?")).sum())
    told = {answers.token_names[target] for target in one.targets[one.counted]}
    assert told == {"room0,x", "room1,x", "room2,x"}


def test_the_alphabet_is_that_of_all_parts_and_rows_are_the_same_in_another_process(folder: Path) -> None:
    task = CatBabi(folder)
    assert task.token_names[0] == "<eos>"
    assert {"train", "valid", "test"} < set(task.token_names)
    assert sorted(set(task.tasks.tolist())) == [1, 12]
    rebuilt = task_from(task.specification())
    assert isinstance(rebuilt, CatBabi)
    assert rebuilt.specification() == task.specification()
    one, other = (given.batch(2, 50, np.random.default_rng(3)) for given in (task, rebuilt))
    np.testing.assert_array_equal(one.tokens, other.tokens)
    assert task_from(f"catbabi:{folder}").specification() == task.specification()


def test_changed_files_and_bad_names_are_refused(folder: Path) -> None:
    specification = CatBabi(folder).specification()
    write(folder, "qa1_test.txt")
    with pytest.raises(InputError, match="is not the one that the task was made from"):
        task_from(specification)
    with pytest.raises(InputError, match="predict 'questions' is unknown"):
        CatBabi(folder, "questions")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="confined_to 'valid' is unknown"):
        CatBabi(folder, "all", "valid")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="start holds"):
        CatBabi(folder).batch(1, 4, np.random.default_rng(0), [-2])
    (folder / "qa1_valid.txt").unlink()
    (folder / "qa12_valid.txt").unlink()
    with pytest.raises(InputError, match=r"holds no file such as qa1_valid\.txt"):
        CatBabi(folder)
