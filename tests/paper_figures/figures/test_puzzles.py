"""Swapped balls and small programs: what is measured, collected, drawn, judged and said of the runs."""

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from automata.programs.choices import Choices
from automata.programs.running import execute
from automata.tasks.registry import registered_task
from automata.tasks.small_programs import SmallPrograms
from automata.tasks.swapping_balls import SwappingBalls
from implicit.config.recipes import recipe
from implicit.runs.loading import Run
from paper_figures.figures import puzzles
from paper_figures.figures.figure import Results
from paper_figures.figures.puzzles import BALLS, PROGRAMS, SETTINGS, PuzzleSettings, measure, with_number
from tests.drawn_figures import WIDTHS, faults
from tests.paper_figures.figures.reading_models import Answer, Reader, always, ends_up, printed
from tests.paper_figures.figures.session_outcomes import answered, every, failed, points_of
from tests.paper_figures.figures.test_repl_traces import numbers

POINTS = puzzles.EXPERIMENT.points
LIFTED = points_of(POINTS, BALLS, "deltanet", negative_eigenvalues=True)
PLAIN = points_of(POINTS, BALLS, "deltanet", negative_eigenvalues=False)
LSTM = points_of(POINTS, BALLS, "lstm")
TRANSFORMER = points_of(POINTS, BALLS, "transformer")


def run_of(name: str, answer: Answer) -> tuple[Run, Reader]:
    task = registered_task(name)
    model = Reader(task, answer)
    return Run(Path("runs/by-hand"), recipe(name, "lstm", d_model=4), model, task, []), model


@pytest.mark.parametrize(("name", "answer"), [(BALLS, ends_up), (PROGRAMS, printed)])
def test_who_follows_the_text_is_always_right(name: str, answer: Answer) -> None:
    settings = PuzzleSettings(numbers=(1, 2, 8, 32), sequences=12, batch_size=8)
    found = measure(run_of(name, answer)[0], settings)
    assert found["accuracy"] == dict.fromkeys(settings.numbers, 1.0)


def test_who_says_always_the_same_is_at_chance_and_the_baseline_is_the_most_frequent_answer() -> None:
    settings = PuzzleSettings(numbers=(16,), sequences=256)
    shares = {}
    for said in "123":
        found = measure(run_of(BALLS, always(said))[0], settings)
        shares[said] = found["accuracy"][16]
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)  # rounding
    assert found["baseline"][16] == max(shares.values())
    assert max(shares.values()) < 1 / 3 + 5 * math.sqrt(2 / 9 / 256)  # five deviations


@pytest.mark.parametrize("name", [BALLS, PROGRAMS])
def test_texts_have_the_number_and_are_the_same_for_all_models(name: str) -> None:
    settings = PuzzleSettings(numbers=(4,), sequences=16, batch_size=16)
    read = []
    for said in "12":
        run, model = run_of(name, always(said))
        measure(run, settings)
        read.append(torch.cat(model.read))
    assert torch.equal(*read)
    task = with_number(registered_task(name), 4)
    for row in read[0]:
        text = task.text(row.tolist())
        if isinstance(task, SwappingBalls):
            assert len(re.findall(r"swap ball [123] and [123]", text)) == 4
            assert re.search(r"end up\? [123]$", text)
        else:
            assert statements(text) == 4
            assert text.count("Final x: ") == text.count("Final z: ") == 1


def statements(text: str) -> int:
    """The lines of a program but for the first values, the prints, ``else:`` and what it prints."""
    lines = [line.strip() for line in text.splitlines()]
    return sum(bool(line) and not line.startswith(("else", "print", "Final")) for line in lines) - 3


@pytest.mark.parametrize("name", [BALLS, PROGRAMS])
def test_another_number_is_the_same_puzzle_otherwise(name: str) -> None:
    task: Any = registered_task(name)
    other: Any = with_number(task, 5)
    one, five = (dict(next(iter(t.specification().values()))) if t is other else None for t in (task, other))
    assert one is None
    assert five is not None
    assert five.pop("swaps" if name == BALLS else "statements") == 5
    same = vars(task) if name == BALLS else {**vars(task), **vars(task.grammar)}
    assert all(same[field] == value for field, value in five.items())


def test_who_misses_a_swap_knows_nothing_of_the_answer() -> None:
    swaps = list(itertools.combinations("123", 2))
    for pairs in itertools.product(swaps, repeat=4):
        for missed, asked in itertools.product(range(4), "123"):
            ends = []
            for instead in swaps:
                words = [
                    f"swap ball {i} and {j}" for i, j in (*pairs[:missed], instead, *pairs[missed + 1 :])
                ]
                ends.append(ends_up(f"{', '.join(words)}. Where does ball {asked} end up? "))
            assert sorted(str(end) for end in ends) == ["1", "2", "3"]


