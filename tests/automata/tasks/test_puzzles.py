"""Puzzles as data: texts against dictionaries and what Python prints; how rows are cut and weighted."""

from collections import Counter

import numpy as np
import pytest

from automata.programs.balls import Swapped
from automata.programs.verification import puzzle_and_answer, source_and_output
from automata.tasks.interface import Ceiling
from automata.tasks.puzzles import SmallPrograms, SwappingBalls
from automata.tasks.specification import task_from
from tests.refusals import refusals


@pytest.mark.parametrize("swapped", ["ball", "place"])
def test_rows_are_texts_of_puzzles(swapped: Swapped) -> None:
    task = SwappingBalls(6, swapped=swapped, predict="all")
    batch = task.batch(300, 80, np.random.default_rng(1))
    assert batch.lengths is not None
    found = Counter[int]()
    for tokens, length in zip(batch.tokens, batch.lengths, strict=True):
        text = task.text(tokens)
        puzzle, answer = puzzle_and_answer(text, 6)
        assert puzzle.text == text  # the answer is right, and nothing else stands there
        assert puzzle.swapped == swapped
        assert answer == puzzle.answer
        assert length == task.tokens_of(len(puzzle.swaps)) == len(task.tokenizer.encode(text))
        found[len(puzzle.swaps)] += 1
    assert set(found) == set(range(1, 16))  # 5 · 15 + 2 = 77 tokens before the answer


def test_the_number_of_swaps_can_be_fixed() -> None:
    task = task_from({"balls": {"balls": 4, "swaps": 9}})
    assert isinstance(task, SwappingBalls)
    length = task.tokens_of(9) - 1
    assert length == 47
    batch = task.batch(50, length, np.random.default_rng(2))
    assert batch.lengths is None
    assert (batch.counted == (np.arange(length) == length - 1)).all()
    assert {task.text(tokens).count("swap ball") for tokens in batch.tokens} == {9}


def test_long_puzzles_are_cut_and_ask_nothing() -> None:
    """Whatever the length: what is shown is the beginning of a puzzle that goes on."""
    for length in range(1, 60):
        short = SwappingBalls(3, 11).batch(20, length, np.random.default_rng(3))
        words = [SwappingBalls(3).token_names[token] for token in short.tokens[0]]
        assert all(
            word == ["swap ball ", "", " and ", "", ", "][i % 5] or i % 5 in (1, 3)
            for i, word in enumerate(words[:54])
        )
        assert short.counted.any() == (length >= 57)
        assert (short.lengths is None) == (length <= 58)
    cut = SwappingBalls(3, 10**12, predict="all").batch(2, 20, np.random.default_rng(3))
    assert cut.counted.all()
    # a row that is too short for one swap is cut as well
    assert SwappingBalls(3).batch(2, 6, np.random.default_rng(0)).counted.sum() == 0
    assert SwappingBalls(3).batch(2, 7, np.random.default_rng(0)).counted.sum() == 2


def test_answers_are_equally_likely() -> None:
    task = SwappingBalls(5, 2)
    shares = task.target_shares(12)
    assert shares is not None
    assert [task.target_names[i] for i in np.flatnonzero(shares)] == list("12345")
    assert task.target_shares(12, last=1) is not None
    assert task.target_shares(13, last=1) is None
    assert task.target_shares(11) is None
    assert SwappingBalls(5, predict="all").target_shares(12) is None
    assert task.majority_baseline(12) == 0.2
    assert task.ceiling(12) == Ceiling(1.0, 0.0)


TASKS = {
    "default": SmallPrograms(),
    "ten statements": SmallPrograms(10),
    "two bits": SmallPrograms(variables=2, modulus=2),
    "deep": SmallPrograms(variables=6, modulus=7, iterations=9, depth=3),
    "reversible": SmallPrograms(reversible=True),
}


def values(output: str) -> list[str]:
    return [line.rsplit(" ", 1)[1] for line in output.splitlines()]


@pytest.mark.parametrize("name", TASKS)
def test_targets_are_the_printed_values(name: str) -> None:
    task = TASKS[name]
    batch = task.batch(40, 200, np.random.default_rng(0))
    for tokens, targets, counted in zip(batch.tokens, batch.targets, batch.counted, strict=True):
        _, output = source_and_output(task.text(tokens))
        assert [task.target_names[target] for target in targets[counted]] == values(output)
        assert len(values(output)) == task.grammar.variables


