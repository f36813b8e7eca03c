"""Swapped balls as data: every row against dictionaries, and how rows are cut, padded and weighted."""

from collections import Counter

import numpy as np
import pytest

from automata.programs.balls import Swapped, question_accuracy
from automata.programs.verification import puzzle_and_answer
from automata.tasks.audit import shortcut_audit
from automata.tasks.specification import task_from
from automata.tasks.swapping_balls import SwappingBalls
from tests.refusals import refusals


@pytest.mark.parametrize("swapped", ["ball", "place"])
def test_rows_are_texts_of_puzzles(swapped: Swapped) -> None:
    task = SwappingBalls(6, swapped=swapped, predict="all")
    batch = task.batch(300, 80, np.random.default_rng(1))
    assert batch.lengths is not None
    found = Counter[int]()
    np.testing.assert_array_equal(batch.counted, np.arange(80) < batch.lengths[:, None])
    for tokens, targets, length in zip(batch.tokens, batch.targets, batch.lengths, strict=True):
        text = task.text(tokens)
        puzzle, answer = puzzle_and_answer(text, 6)
        assert puzzle.text == text  # the answer is right, and nothing else stands there
        assert puzzle.swapped == swapped
        assert answer == puzzle.answer
        assert length == task.tokens_of(len(puzzle.swaps)) == len(task.tokenizer.encode(text))
        np.testing.assert_array_equal(targets[: length - 1], tokens[1:length])
        assert targets[length - 1] == 0
        found[len(puzzle.swaps)] += 1
    assert set(found) == set(range(1, 16))  # 5 · 15 + 2 = 77 tokens before the answer


def test_the_number_of_swaps_can_be_fixed() -> None:
    task = task_from({"balls": {"balls": 4, "swaps": 9}})
    assert isinstance(task, SwappingBalls)
    length = task.tokens_of(9) - 1
    assert length == 47
    batch = task.batch(50, length, np.random.default_rng(2))
    assert batch.lengths is None
    assert batch.counted[:, -1].all()
    assert batch.counted.sum() == 50
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


@pytest.mark.parametrize("swaps", [1, 2, 4])
def test_the_audit_finds_what_the_question_alone_tells(swaps: int) -> None:
    """The last two tokens are the ball and the question; the closed form is the best on them."""
    task = SwappingBalls(5, swaps)
    audit = shortcut_audit(task, task.tokens_of(swaps) - 1, windows=[2], sequences=4000)
    (entry,) = audit.windows
    # the table makes the best of a sample of 4000, 800 for each question: never better than the best, a
    # deviation of which it was measured on; and with four swaps a table of small excess errs now and then
    assert abs(entry.accuracy - question_accuracy(5, swaps)) < 5 * entry.standard_error
    assert audit.ceiling is not None
    assert audit.ceiling.accuracy == 1.0
    assert audit.majority == 0.2


test_bad_input_is_refused = refusals(
    (lambda: SwappingBalls(swapped="cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: SwappingBalls(predict="reveals"), "predict 'reveals' is unknown"),  # type: ignore[arg-type]
    (lambda: task_from({"balls": [5]}), r"balls is \[5\]; give an object with balls, swaps"),
    (lambda: task_from({"balls": {"swap": 5}}), "field of balls 'swap' is unknown; did you mean 'swaps'"),
)
