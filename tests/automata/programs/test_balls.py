"""Swapped balls: the answers against dictionaries of balls and places, and the word problem of S_n."""

import contextlib
import io
from collections import Counter
from itertools import permutations, product

import numpy as np
import pytest

from automata.programs.balls import (
    BallPuzzle,
    Swapped,
    ball_tokenizer,
    question_accuracy,
    sample_swaps,
)
from tests.refusals import refusals

READINGS: tuple[Swapped, ...] = ("ball", "place")
Swaps = tuple[tuple[int, int], ...]


def simulated(balls: int, swaps: Swaps, asked: int, swapped: Swapped) -> int:
    """Move balls between boxes, one swap after the other."""
    boxes = {place: place for place in range(1, balls + 1)}  # place: the ball in it
    for first, second in swaps:
        if swapped == "ball":  # look for the boxes that hold the two
            box_of = {ball: place for place, ball in boxes.items()}
            here, there = box_of[first], box_of[second]
        else:
            here, there = first, second
        boxes[here], boxes[there] = boxes[there], boxes[here]
    return next(place for place, ball in boxes.items() if ball == asked)


def drawn(rng: np.random.Generator, swapped: Swapped) -> BallPuzzle:
    balls = int(rng.integers(2, 9))
    swaps = sample_swaps(balls, (int(rng.integers(0, 30)),), rng).tolist()
    return BallPuzzle(balls, tuple(map(tuple, swaps)), int(rng.integers(1, balls + 1)), swapped)


@pytest.mark.parametrize("swapped", READINGS)
def test_answers_are_those_of_moving_the_balls(swapped: Swapped) -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        puzzle = drawn(rng, swapped)
        assert puzzle.answer == simulated(puzzle.balls, puzzle.swaps, puzzle.asked, swapped)


@pytest.mark.parametrize("swapped", READINGS)
def test_answers_are_what_python_prints(swapped: Swapped) -> None:
    rng = np.random.default_rng(1)
    for _ in range(60):
        puzzle, printed = drawn(rng, swapped), io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(puzzle.source, {})
        assert printed.getvalue() == f"{puzzle.answer}\n"


def test_the_puzzle_as_it_is_put_tells_the_readings_apart() -> None:
    swaps = ((1, 3), (3, 5), (4, 2))
    puzzle = BallPuzzle(5, swaps, 5)
    assert puzzle.question == (
        "swap ball 1 and 3, swap ball 3 and 5, swap ball 4 and 2. Where does ball 5 end up? "
    )
    # by hand: ball 3 goes to place 1, from where ball 5 drives it to place 5
    assert [BallPuzzle(5, swaps, ball).answer for ball in range(1, 6)] == [3, 4, 5, 2, 1]
    # by hand: place 3 holds ball 1 when it is swapped with place 5
    assert [BallPuzzle(5, swaps, ball, "place").answer for ball in range(1, 6)] == [5, 4, 1, 2, 3]
    assert BallPuzzle(5, swaps, 5, "place").text.startswith("swap place 1 and 3, ")


def test_swaps_are_uniform_over_ordered_pairs() -> None:
    pairs = sample_swaps(4, (300, 200), np.random.default_rng(0)).reshape(-1, 2)
    counts = Counter(map(tuple, pairs.tolist()))
    assert set(counts) == set(permutations(range(1, 5), 2))
    # a binomial of 60,000 draws with share 1/12: five deviations
    assert max(abs(count - 5000) for count in counts.values()) < 5 * np.sqrt(60_000 * 11 / 144)


@pytest.mark.parametrize("swapped", READINGS)
@pytest.mark.parametrize(("balls", "swaps"), [(2, 3), (3, 1), (3, 4), (4, 2), (5, 0), (5, 2)])
def test_what_the_question_alone_tells_is_that_of_all_puzzles(
    balls: int, swaps: int, swapped: Swapped
) -> None:
    pairs = [(i, j) for i in range(1, balls + 1) for j in range(i + 1, balls + 1)]
    right = 0
    for asked in range(1, balls + 1):
        answers = Counter(
            BallPuzzle(balls, word, asked, swapped).answer for word in product(pairs, repeat=swaps)
        )
        right += max(answers.values())
    # a ratio of whole numbers against a sum of powers in float64
    assert question_accuracy(balls, swaps) == pytest.approx(right / balls / len(pairs) ** swaps, abs=1e-14)


def test_text_and_tokens() -> None:
    rng = np.random.default_rng(4)
    for balls in (2, 9, 12, 99):
        tokenizer = ball_tokenizer(balls)
        assert len(tokenizer.names) == balls + 6
        for _ in range(20):
            swaps = tuple(map(tuple, sample_swaps(balls, (7,), rng).tolist()))
            text = BallPuzzle(balls, swaps, int(rng.integers(1, balls + 1))).text
            tokens = tokenizer.encode(text)
            assert tokenizer.decode(tokens) == text
            assert len(tokens) == 5 * 7 + 3


test_bad_input_is_refused = refusals(
    (lambda: BallPuzzle(1, (), 1), "balls is 1; give a number in 2 … 99"),
    (lambda: BallPuzzle(3, (), 0), "asked is 0; give a number in 1 … 3"),
    (lambda: BallPuzzle(3, ((1, 1),), 1), r"swaps holds \(1, 1\)"),
    (lambda: BallPuzzle(3, ((1, 4),), 1), r"swaps holds \(1, 4\)"),
    (lambda: BallPuzzle(3, (), 1, "cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: ball_tokenizer(3, "cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: question_accuracy(5, -1), "swaps is -1"),
)