@pytest.mark.parametrize("name", TASKS)
def test_rows_are_texts_whatever_is_asked(name: str) -> None:
    given = TASKS[name].specification()
    assert isinstance(given, dict)
    task = task_from({**given, "program": {**given["program"], "predict": "all"}})
    assert isinstance(task, SmallPrograms)
    batch = task.batch(30, 220, np.random.default_rng(2))
    assert batch.lengths is not None
    for tokens, length in zip(batch.tokens, batch.lengths, strict=True):
        assert task.tokenizer.encode(task.text(tokens)) == tokens[:length].tolist()
    same = TASKS[name].batch(30, 220, np.random.default_rng(2))
    np.testing.assert_array_equal(same.tokens, batch.tokens)


def test_the_number_of_statements_can_be_fixed() -> None:
    task = task_from({"program": {"statements": 12, "variables": 2}})
    assert isinstance(task, SmallPrograms)
    batch = task.batch(100, task.tokens_of(12), np.random.default_rng(3))
    assert (batch.counted.sum(axis=1) == 2).all()
    for tokens in batch.tokens:
        source, _ = source_and_output(task.text(tokens))
        lines = [line for line in source.splitlines() if line.strip() != "else:"]
        assert len(lines) == 2 + 12 + 2


@pytest.mark.parametrize("length", [55, 56, 64, 128, 256])
def test_programs_fill_rows_of_every_length(length: int) -> None:
    """Ends are spread over the row, so that the last ten places ask something."""
    task = SmallPrograms()
    assert task.tokens_of(1) == 55
    batch = task.batch(1000, length, np.random.default_rng(4))
    assert (batch.counted.sum(axis=1) == 3).all()
    ends = length - 1 - batch.counted[:, ::-1].argmax(axis=1)
    assert length - 8 <= ends.max() <= length - 3
    assert (ends >= length - 10).mean() > 4 / length


def test_long_texts_are_cut() -> None:
    task = SmallPrograms(40)
    batch = task.batch(20, 100, np.random.default_rng(5))
    assert batch.lengths is None
    assert not batch.counted.any()
    values_between = SmallPrograms(1).batch(50, 50, np.random.default_rng(5)).counted.sum(axis=1)
    assert set(values_between) <= {0, 1, 2, 3}
    assert len(set(values_between)) > 1


def test_printed_values_of_reversible_programs_are_uniform() -> None:
    task = SmallPrograms(20, modulus=5, reversible=True)
    shares = task.target_shares(250)
    assert shares is not None
    assert [task.target_names[i] for i in np.flatnonzero(shares)] == list("01234")
    assert task.majority_baseline(250) == 0.2
    ceiling = task.ceiling(250)
    assert ceiling is not None
    assert ceiling.accuracy == 1
    for other in (SmallPrograms(20), SmallPrograms(20, reversible=True, predict="all")):
        assert other.target_shares(250) is None
    assert task.target_shares(250, last=10) is None
    assert task.target_shares(200) is None
    batch = task.batch(500, 250, np.random.default_rng(6))
    counts = np.bincount(batch.targets[batch.counted], minlength=task.output_size)[np.flatnonzero(shares)]
    # each value of a row is uniform and so are the three together: independent draws, five deviations
    assert abs(counts - 300).max() < 5 * np.sqrt(1500 * 0.2 * 0.8)


test_bad_input_is_refused = refusals(
    (lambda: SwappingBalls(swapped="cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: SwappingBalls(predict="reveals"), "predict 'reveals' is unknown"),  # type: ignore[arg-type]
    (lambda: task_from({"balls": [5]}), r"balls is \[5\]; give an object with balls, swaps"),
    (lambda: task_from({"balls": {"swap": 5}}), "field of balls 'swap' is unknown; did you mean 'swaps'"),
    (lambda: SmallPrograms(0), "statements is 0"),
    (lambda: SmallPrograms(predict="reveals"), "predict 'reveals' is unknown"),  # type: ignore[arg-type]
    (lambda: task_from({"program": 3}), "program is 3; give an object with statements, variables"),
    (lambda: task_from({"program": {"statement": 3}}), "field of program 'statement' is unknown"),
)
