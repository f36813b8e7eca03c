"""Swapped balls against dictionaries and all puzzles; texts against fresh interpreters."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest

from automata.errors import InputError
from automata.phrases import END, PhraseTokenizer
from automata.programs import __main__ as command_module
from automata.programs import verification
from automata.programs.__main__ import command, main
from automata.programs.balls import BallPuzzle, Swapped, ball_tokenizer, sample_swaps
from automata.programs.grammar import Program, ProgramGrammar
from automata.programs.verification import (
    Verification,
    printed_by_python,
    puzzle_and_answer,
    source_and_output,
    verify_balls,
    verify_programs,
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


def test_swaps_are_uniform_over_ordered_pairs() -> None:
    pairs = sample_swaps(4, (300, 200), np.random.default_rng(0)).reshape(-1, 2)
    counts = Counter(map(tuple, pairs.tolist()))
    assert set(counts) == set(permutations(range(1, 5), 2))
    # a binomial of 60,000 draws with share 1/12: five deviations
    assert max(abs(count - 5000) for count in counts.values()) < 5 * np.sqrt(60_000 * 11 / 144)


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


TEXT = 'x = 3\nprint("Final x:", x)\nFinal x: 3\n'
PUZZLE = "swap ball 1 and 2, swap ball 2 and 3. Where does ball 2 end up? 3"


def test_wrong_outputs_are_found() -> None:
    rng = np.random.default_rng(0)
    texts = [ProgramGrammar(variables=2).sample(8, rng).text for _ in range(6)]
    wrong = [text[:-2] + str((int(text[-2]) + 1) % 10) + "\n" for text in texts[:3]]
    assert verify_programs([*texts, *wrong]) == Verification(9, tuple(wrong))


def test_wrong_answers_are_found() -> None:
    for swapped in READINGS:
        puzzle = BallPuzzle(4, ((1, 2), (2, 3), (4, 1)), 2, swapped)
        texts = [f"{puzzle.question}{answer}" for answer in range(1, 5)]
        wrong = tuple(text for text in texts if text != puzzle.text)
        assert len(wrong) == 3
        assert verify_balls(texts, 4) == Verification(4, wrong)


def test_a_puzzle_is_read_from_its_words() -> None:
    puzzle = BallPuzzle(12, ((10, 2), (12, 1)), 11, "place")
    assert puzzle_and_answer(puzzle.text, 12) == (puzzle, puzzle.answer)
    assert puzzle_and_answer("Where does ball 2 end up? 2", 3) == (BallPuzzle(3, (), 2), 2)


def test_the_interpreter_is_isolated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    source = "import sys\nprint(sys.flags.isolated, sys.flags.no_site, '/somewhere' in sys.path)"
    assert printed_by_python(source) == "1 1 False\n"


def test_the_command_shows_puzzles(capsys: pytest.CaptureFixture[str]) -> None:
    assert command([]) == 0
    program, puzzle = capsys.readouterr().out.split("\n\n")
    assert verify_programs([program + "\n"]) == Verification(1, ())
    assert verify_balls([puzzle.rstrip("\n")], 5) == Verification(1, ())


def test_the_command_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Program, "text", property(lambda program: program.source + "Final x: 10\n"))
    assert main(["--verify", "2"]) == command_module.WRONG
    out = capsys.readouterr().out
    assert "small programs of 1 to 20 statements: 2 run, 2 wrong\nthe first that is wrong:\nx = " in out
    assert "puzzles of 5 balls, 1 to 20 swaps: 2 run, 0 wrong" in out


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--verify", "-1"], "verify is -1; give at least 1"),
        (["--verify", "many"], "invalid int value: 'many'; --help"),
        (["--size", "0"], "size is 0"),
        (["--size", "100000000000000000000"], "size is 100000000000000000000; give at most 10000"),
        (["--seed", "-1"], "seed is -1"),
        (["--verfy", "1"], "unrecognized arguments: --verfy 1"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    argv: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = capsys.readouterr()
    assert (out, err[:7], err.count("\n")) == ("", "error: ", 1)
    assert words in err


def test_texts_longer_than_an_argument_of_a_command_are_run() -> None:
    """Linux takes no argument of 128 KiB or more."""
    source = "x = 1\n" + "x = (x + 1) % 10  # and so on\n" * 9_000 + 'print("Final x:", x)\n'
    assert len(source) > 2**17
    assert verify_programs([source + "Final x: 1\n", source + "Final x: 2\n"]).wrong == (
        source + "Final x: 2\n",
    )
    pairs = tuple((1 + step % 5, 1 + (step + 1) % 5) for step in range(6_000))
    puzzle = BallPuzzle(5, pairs, 1)
    assert len(puzzle.source) > 2**17
    assert verify_balls([puzzle.text], 5) == Verification(1, ())


def test_a_program_prints_whatever_letters_it_has() -> None:
    assert printed_by_python("print('é…')") == "é…\n"


def test_a_program_that_does_not_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verification, "_SECONDS", 0.5)
    with pytest.raises(InputError, match=r"source runs for more than 0\.5 seconds; give one that ends"):
        printed_by_python("while True: pass")


TABLE = PhraseTokenizer(["a", "ab", "b", " ", "\n", "1", "12"])


@pytest.mark.parametrize("text", ["", "a", "abab", "ba b\n12 1", "121"])
def test_a_text_is_its_tokens(text: str) -> None:
    assert TABLE.decode(TABLE.encode(text)) == text


test_bad_input_is_refused = refusals(
    (lambda: BallPuzzle(1, (), 1), "balls is 1; give a number in 2 … 99"),
    (lambda: BallPuzzle(3, (), 0), "asked is 0; give a number in 1 … 3"),
    (lambda: BallPuzzle(3, ((1, 1),), 1), r"swaps holds \(1, 1\)"),
    (lambda: BallPuzzle(3, ((1, 4),), 1), r"swaps holds \(1, 4\)"),
    (lambda: BallPuzzle(3, (), 1, "cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: ball_tokenizer(3, "cup"), "swapped 'cup' is unknown"),  # type: ignore[arg-type]
    (lambda: verify_programs(["x = 3\n"]), "holds no line that begins with 'Final '"),
    (lambda: source_and_output(""), "holds no line that begins"),
    (lambda: verify_programs(["while True: pass\n" + TEXT]), "source has While in line 1"),
    (lambda: verify_programs(["for i in range(99999):\n    x = i\n" + TEXT]), "more than 10000 lines"),
    (lambda: verify_programs(['print("Final x:", x)\nFinal x: 3\n']), "source fails .*not defined"),
    (lambda: verify_balls([PUZZLE], 2), r"swaps holds \(2, 3\); give pairs of different numbers in 1 … 2"),
    (lambda: verify_balls([PUZZLE[:-1]], 3), "is no puzzle"),
    (lambda: verify_balls(["swap cup 1 and 2. " + PUZZLE], 3), "at position 0, which is no puzzle"),
    (lambda: verify_balls([PUZZLE.replace("ball 1", "place 1")], 3), "no puzzle as it is written"),
    (lambda: verify_balls([PUZZLE.replace("2, swap", "2. swap")], 3), "no puzzle as it is written"),
    (lambda: PhraseTokenizer([]), "phrases is empty"),
    (lambda: PhraseTokenizer(["a", ""]), "phrases holds ''"),
    (lambda: PhraseTokenizer(["a", "b", "a"]), "phrases holds 'a'"),
    (lambda: PhraseTokenizer([END]), "phrases holds '<end>'"),
    (lambda: TABLE.encode("abc12"), "holds 'c12' at position 2"),
    (lambda: TABLE.decode([8]), r"token is 8; give one in 0 … 7"),
    (lambda: TABLE.decode([0.5]), "token is 0.5"),  # type: ignore[list-item]
)
