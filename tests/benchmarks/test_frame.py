"""The frame of the benchmarks: correctness before speed, turns, ratios, files. Nothing here tests timing."""

import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from automata import WordProblem, make_task
from benchmarks import __main__ as command
from benchmarks import fixed_point_modes, mamba2_cell, ssd_scan, word_problem_throughput
from benchmarks.frame import Benchmark, Case, Contender, IncorrectError, run_case
from implicit import ImplicitMamba2, ImplicitMamba2Config
from implicit.fixed_point import Stopping
from implicit.model import SequenceSolution
from implicit.ops.ssd import BACKENDS, ssd_reference
from implicit.ops.ssd.backends import Backend

Refuses = Callable[[Callable[[Sequence[str] | None], None], list[str]], str]


def wrong() -> None:
    raise IncorrectError("two and two are five")


def case_of(log: list[str], check: Callable[[], None] = lambda: None) -> Case:
    return Case(
        {"n": 3},
        check,
        (
            Contender("slow", lambda: log.append("slow"), {"steps": 7}),
            Contender("fast", lambda: log.append("fast")),
        ),
        turns=3,
        items=12,
        unit="tokens",
    )


def test_an_incorrect_case_is_never_timed() -> None:
    log: list[str] = []
    record = run_case(case_of(log, wrong))
    assert record == {"parameters": {"n": 3}, "correct": False, "fault": "two and two are five"}
    assert log == []


def test_contenders_take_turns_and_the_first_turn_does_not_count() -> None:
    log: list[str] = []
    ticks = itertools.accumulate([0, 100, 0, 100, *([0, 4, 0, 1] * 3)])
    record = run_case(case_of(log), clock=lambda: next(ticks))
    assert log == ["slow", "fast"] * 4
    slow, fast = record["contenders"]["slow"], record["contenders"]["fast"]
    assert slow["seconds"] == [4, 4, 4]
    assert fast["seconds"] == [1, 1, 1]
    assert fast["ratio_to_first"] == 0.25
    assert slow["tokens_per_second"] == {"median": 3, "best": 3}
    assert slow["steps"] == 7


