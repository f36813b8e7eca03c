"""The summary: the ratio turn by turn, what is wrong instead of a ratio, and nothing that is not stored."""

import dataclasses
from typing import Any

import pytest

from benchmarks.frame import Benchmark, Headline
from benchmarks.summary import summary

HEADLINE = Headline("Sum of eight", "loop", "numpy", {"n": 8})


def run(cases: list[dict[str, Any]], date: str = "2026-11-20", threads: int = 1) -> dict[str, Any]:
    machine = {"processor": "Abacus", "cores": 2, "threads": threads, "python": "3.11.7", "torch": "2.13.0"}
    return {"date": date, "environment": machine, "cases": cases}


def case(**contenders: dict[str, Any]) -> dict[str, Any]:
    return {"parameters": {"n": 8, "kind": "float"}, "correct": True, "contenders": contenders}


def timed(*seconds: float, share: float = 1, **counts: float) -> dict[str, Any]:
    return {"correct": True, "seconds": list(seconds), "share": share, **counts}


def lines(runs: list[dict[str, Any]], headline: Headline = HEADLINE) -> list[str]:
    benchmark = Benchmark("sums", "Adding up", list, "sums are equal", (headline,))
    return summary([benchmark], {"sums": {"runs": runs}}).splitlines()


def test_ratios_are_taken_turn_by_turn_and_every_run_is_shown() -> None:
    # The medians, 10 and 2, would give 5.
    first = run([case(loop=timed(1, 10, 100), numpy=timed(1, 5, 2))])
    second = run([case(loop=timed(6, 6, 6, share=0.5), numpy=timed(1, 1, 1))])
    assert lines([first, second])[-1].split(" | ")[1:4] == ["loop / numpy", "time", "2.00, 12.0"]


@pytest.mark.parametrize(
    ("loop", "numpy", "quantity", "per", "shown"),
    [
        (timed(1, peak_bytes=400), timed(1, peak_bytes=16), "peak_bytes", "", ["peak memory", "25"]),
        # 60 seconds for three and 10 for one: 20 and 10 of each.
        (timed(60, sweeps=3), timed(10, sweeps=1), "seconds", "sweeps", ["time / sweeps", "2.00"]),
    ],
)
def test_ratios_of_counts_and_of_times_of_what_is_counted(
    loop: dict[str, Any], numpy: dict[str, Any], quantity: str, per: str, shown: list[str]
) -> None:
    headline = dataclasses.replace(HEADLINE, quantity=quantity, per=per)
    assert lines([run([case(loop=loop, numpy=numpy)])], headline)[-1].split(" | ")[2:4] == shown


def test_what_is_wrong_has_no_ratio() -> None:
    rival = {"correct": False, "fault": "wrong on 3% of the tokens"}
    assert "| loop: wrong on 3% of the tokens |" in lines([run([case(loop=rival, numpy=timed(1))])])[-1]
    nothing = {"parameters": {"n": 8}, "correct": False, "fault": "sums differ"}
    assert "| no figure: sums differ |" in lines([run([nothing])])[-1]


def test_dates_and_machines_are_all_named() -> None:
    found = [case(loop=timed(1), numpy=timed(1))]
    assert lines([run(found), run(found)])[0] == (
        "Measured 2026-11-20 on Abacus, 2 cores, threads: 1, Python 3.11.7, torch 2.13.0."
    )
    differing = lines([run(found), run(found, "2026-11-22", threads=2)])[0]
    assert all(part in differing for part in ("2026-11-20 to 2026-11-22", "threads: 1", "threads: 2"))


def test_a_headline_without_a_case_is_a_fault() -> None:
    with pytest.raises(KeyError, match="no case with"):
        lines([run([])])