def test_training_rows_of_balls_hold_the_swaps_that_are_said() -> None:
    config = LIFTED[0].config
    task = registered_task(BALLS)
    rows = task.batch(512, config.length, np.random.default_rng(0)).tokens
    found = [len(re.findall("swap ball ", task.text(row))) for row in rows]  # type: ignore[attr-defined]
    assert (min(found), max(found)) == (1, puzzles.TRAINED[BALLS])
    assert config.final_length() == config.length


def test_training_rows_of_programs_hold_eight_statements_and_one_in_five_has_more() -> None:
    task = registered_task(PROGRAMS)
    assert isinstance(task, SmallPrograms)
    (length,) = {point.config.length for point in POINTS if point.config.task == PROGRAMS}
    assert task.tokens_of(puzzles.TRAINED[PROGRAMS]) <= length < task.tokens_of(puzzles.TRAINED[PROGRAMS] + 1)
    rows = task.batch(2000, length, np.random.default_rng(0)).tokens
    found = np.array([statements(task.text(row)) for row in rows])
    share = (found > puzzles.TRAINED[PROGRAMS]).mean()
    assert share == pytest.approx(0.19, abs=5 * math.sqrt(0.19 * 0.81 / 2000))  # five deviations
    assert 12 <= found.max() <= 14


def test_most_values_of_long_programs_do_not_depend_on_the_beginning() -> None:
    task = registered_task(PROGRAMS)
    assert isinstance(task, SmallPrograms)
    rng = np.random.default_rng(0)
    programs, free = 150, 0
    for _ in range(programs):
        lines = task.grammar.tokenizer.decode(task.grammar.draw(64, Choices(rng))).splitlines()
        outputs = []
        for _ in range(16):
            first = [f"{name} = {rng.integers(10)}" for name in "xyz"]
            outputs.append(execute(compile("\n".join([*first, *lines[3:]]), "<program>", "exec")))
        free += sum(len(set(values)) == 1 for values in zip(*outputs, strict=True))
    # "some six in ten": values of one program hang together, so that programs are the independent units
    assert free / (3 * programs) == pytest.approx(0.6, abs=5 * math.sqrt(0.24 / programs) / 2)


def test_training_texts_are_the_same_for_every_model_of_a_seed() -> None:
    for task in (BALLS, PROGRAMS):
        configs = [point.config for point in POINTS if point.config.task == task and point.seed == 1]
        lengths = [[c.curriculum.phase(step, c.length).length for step in range(1, 601)] for c in configs]
        assert lengths == [lengths[0]] * len(configs)
        assert {(c.batch_size, c.steps) for c in configs} == {(32, 600)}


@pytest.fixture(scope="module")
def found() -> Results:
    """All runs, each with another accuracy; the first of them failed."""
    return puzzles.collect([failed(POINTS[0]), *every(POINTS, answered, 0.3, 0.96)[1:]])


def test_every_run_is_collected_once(found: Results) -> None:
    tasks = found["tasks"]
    assert {task: list(series) for task, series in tasks.items()} == {
        BALLS: ["DeltaNet [-1, 1]", "DeltaNet [0, 1]", "Transformer", "LSTM", "implicit Mamba-2"],
        PROGRAMS: ["DeltaNet [-1, 1]", "Transformer", "LSTM", "DeltaNet [0, 1]", "implicit Mamba-2"],
    }
    assert sum(len(one["seeds"]) for series in tasks.values() for one in series.values()) == len(POINTS) - 1
    assert tasks[BALLS]["DeltaNet [-1, 1]"]["failed"] == [0]


def of(**shares: Any) -> Results:
    kinds = {"lifted": LIFTED, "plain": PLAIN, "lstm": LSTM, "transformer": TRANSFORMER}
    return puzzles.collect(
        [
            failed(point) if share is None else answered(point, share)
            for kind, values in shares.items()
            for point, share in zip(kinds[kind], values, strict=False)
        ]
    )


GOOD, BAD, MIXED, CRASHED = (1.0, 1.0, 0.95), (0.5, 0.94, 0.3), (1.0, 0.94, 0.3), (1.0, 1.0, None)


