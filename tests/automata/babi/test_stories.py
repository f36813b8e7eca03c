"""Stories of bAbI: the words of catbAbI, folders and archives, counts, and bad files."""

import tarfile
from pathlib import Path

import pytest

from automata.babi import Counts, parse_stories, read_stories
from automata.babi.__main__ import main
from automata.errors import InputError

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
    assert [story.task for story in stories] == [
        2,
        2,
        10,
        10,
    ]  # in the order of the numbers, less the last each
    assert read_stories(tmp_path / "babi.tar.gz", "valid") == stories
    assert [story.task for story in read_stories(folder, "valid", last_story=True)] == [2] * 3 + [10] * 3


def test_counts_are_those_of_the_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path, "qa1_train.txt", "qa5_train.txt", "qa1_valid.txt", "qa1_test.txt")
    words = [word for row in WORDS[:2] for word in row.split()]
    found = Counts.of(read_stories(folder, "train"))
    assert (found.stories, found.questions, found.tokens, found.words) == (
        4,
        2 * 3,
        2 * (len(words) + 2),
        len(set(words)),
    )
    assert main([str(folder)]) == 0
    head, train, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["part", "tasks", "stories", "questions", "tokens", "words"]
    numbers = (found.stories, found.questions, found.tokens, found.words)
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