@pytest.fixture
def one_thread_again() -> Iterator[None]:
    """The command sets the number of threads for the process: put it back."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.mark.usefixtures("one_thread_again")
@pytest.mark.parametrize("correct", [True, False])
def test_the_command_writes_raw_numbers_and_tells_of_faults(
    correct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    case = case_of([]) if correct else case_of([], wrong)
    monkeypatch.setitem(command.BENCHMARKS, "sums", Benchmark("sums", "Adding up", lambda: [case]))
    if correct:
        command.main(["sums", "--out", str(tmp_path)])
    else:
        with pytest.raises(SystemExit) as ended:
            command.main(["sums", "--out", str(tmp_path)])
        assert ended.value.code == 1
    record = json.loads((tmp_path / "sums.json").read_text())
    assert record["benchmark"] == "sums"
    assert record["environment"]["threads"] == 1
    assert {"processor", "cores", "commit", "torch", "python"} <= set(record["environment"])
    printed = capsys.readouterr().out
    assert ("no speed" in printed) == (not correct)
    assert ("seconds" in json.dumps(record["cases"])) == correct


BAD_INPUT = {
    "unknown name": (["ssd_scn"], "benchmark 'ssd_scn' is unknown; did you mean 'ssd_scan'?"),
    "unknown flag": (["--outt", "x"], "flag --outt is unknown"),
}


@pytest.mark.parametrize(("argv", "sentence"), BAD_INPUT.values(), ids=BAD_INPUT)
def test_refuses_bad_input(argv: list[str], sentence: str, refuses: Refuses) -> None:
    assert sentence in refuses(command.main, argv)


def test_lists_every_benchmark(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--list"])
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    modules = [path.stem for path in Path(command.__file__).parent.glob("*.py")]
    # Scripts of their own: three need a GPU, one compiles for minutes.
    alone = {"gpu_sequential_solve", "gpu_ssd", "gpu_ssd_tiles", "triton_compilation"}
    assert sorted(listed) == sorted(set(modules) - {"__init__", "__main__", "frame"} - alone)


def test_stored_results_are_of_correct_cases() -> None:
    for name in command.BENCHMARKS:
        record = json.loads((command.RESULTS / f"{name}.json").read_text())
        assert record["benchmark"] == name
        assert record["cases"]
        for case in record["cases"]:
            assert case["correct"]
            assert all(len(contender["seconds"]) >= 3 for contender in case["contenders"].values())


def test_the_check_of_the_scan_notices_a_wrong_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ssd_scan.random_arguments(batch=1, length=5, heads=2, head_size=3, state_size=2)
    ssd_scan.check(arguments)

    def doubled(*scan: Any) -> tuple[Tensor, Tensor]:
        y, state = ssd_reference(*scan)
        return 2 * y, 2 * state

    monkeypatch.setitem(BACKENDS, "chunked", Backend(doubled, BACKENDS["chunked"].refusal))
    with pytest.raises(IncorrectError, match="outputs of the two backends differ"):
        ssd_scan.check(arguments)


def test_the_check_of_the_cell_notices_another_weight() -> None:
    cell, mixer, inputs = mamba2_cell.contenders(1, 5, d_model=8, expand=2, d_state=4, head_size=4)
    mamba2_cell.check(cell, mixer, inputs)
    with torch.no_grad():
        cell.D.add_(0.1)
    with pytest.raises(IncorrectError, match="outputs differs from that of transformers"):
        mamba2_cell.check(cell, mixer, inputs)


def test_the_check_of_the_word_problem_notices_a_wrong_label(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = make_task("parity")
    word_problem_throughput.check(problem)
    tokens, labels = problem.sample(64, 32, np.random.default_rng(0))
    labels[5, 7] = 1 - labels[5, 7]
    monkeypatch.setattr(WordProblem, "sample", lambda *arguments: (tokens, labels))
    with pytest.raises(IncorrectError, match="label of token 7 in sequence 5 is wrong"):
        word_problem_throughput.check(problem)


def test_the_check_of_the_modes_notices_wrong_answers_and_tokens_not_converged() -> None:
    torch.manual_seed(0)
    config = ImplicitMamba2Config(
        vocabulary_size=2, output_size=2, d_model=4, head_size=4, d_state=2, residual=False
    )
    model = ImplicitMamba2(config)
    # A self-map that depends little on z is a contraction.
    model.get_parameter("mixers.0.in_proj.weight").data.mul_(0.1)
    tokens = torch.tensor([[0, 1, 1]])
    solutions = {mode: fixed_point_modes.solve(model, tokens, mode) for mode in fixed_point_modes.MODES}
    answers = solutions["sequential"].logits.argmax(-1)
    fixed_point_modes.check(solutions, answers)
    with pytest.raises(IncorrectError, match=r"simultaneous: only 0.00% of the answers are right"):
        fixed_point_modes.check(solutions, 1 - answers)
    early = model.solve(tokens, stopping=Stopping(rtol=1e-3, max_iterations=1))
    with pytest.raises(IncorrectError, match=r"sequential: only 0.00% of the tokens converged"):
        fixed_point_modes.check({**solutions, "sequential": early}, answers)


def test_token_evaluations_count_what_is_solved_together() -> None:
    iterations = torch.tensor([[3, 9, 4], [5, 2, 8]])
    empty = torch.zeros(2, 3)
    solution = SequenceSolution(empty, iterations, empty, empty, empty, {}, iterations)
    assert fixed_point_modes.evaluations(solution, "simultaneous") == 9 * 6
    assert fixed_point_modes.evaluations(solution, "sequential") == 2 * (5 + 9 + 8)
