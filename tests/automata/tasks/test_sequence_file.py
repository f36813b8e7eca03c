"""Files as tasks: CSV that others write is read, and they read ours; texts are cut into parts and pieces."""

import csv
import errno
import hashlib
import tracemalloc
from collections.abc import Callable
from itertools import accumulate, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sympy.combinatorics.named_groups import AlternatingGroup

from automata.errors import InputError
from automata.tasks.__main__ import main
from automata.tasks.interface import Part
from automata.tasks.registry import make_task
from automata.tasks.sequence_file import SequenceFile, sequence_dataset, write_sequences
from automata.tasks.specification import task_from
from automata.tasks.text_file import TextFile
from automata.tasks.word_problem import WordProblem

HEAD = "seed,input,target\n"
PARTS: tuple[Part, ...] = ("train", "validation", "test")


def written_of(task: str, path: Path, sequences: int) -> Path:
    return write_sequences(path, task_from(task), sequences=sequences, length=4)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_what_is_written_are_the_products_that_sympy_finds(tmp_path: Path) -> None:
    """Elements are numbered in lexicographic order, as by the public generator: equal in its 33,600 rows."""
    file = tmp_path / "A5=7.csv"
    assert main(["A5", "--length", "7", "--sequences", "50", "--seed", "3", "--out", str(file)]) == 0
    elements = sorted(AlternatingGroup(5).elements, key=lambda element: element.array_form)
    numbers = {element: number for number, element in enumerate(elements)}
    rows = rows_of(file)
    assert len(rows) == 50
    for row in rows:
        word = [elements[int(number)] for number in row["input"].split()]
        products = accumulate(word, lambda before, token: token * before)  # SymPy multiplies left to right
        assert row["target"] == " ".join(str(numbers[product]) for product in products)
        assert row["seed"] == "3"


def test_a_word_longer_than_a_cell_of_csv_usually_is_read(tmp_path: Path) -> None:
    file = write_sequences(tmp_path / "long.csv", make_task("parity"), sequences=10, length=66_000)
    assert SequenceFile(file).longest == 66_000


def test_a_file_is_read_whole_and_its_parts_share_no_word(tmp_path: Path) -> None:
    file = write_sequences(tmp_path / "S3.csv", make_task("S3"), sequences=200, length=6)
    short = write_sequences(tmp_path / "short.csv", make_task("S3"), sequences=30, length=2)
    task = task_from({"csv": [str(file), str(short)]})
    assert isinstance(task, SequenceFile)
    written = {row["input"] for path in (file, short) for row in rows_of(path)}
    parts = {}
    for part in PARTS:
        one = task.part(part)
        batch = one.batch(2000, 6, np.random.default_rng(0))
        lengths = np.full(2000, 6) if batch.lengths is None else batch.lengths
        asked = np.arange(6) < lengths[:, None]
        np.testing.assert_array_equal(batch.counted, asked)
        right = make_task("S3").states(batch.tokens)
        np.testing.assert_array_equal(batch.targets[asked], right[asked])
        assert set(lengths.tolist()) <= {2, 6}
        drawn = zip(batch.tokens, lengths, strict=True)
        parts[part] = {" ".join(map(str, word[:length])) for word, length in drawn}
    assert not parts["train"] & parts["validation"]
    assert not (parts["train"] | parts["validation"]) & parts["test"]
    assert set.union(*parts.values()) == written


