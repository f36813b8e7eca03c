"""The frame of the benchmarks: correctness before speed, turns, ratios, files. Nothing here tests timing."""

import contextlib
import doctest
import functools
import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import __main__ as command
from benchmarks import imports
from benchmarks.frame import Benchmark, Case, Contender, Headline, IncorrectError, run_case
from benchmarks.summary import summary


def wrong() -> None:
    raise IncorrectError("two and two are five")


def case_of(log: list[str], check: Callable[[], None] = lambda: None) -> Case:
    return Case(
        {"n": 3},
        check,
        (Contender("slow", lambda: log.append("slow")), Contender("fast", lambda: log.append("fast"))),
        turns=3,
    )


def test_what_is_incorrect_is_never_timed() -> None:
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
    with contextlib.nullcontext() if correct else pytest.raises(SystemExit, match="1"):
        command.main(["sums", "--out", str(tmp_path)])
    record = json.loads((tmp_path / "sums.json").read_text())
    assert record["benchmark"] == "sums"
    (run,) = record["runs"]
    assert run["environment"]["threads"] == 1
    assert {"processor", "cores", "commit", "torch", "python"} <= set(run["environment"])
    printed = capsys.readouterr().out
    assert ("no speed" in printed) == (not correct)
    assert ("seconds" in json.dumps(run["cases"])) == correct


@pytest.mark.usefixtures("one_thread_again")
def test_runs_follow_one_another_and_are_stored_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[str] = []

    def cases(name: str) -> list[Case]:
        log.append(name)
        return [case_of([])]

    for name in ("one", "two"):
        monkeypatch.setitem(command.BENCHMARKS, name, Benchmark(name, name, functools.partial(cases, name)))
    # The environment tells whether the working copy has changes: results that are written are none of its.
    monkeypatch.setattr(command, "describe_machine", lambda: {"results": len([*tmp_path.iterdir()])})
    command.main(["one", "two", "--repeat", "2", "--out", str(tmp_path)])
    assert log == ["one", "two", "one", "two"]
    for name in ("one", "two"):
        runs = json.loads((tmp_path / f"{name}.json").read_text())["runs"]
        assert [run["environment"] for run in runs] == [{"results": 0}] * 2


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["cell"], "benchmark 'cell' is unknown; did you mean 'cells'?"),
        (["--repeat", "0"], "repeat is 0; give at least 1"),
        (["--summary", "--out", "nowhere"], "has no results in nowhere; run python -m benchmarks"),
        (["--outt", "x"], "flag --outt is unknown"),
    ],
)
def test_refuses_bad_input(argv: list[str], sentence: str, refuses: Callable[..., str]) -> None:
    assert sentence in refuses(command.main, argv)


def test_the_page_shows_the_stored_results(capsys: pytest.CaptureFixture[str]) -> None:
    command.main(["--summary"])
    page = (Path(command.__file__).parents[1] / "docs" / "benchmarks.md").read_text()
    section = re.search(r"<!-- python -m benchmarks --summary -->\n(.*?)\n<!-- end -->", page, re.DOTALL)
    assert section is not None
    assert section[1].strip() == capsys.readouterr().out.strip()


def test_examples() -> None:
    """Pytest does not collect the folder of the benchmarks, where scripts lie."""
    found = doctest.testmod(imports, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert found.failed == 0 < found.attempted


HEADLINE = Headline("Sum of eight", "loop", "numpy", {"n": 8})


def run(cases: list[dict[str, Any]], date: str = "2026-11-20", threads: int = 1) -> dict[str, Any]:
    machine = {"processor": "Abacus", "cores": 2, "threads": threads, "python": "3.11.7", "torch": "2.13.0"}
    return {"date": date, "environment": machine, "cases": cases}


def case(**contenders: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": {"n": 8, "kind": "float"}, "correct": True, "contenders": contenders}


def timed(*seconds: float) -> dict[str, Any]:
    return {"seconds": list(seconds)}


def lines(runs: list[dict[str, Any]]) -> list[str]:
    benchmark = Benchmark("sums", "Adding up", list, "sums are equal", (HEADLINE,))
    return summary([benchmark], {"sums": {"runs": runs}}).splitlines()


def test_ratios_are_taken_turn_by_turn_and_every_run_is_shown() -> None:
    # The medians, 10 and 2, would give 5.
    first = run([case(loop=timed(1, 10, 100), numpy=timed(1, 5, 2))])
    second = run([case(loop=timed(6, 6, 6), numpy=timed(1, 1, 1))])
    assert lines([first, second])[-1].split(" | ")[1:3] == ["loop / numpy", "2.00, 6.0"]


def test_what_is_wrong_has_no_ratio() -> None:
    nothing = {"parameters": {"n": 8}, "correct": False, "fault": "sums differ"}
    assert "| no figure: sums differ |" in lines([run([nothing])])[-1]


def test_a_headline_without_a_case_is_a_fault() -> None:
    with pytest.raises(KeyError, match="no case with"):
        lines([run([])])
