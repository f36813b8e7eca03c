"""Fresh texts that a run reads: models that follow them, say one word or err at a command."""

import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from automata.tasks.puzzles import SwappingBalls
from automata.tasks.registry import registered_task
from automata.tasks.repl_language import ReplLanguage
from implicit.config.recipes import recipe
from implicit.fixed_point import Stopping
from implicit.modes import Solve
from implicit.training.streams import Stream, draw_batch
from paper_figures.measurements.answers import (
    AnswerSettings,
    PuzzleSettings,
    RevealSettings,
    SpacingSettings,
    answers,
    commands_before,
    final_reveal,
    puzzle_accuracy,
    reveals_by_spacing,
    with_number,
)
from paper_figures.registry import figure_named
from tests.paper_figures.measurements.hand_made import Answer, Reader, Sayer, run_of, untrained_run
from tests.refusals import refusals

BALLS, PROGRAMS = "swap-balls-3", "small-programs"
SESSIONS = ("repl-3-values", "repl-5-values")
FIRST = 4
"""The commands of the shortest training sequences, and of each growth."""
FEW = RevealSettings(commands=(4, 8, 16, 32), sequences=6, batch_size=4)


def sessions(name: str) -> ReplLanguage:
    task = registered_task(name)
    assert isinstance(task, ReplLanguage)
    return task


def ends_up(text: str) -> str | None:
    """Follow all balls of a puzzle from its first swap to the last, and look at the one asked for."""
    if not text.endswith(" end up? "):
        return None
    place = {ball: ball for ball in "123"}
    for one, other in re.findall(r"swap ball (\d) and (\d)", text):
        place[one], place[other] = place[other], place[one]
    return place[text[text.index("Where does ball ") + len("Where does ball ")]]


def printed(text: str) -> str | None:
    """Run a small program, and say what the variable of the last line holds."""
    asked = re.search(r"Final (\w): $", text[-12:])
    if asked is None or 'print("Final z:", z)\n' not in text:
        return None
    names: dict[str, int] = {}
    exec(text[: text.index("print(")], {}, names)
    return str(names[asked[1]])


def executed(text: str) -> str | None:
    """Run the commands of a session in Python's own interpreter, and say what the variable holds."""
    asked = re.search(r">>> print\('(\w)', \1\)\n\1 $", text[-40:])
    if asked is None:
        return None
    names: dict[str, int] = {}
    exec("\n".join(re.findall(r">>> (\w[^(\n]*)\n", text)), {}, names)
    return str(names[asked[1]])


def wrong_at(*numbers: int) -> Answer:
    """The value that holds, and another one after so many swaps."""

    def answer(text: str) -> str | None:
        right = executed(text)
        if right is None or len(re.findall(r"\w, \w = ", text)) not in numbers:
            return right
        return str(int(right) % 3 + 1)

    return answer


@pytest.mark.parametrize("model", ["lstm", "implicit-mamba2"])
def test_answers_are_those_of_the_model_on_the_texts_of_the_seed_and_number(model: str) -> None:
    run, task = untrained_run(recipe(BALLS, model, d_model=8)), registered_task(BALLS)
    settings = AnswerSettings(sequences=5, batch_size=2, seed=7)
    found = list(answers(run, task, 40, settings, 3))
    assert [len(one.right) for one in found] == [2, 2, 1]
    for index, one in enumerate(found):
        batch = draw_batch(task, len(one.right), 40, 7, Stream.TEST, 3, index)
        length = 40 if batch.lengths is None else int(batch.lengths.max())
        assert torch.equal(one.batch.tokens, batch.tokens[:, :length])
        for row in range(len(one.right)):
            real = length if batch.lengths is None else int(batch.lengths[row])
            with torch.no_grad():
                solve = Solve("sequential", stopping=Stopping(rtol=1e-3, max_iterations=200))
                logits = run.model.run(batch.tokens[row : row + 1, :real], solve=solve).logits[0]
            assert torch.equal(one.right[row, :real], logits.argmax(-1) == batch.targets[row, :real])
        assert (one.share_converged is None) == (model == "lstm")
        assert not one.right.requires_grad