def test_a_run_folder_rebuilds_it_and_tells_another_file(tmp_path: Path) -> None:
    file = written_of("S3", tmp_path / "S3.csv", 40)
    stored = task_from(f"csv:{file}").specification()
    assert isinstance(stored, dict)
    assert stored["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
    again = task_from(stored)
    assert isinstance(again, SequenceFile)
    np.testing.assert_array_equal(again.words, SequenceFile(file).words)
    file.write_text(file.read_text().replace("\n0,", "\n1,"))
    with pytest.raises(InputError, match="is not the one that the task was made from"):
        task_from(stored)


def test_shorter_batches_are_beginnings(tmp_path: Path) -> None:
    file = written_of("S3", tmp_path / "S3.csv", 40)
    file.write_text(file.read_text().rstrip())  # a last line without a newline is read
    batch = SequenceFile(file).batch(50, 2, np.random.default_rng(0))
    assert batch.lengths is None
    words = {tuple(word[:2]) for part in PARTS for word in SequenceFile(file).part(part).words.tolist()}
    assert words == {tuple(map(int, row["input"].split()[:2])) for row in rows_of(file)}
    assert {tuple(word) for word in batch.tokens.tolist()} <= words


def test_hugging_face_reads_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    data = sequence_dataset(make_task("S3"), sequences=20, length=5, seed=1)
    file = write_sequences(tmp_path / "S3.csv", make_task("S3"), sequences=20, length=5, seed=1)
    loaded = datasets.load_dataset("csv", data_files=str(file), split="train", cache_dir=tmp_path)
    assert loaded["target"] == [" ".join(map(str, answers)) for answers in data["target"]]
    assert make_task("S3").states(data["input"]).tolist() == list(data["target"])
    data.to_csv(tmp_path / "lists.csv")
    read, written = SequenceFile(tmp_path / "lists.csv"), SequenceFile(file)
    assert np.array_equal(read.words, written.words, equal_nan=True)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("input\n1 2\n", "no columns input and target"),
        (HEAD + "0,1 2,1\n", "line 2: input has 2 numbers and target 1"),
        (HEAD + "0,1 x,1 2\n", "line 2: input is not a row of numbers"),
        (HEAD + "0,1 -2,1 2\n", "line 2: input is not a row of numbers"),
        (HEAD + '0,"[1,,2]","[1,2]"\n', "line 2: input is not a row of numbers"),
        (HEAD + "0,,\n", "line 2: input is not a row of numbers"),
        (HEAD + "0,1 2\n", "line 2: it has 2 cells, and the first row has 3"),
        (HEAD + "0,1 2,1 2,3\n", "line 2: it has 4 cells, and the first row has 3"),
        ("seed,input,target,target\n0,1,1,2\n", "two columns 'target'"),
        (HEAD + "0,1 2,1 0\n0,3,3\n1,1 2,1 1\n", "line 4: its answers are not those that .*, line 2 has"),
        (HEAD + "0,1 9999999,1 2\n", "holds 9999999; give numbers below 1048576"),
        (HEAD + '0,"1 2,1 2\n', "is no CSV in UTF-8"),
        (HEAD + "0,1 2,1 0\n" * 20, "has 1 words that differ; give at least 10"),
        (
            HEAD + "".join(f"0,1 {n},0 65536\n" for n in range(10)),
            "target of 'wrong' holds 65536, and 2 numb",
        ),
        ("", "no columns input and target"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str, sentence: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(content)
    with pytest.raises(InputError, match=sentence):
        SequenceFile(file)


def test_a_word_with_other_answers_in_another_file_is_refused(tmp_path: Path) -> None:
    for name, answer in (("one", 0), ("other", 1)):
        (tmp_path / name).write_text(HEAD + "".join(f"0,{word},{answer}\n" for word in range(12)))
    with pytest.raises(InputError, match=r"other, line 2: .* file .*one, line 2 has for the same word"):
        SequenceFile([tmp_path / "one", tmp_path / "other"])


def test_memory_is_that_of_the_tokens(tmp_path: Path) -> None:
    """Padded to the longest word, these would take 0.9 GiB; their tokens and answers take 0.5 MiB."""
    file = tmp_path / "long.csv"
    words = [" ".join("0" * 60_000), *map(str, range(1000))]
    file.write_text(HEAD + "".join(f"0,{word},{word}\n" for word in words))
    tracemalloc.start()
    SequenceFile(file).batch(32, 100, np.random.default_rng(0))
    assert tracemalloc.get_traced_memory()[1] < 32 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("fault", "code"), [(OSError(errno.ENOSPC, "No space left on device"), 2), (KeyboardInterrupt(), 130)]
)
def test_the_command_leaves_no_half_of_a_file(
    fault: BaseException, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault comes behind the first 1,024 words, and the same command works after it."""
    draw = WordProblem.batch

    def batch(task: WordProblem, batch_size: int, *given: Any) -> Any:
        if batch_size < 1024:
            raise fault
        return draw(task, batch_size, *given)

    given = ["S3", "--length", "3", "--sequences", "1100", "--out", str(tmp_path / "a.csv")]
    monkeypatch.setattr(WordProblem, "batch", batch)
    assert main(given) == code
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    assert main(given) == 0


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda path: SequenceFile([]), "csv holds no path"),
        (lambda path: SequenceFile(path / "none.csv"), "cannot be read"),
        (lambda path: task_from({"csv": 3}), "csv is 3; give a path or a list of paths"),
        (lambda path: written_of("S3", path / "a", 0), "sequences is 0"),
        (lambda path: written_of("noisy-parity-reveals", path / "a", 9), "does not ask after every token"),
        (lambda path: written_of("S3", path, 1), "cannot be written"),
    ],
)
def test_wrong_uses(tmp_path: Path, call: Callable[[Path], Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        call(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_length_that_no_word_has(tmp_path: Path) -> None:
    task = SequenceFile(written_of("S3", tmp_path / "a.csv", 40))
    with pytest.raises(InputError, match="length is 5, and the longest word of 'a' has 4 tokens"):
        task.batch(2, 5, np.random.default_rng(0))
    with pytest.raises(InputError, match="cannot go on in the next batch"):
        task.batch(2, 4, np.random.default_rng(0), start=[0, 0])


@pytest.mark.parametrize("name", ["S3", "Z60", "counter-5"])
def test_the_automaton_is_read_off_the_words(name: str, tmp_path: Path) -> None:
    """Also where the numbers of tokens are not those of elements, and where some state is seen rarely."""
    exact = make_task(name)
    task = SequenceFile(write_sequences(tmp_path / "a.csv", exact, sequences=3000, length=24))
    found = task.word_problem
    np.testing.assert_array_equal(found.table, exact.table)
    assert found.initial_state == exact.initial_state
    assert found.name == "a"
    assert (found.vocabulary_size, found.output_size) == (task.vocabulary_size, task.output_size)
    assert task.part("test").word_problem is found


def written(
    path: Path, answer: Callable[[tuple[int, ...]], int], words: list[tuple[int, ...]]
) -> SequenceFile:
    """Words with the answer to every beginning."""
    rows = ((word, [answer(word[: end + 1]) for end in range(len(word))]) for word in words)
    lines = [f"0,{' '.join(map(str, word))},{' '.join(map(str, answers))}\n" for word, answers in rows]
    path.write_text(HEAD + "".join(lines))
    return SequenceFile(path)


ALL = [word for length in (1, 2, 3, 4) for word in product((0, 1), repeat=length)]


@pytest.mark.parametrize(
    ("answer", "words", "sentence"),
    [
        (lambda word: int(sum(word) > len(word) / 2), ALL, "after answer 0, token 1 leads to 0 and to 1"),
        (sum, [word for word in ALL if len(word) < 4], "no word of 'a' reads token 0 after answer 3, so its"),
        (max, [word for word in ALL if word[0]], "no word of 'a' reads token 0 at the beginning, so its"),
        (lambda word: 1 - sum(word[1:]) % 2, ALL, "^no answer of 'a' can stand before the first token"),
    ],
)
def test_words_of_no_automaton_say_why(
    answer: Callable[[tuple[int, ...]], int], words: list[tuple[int, ...]], sentence: str, tmp_path: Path
) -> None:
    task = written(tmp_path / "a.csv", answer, words)
    with pytest.raises(InputError, match=sentence):
        _ = task.word_problem
    assert task.machine() is None


def test_an_automaton_of_which_hardly_anything_is_known_is_refused(tmp_path: Path) -> None:
    """Its table would have 2^32 entries, of which ten are known."""
    (tmp_path / "a.csv").write_text(HEAD + "".join(f"0,{2**16 - n},{2**16 - n}\n" for n in range(1, 11)))
    with pytest.raises(InputError, match="tokens up to 65535, and 10 tokens in all; number"):
        _ = SequenceFile(tmp_path / "a.csv").word_problem


def test_the_command_refuses(tmp_path: Path, refuses: Callable[[Any, list[str]], str]) -> None:
    given = ["S3", "--length", "3", "--sequences", "20", "--out", str(tmp_path / "a.csv")]
    assert main(given) == 0
    assert "a.csv cannot be written (File exists)" in refuses(lambda argv: main(argv), given)


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
