"""Text files: the parts do not overlap, and pieces are what stands in the file."""

from pathlib import Path

import numpy as np
import pytest

from automata.errors import InputError
from automata.tasks.interface import Part
from automata.tasks.specification import task_from
from automata.tasks.text_file import TextFile

PARTS: tuple[Part, ...] = ("train", "validation", "test")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A text whose characters tell where they stand: each occurs once."""
    file = tmp_path / "numbers.txt"
    file.write_text("".join(map(chr, range(0x4E00, 0x4E00 + 1003))), encoding="utf-8")
    return file


def test_the_parts_do_not_overlap_and_are_the_whole(path: Path) -> None:
    text = TextFile(path, "characters")
    drawn = {}
    for part in PARTS:
        one = text.part(part)
        batches = [one.batch(64, 20, np.random.default_rng(seed)) for seed in range(20)]
        # tokens and targets alike: nothing of a part is seen in another
        drawn[part] = {int(t) for b in batches for t in np.unique(np.concatenate([b.tokens, b.targets]))}
        assert drawn[part] == set(one.tokens.tolist())
    assert [len(drawn[part]) for part in PARTS] == [802, 101, 100]
    assert len(set.union(*drawn.values())) == 1003


def test_the_task_itself_is_its_training_part(path: Path) -> None:
    text = TextFile(path, "characters")
    assert text.part("train") is text
    again = text.part("test").part("train")
    np.testing.assert_array_equal(again.tokens, text.tokens)
    # a part is rebuilt from the specification of the whole
    rebuilt = task_from(text.part("test").specification())
    assert isinstance(rebuilt, TextFile)
    np.testing.assert_array_equal(rebuilt.part("test").tokens, text.part("test").tokens)


def test_targets_are_the_next_tokens_and_pieces_go_on(path: Path) -> None:
    text = TextFile(path, "characters").part("validation")
    first = text.batch(30, 40, np.random.default_rng(0))
    second = text.batch(30, 40, np.random.default_rng(1), start=first.end)
    size = len(text.tokens)
    offset = int(text.tokens[0])
    whole = np.concatenate([first.tokens, second.tokens], axis=1) - offset
    np.testing.assert_array_equal(np.diff(whole, axis=1) % size, 1)
    np.testing.assert_array_equal(first.targets[:, -1], second.tokens[:, 0])
    np.testing.assert_array_equal(first.targets[:, :-1], first.tokens[:, 1:])


def test_bytes_and_characters(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes("é\nab".encode() * 50)
    as_bytes, as_characters = (TextFile(tmp_path / "t", unit) for unit in ("bytes", "characters"))
    assert as_bytes.vocabulary_size == 256
    assert as_bytes.token_names[ord("a")] == "a"
    assert as_characters.token_names == ("\n", "a", "b", "é")
    assert "".join(as_characters.token_names[t] for t in as_characters.tokens[:4]) == "é\nab"
    assert bytes(as_bytes.tokens[:5].tolist()) == "é\nab".encode()


def test_a_file_that_has_changed_is_refused(path: Path) -> None:
    specification = TextFile(path).specification()
    path.write_text("b" * 500)
    with pytest.raises(InputError, match="is not the one that the task was made from"):
        task_from(specification)


@pytest.mark.parametrize(
    ("content", "unit", "message"),
    [
        (b"a" * 99, "bytes", "has 99 bytes; give one of at least 100"),
        (b"\xff" * 500, "characters", "is not UTF-8"),
        (b"a" * 500, "words", "unit 'words' is unknown"),
    ],
)
def test_bad_input_is_refused(tmp_path: Path, content: bytes, unit: str, message: str) -> None:
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(InputError, match=message):
        TextFile(tmp_path / "text", unit)  # type: ignore[arg-type]


def test_a_folder_a_missing_file_and_a_part_too_short_are_refused(tmp_path: Path, path: Path) -> None:
    for none in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="cannot be read"):
            TextFile(none)
    with pytest.raises(InputError, match=r"length is 101, and the validation part .* at most 100"):
        TextFile(path, "characters").part("validation").batch(1, 101, np.random.default_rng(0))