@pytest.mark.parametrize(("name", "answer"), [(BALLS, ends_up), (PROGRAMS, printed)])
def test_who_follows_the_text_of_a_puzzle_is_always_right(name: str, answer: Answer) -> None:
    task, settings = registered_task(name), PuzzleSettings(numbers=(1, 2, 8, 32), sequences=12, batch_size=8)
    found = puzzle_accuracy(run_of(Reader(task, answer), task), settings)
    assert found["accuracy"] == dict.fromkeys(settings.numbers, 1.0)


def test_who_says_always_the_same_is_at_chance_and_the_baseline_is_the_most_frequent_answer() -> None:
    task, settings, shares = registered_task(BALLS), PuzzleSettings(numbers=(16,), sequences=256), {}
    for said in "123":
        found = puzzle_accuracy(run_of(Sayer(task, said), task), settings)
        shares[said] = found["accuracy"][16]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)  # rounding
    assert found["baseline"][16] == max(shares.values())
    assert max(shares.values()) < 1 / 3 + 5 * math.sqrt(2 / 9 / 256)  # five deviations


@pytest.mark.parametrize("name", [BALLS, PROGRAMS])
def test_puzzles_have_the_number_and_are_the_same_for_all_models(name: str) -> None:
    settings = PuzzleSettings(numbers=(4,), sequences=16, batch_size=16)
    one, other = (Sayer(registered_task(name), said) for said in "12")
    for model in (one, other):
        puzzle_accuracy(run_of(model, registered_task(name)), settings)
    assert torch.equal(torch.cat(one.seen), torch.cat(other.seen))
    task = with_number(registered_task(name), 4)
    for row in torch.cat(one.seen):
        text = task.text(row.tolist())
        if isinstance(task, SwappingBalls):
            assert len(re.findall(r"swap ball [123] and [123]", text)) == 4
            assert re.search(r"end up\? [123]$", text)
        else:  # the first values, the prints, ``else:`` and what is printed are no statements
            lines = [line.strip() for line in text.splitlines()]
            assert sum(not line.startswith(("else", "print", "Final")) for line in lines if line) - 3 == 4
            assert text.count("Final x: ") == text.count("Final z: ") == 1


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions_hold_whole_reveals_and_grow_by_as_many_commands(name: str) -> None:
    task = sessions(name)
    points = figure_named("repl_traces").experiment.points
    for config in {str(p.config.flat()): p.config for p in points if p.config.task == name}.values():
        curriculum = config.curriculum
        assert curriculum.start_length is not None
        lengths = [*range(curriculum.start_length, config.length, curriculum.length_growth), config.length]
        assert len(lengths) == 16 // FIRST
        for number, length in enumerate(lengths, start=1):
            batch = draw_batch(task, 4, length, 0, Stream.TRAIN, 1)
            assert batch.lengths is None  # no padding
            for row in batch.tokens:
                text = task.tokenizer.decode(row.tolist())
                assert len(re.findall(r"\w, \w = ", text)) == FIRST * number
                assert text.count("print") == FIRST * number // task.form.reveal_every
                assert re.search(r"\n\w \d\n$", text)


@pytest.mark.parametrize("name", SESSIONS)
def test_who_runs_the_session_is_always_right(name: str) -> None:
    task = sessions(name)
    found = final_reveal(run_of(Reader(task, executed), task, 5, 7), FEW)
    assert found["accuracy"] == {n: 1.0 for n in FEW.commands if n % task.form.reveal_every == 0}
    assert (found["updates"], found["share_converged"]) == (7, None)


def test_the_accuracy_at_a_number_is_that_after_so_many_commands() -> None:
    task = sessions("repl-3-values-1")
    settings = RevealSettings(commands=(1, 2, 8, 9, 10), sequences=8)
    values = final_reveal(run_of(Reader(task, wrong_at(9)), task), settings)["accuracy"]
    assert values == {1: 1, 2: 1, 8: 1, 9: 0, 10: 1}