@pytest.mark.parametrize(
    ("runs", "word"),
    [
        ({"lifted": GOOD, "lstm": BAD, "transformer": BAD}, "reproduced"),
        ({"lifted": BAD, "lstm": GOOD, "transformer": BAD}, "reproduced"),
        ({"lifted": MIXED, "lstm": MIXED, "transformer": BAD}, "partly"),
        ({"lifted": CRASHED, "lstm": BAD, "transformer": BAD}, "partly"),
        ({"lifted": GOOD, "lstm": GOOD, "transformer": MIXED}, "partly"),
        ({"lifted": GOOD, "lstm": GOOD}, "partly"),
        ({"lifted": GOOD, "transformer": (None, None, None)}, "partly"),
        ({"plain": GOOD, "lifted": BAD, "transformer": BAD}, "partly"),
        ({"lifted": BAD, "lstm": BAD, "transformer": BAD}, "not reproduced"),
        ({"lifted": BAD, "transformer": GOOD}, "not reproduced"),
        ({"lifted": (None, None, None), "transformer": BAD}, "not reproduced"),
        ({}, "not reproduced"),
    ],
)
def test_the_verdict_follows_its_rule(runs: Any, word: str) -> None:
    assert puzzles.judge(of(**runs)).word == word


def test_the_verdict_counts_failed_runs_and_looks_at_balls_alone() -> None:
    assert puzzles.judge(of(lifted=CRASHED, lstm=BAD)).because == (
        "runs with at least 0.95 after 64 swaps, 600 updates: DeltaNet [-1, 1] 2 of 3 (1.000 to 1.000), "
        "LSTM 0 of 3 (0.300 to 0.940)"
    )
    programs = points_of(POINTS, PROGRAMS, "lstm")
    assert puzzles.judge(puzzles.collect([answered(p, 1.0) for p in programs])).word == "not reproduced"


@pytest.mark.parametrize("width", WIDTHS)
def test_every_run_has_a_line_and_nothing_hides_the_data(found: Results, width: float) -> None:
    with styled():
        figure = puzzles.draw(found, width)
        assert faults(figure, width) == []
    for axes, task in zip(figure.axes, (BALLS, PROGRAMS), strict=True):
        thin = [np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_linewidth() == 0.6]
        runs = [run for one in found["tasks"][task].values() for run in one["seeds"].values()]
        assert thin == [list(run["accuracy"].values()) for run in runs]
        dashed = [line for line in axes.lines if line.get_color() == "#777777"][-1]
        assert set(np.asarray(dashed.get_xdata())) == {puzzles.TRAINED[task]}
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert sorted(names) == sorted([*found["tasks"][BALLS], "most frequent answer"])


def test_figures_are_drawn_where_no_run_ended_well() -> None:
    for outcomes in ([], [failed(point) for point in POINTS]):
        nothing = puzzles.collect(outcomes)
        with styled():
            assert faults(puzzles.draw(nothing, 3.3), 3.3) == []
        assert puzzles.caption(nothing)


def test_the_caption_has_the_numbers_of_the_configurations(found: Results) -> None:
    text = puzzles.caption(found)
    width, lstm = numbers(r"Width (\d+) \(LSTM: (\d+)\), two layers \(LSTM and implicit Mamba-2: one\)", text)
    updates, batch = numbers(r"([\d,]+) updates of (\d+) texts", text)
    rate, implicit = numbers(r"at a peak rate of ([\d.]+) \(implicit Mamba-2: ([\d.]+)\), w", text)
    balls = numbers(r"grow from (\d+) tokens by (\d+) every (\d+) updates to (\d+), those", text)
    (programs,) = numbers(r"those of programs have (\d+);", text)
    for config in (point.config for point in POINTS):
        assert config.sizes["d_model"] == (lstm if config.model == "lstm" else width)
        assert config.sizes["layers"] == (1 if config.model in ("lstm", "implicit-mamba2") else 2)
        assert (config.sizes.get("mlp_size", 0) > 0) == (config.model == "transformer")
        assert (config.steps, config.batch_size) == (updates, batch)
        assert config.optimizer.learning_rate == (implicit if config.model == "implicit-mamba2" else rate)
        curriculum = config.curriculum
        assert curriculum.growth_accuracy is None
        if config.task == BALLS:
            growing = (curriculum.start_length, curriculum.length_growth, curriculum.length_growth_every)
            assert (*growing, config.length) == balls
        else:
            assert (curriculum.start_length, config.length) == (None, programs)
    texts, seed = numbers(r"over (\d+) freshly drawn texts of each size, data seed (\d+)", text)
    assert (texts, seed) == (SETTINGS.sequences, SETTINGS.seed)
    assert numbers(r"in b the (\d+) statements", text) == (puzzles.TRAINED[PROGRAMS],)
    for task in (registered_task(BALLS), registered_task(PROGRAMS)):
        assert task.predict == "values"  # type: ignore[attr-defined]
    grammar = registered_task(PROGRAMS).grammar  # type: ignore[attr-defined]
    assert (grammar.variables, grammar.modulus) == (3, 10)


def test_the_caption_tells_the_runs_at_the_size_of_training(found: Results) -> None:
    text = puzzles.caption(found)
    assert "with 16 swaps DeltaNet [-1, 1] 0.970 to 0.970, " in text
    assert "; with 8 statements DeltaNet [-1, 1] 0.970 to 0.970, " in text
