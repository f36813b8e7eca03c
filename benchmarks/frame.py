"""The frame of a benchmark: cases, each checked for correctness before any of its contenders is timed.

Contenders of a case take turns, so that whatever else the machine does meets them alike, and their ratio is
the median over the turns. Time is processor time of this process with one thread: what other programs take of
the core is not counted.

A case whose check fails reports no speed at all.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from implicit.runs.environment import Environment, describe_environment

Parameters = Mapping[str, str | int | float]


class IncorrectError(Exception):
    """The contenders of a case do not give the right answer: there is no speed to report."""


def require_close(what: str, result: Tensor, reference: Tensor, tolerance: float) -> None:
    """Refuse a result that differs from a reference by more than so much of its largest entry, or is NaN."""
    difference = ((result - reference).abs().max() / reference.abs().max()).item()
    if not difference <= tolerance:
        raise IncorrectError(f"{what} by {difference:.2g} of the largest entry")


@dataclass(frozen=True)
class Contender:
    name: str  # in tables and results
    work: Callable[[], object]  # does it once


@dataclass(frozen=True)
class Case:
    """One line of questions to a benchmark: who does this work faster?"""

    parameters: Parameters  # sizes and settings
    check: Callable[[], None]  # raises `IncorrectError` unless all are right; called before the timing
    contenders: tuple[Contender, ...]  # the first one is what ratios are taken to
    turns: int = 10  # how often each contender is timed, after one turn that is not counted


@dataclass(frozen=True)
class Headline:
    """One line of the summary: how many times as much ``more`` takes as ``less``, in the case that
    ``where`` singles out, turn by turn. ``aim`` says in words what the ratio should be.
    """

    question: str
    more: str
    less: str
    where: Parameters
    aim: str = ""


@dataclass(frozen=True)
class Benchmark:
    name: str  # of the module and the results
    description: str  # the question, in a line
    cases: Callable[[], Iterable[Case]]  # makes them; they are made when the benchmark is run
    checked: str = ""  # what has to hold before anything is timed, in a few words
    headlines: tuple[Headline, ...] = ()  # what the summary shows


def run_case(case: Case, clock: Callable[[], float] = time.process_time) -> dict[str, Any]:
    """Check a case and time its contenders in turns.

    Returned is a record for JSON with all raw times. A case that is not correct has a fault and no times.
    """
    record: dict[str, Any] = {"parameters": dict(case.parameters), "correct": True}
    try:
        case.check()
    except IncorrectError as fault:
        return {**record, "correct": False, "fault": str(fault)}
    seconds = _take_turns(case.contenders, case.turns, clock)
    first = seconds[case.contenders[0].name]
    record["contenders"] = {
        contender.name: _record(seconds[contender.name], first) for contender in case.contenders
    }
    return record


def _take_turns(
    contenders: tuple[Contender, ...], turns: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """The seconds of every turn; the first one, which fills caches, does not count."""
    seconds: dict[str, list[float]] = {contender.name: [] for contender in contenders}
    for turn in range(turns + 1):
        for contender in contenders:
            began = clock()
            contender.work()
            elapsed = clock() - began
            if turn > 0:
                seconds[contender.name].append(elapsed)
    return seconds


def _record(seconds: list[float], first: list[float]) -> dict[str, Any]:
    return {
        "median_seconds": statistics.median(seconds),
        "best_seconds": min(seconds),
        "ratio_to_first": statistics.median(mine / other for mine, other in zip(seconds, first, strict=True)),
        "seconds": seconds,
    }


def describe_machine() -> Environment:
    """Return the environment of a result with the processor and the number of cores."""
    return {**describe_environment(), "processor": processor(), "cores": os.cpu_count()}


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # only Linux has this file
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