def test_all_models_and_the_three_tasks_of_one_spacing_are_asked_the_same_sessions() -> None:
    read = []
    for task in map(sessions, ("repl-3-values", "repl-3-values-random", "repl-3")):
        for model in (Sayer(task, "1"), Sayer(task, "2")):
            final_reveal(run_of(model, task), FEW)
            read.append(torch.cat(model.seen))
    assert all(torch.equal(read[0], other) for other in read[1:])
    assert len(read[0]) == len(torch.unique(read[0], dim=0)) == FEW.sequences


def test_an_implicit_model_tells_the_share_of_fixed_points() -> None:
    run = untrained_run(recipe("repl-3-values", "implicit-mamba2", d_model=4, head_size=4, d_state=2))
    settings = RevealSettings(commands=(4,), sequences=1, max_iterations=1, rtol=1e-6)
    assert final_reveal(run, settings)["share_converged"] == 0


def by_spacing(answer: Answer, **settings: Any) -> dict[str, Any]:
    task = sessions("repl-3-values-random")
    chosen = SpacingSettings(sequences=6, batch_size=4, **settings)
    tests: dict[str, Any] = reveals_by_spacing(run_of(Reader(task, answer), task), chosen)["tests"]
    return tests


def test_a_reader_of_the_text_is_right_in_every_test() -> None:
    tests = by_spacing(executed, commands=(4, 8, 16))
    for test in SpacingSettings().tests:
        assert {n: place["accuracy"] for n, place in tests[test].items()} == dict.fromkeys(tests[test], 1.0)
    assert list(tests["1"]) == list(tests["4"]) == ["4", "8", "16"]
    assert list(tests["8"]) == ["8", "16"]
    assert all(place["sessions"] == 6 for test in ("1", "4", "8") for place in tests[test].values())


def test_who_errs_after_eight_commands_is_wrong_where_the_last_reveal_is_there() -> None:
    tests = by_spacing(wrong_at(8), tests=("1", "4", "8"), commands=(4, 8, 10, 16))
    assert [tests["1"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 1, 1]
    assert [tests["4"][n]["accuracy"] for n in ("4", "8", "10", "16")] == [1, 0, 0, 1]
    assert [tests["8"][n]["accuracy"] for n in ("8", "10", "16")] == [0, 0, 1]


def test_at_random_sessions_without_a_reveal_so_soon_are_left_out() -> None:
    (tests,) = by_spacing(executed, tests=("random",), commands=(1, 64)).values()
    assert (tests["64"]["sessions"], 0 < tests["1"]["sessions"] < 6) == (6, True)


def test_numbers_of_commands_are_those_of_the_text() -> None:
    task = ReplLanguage(3, commands=9, reveal_every=2, predict="values", spacing="random")
    drawn = task.sessions(20, np.random.default_rng(0))
    batch = task.batch_of(drawn, task.longest_session)
    before = commands_before(task, batch.tokens, batch.counted)
    for row in range(20):
        swaps, numbers = 0, []
        for command in drawn.trace(row).commands:
            swaps += ", " in command and "print" not in command
            if "print" in command:
                numbers.append(swaps)
        assert before[row][before[row] > 0].tolist() == numbers


PARITY = untrained_run(recipe("parity", "lstm", d_model=4))
FULL = replace(PARITY, task=ReplLanguage(3, reveal="full", predict="values"))
EIGHT = replace(PARITY, task=registered_task("repl-3-values-8"))
test_a_run_on_another_task_is_refused = refusals(
    (lambda: puzzle_accuracy(PARITY, PuzzleSettings()), "give a run on swap-balls-3 or small-programs"),
    (lambda: final_reveal(PARITY, RevealSettings()), "Python sessions"),
    (lambda: final_reveal(FULL, RevealSettings()), "full reveals"),
    (lambda: final_reveal(EIGHT, RevealSettings(commands=(4,))), r"\(4,\) .* give multiples of 8"),
    (lambda: reveals_by_spacing(PARITY, SpacingSettings()), "Python sessions"),
    (lambda: reveals_by_spacing(FULL, SpacingSettings()), "reveal is 'full'"),
)
