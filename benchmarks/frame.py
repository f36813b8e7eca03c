"""What a benchmark is: cases, each checked for correctness before any of its contenders is timed.

Contenders of a case take turns, so that whatever else the machine does meets them alike, and their ratio is
the median over the turns. Time is processor time of this process with one thread: what other programs take of
the core is not counted.
"""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Parameters = Mapping[str, str | int | float]


class IncorrectError(Exception):
    """The contenders of a case do not give the right answer: it reports no speed.

    Example:
        >>> raise IncorrectError("outputs differ by 0.1")
        Traceback (most recent call last):
        benchmarks.frame.IncorrectError: outputs differ by 0.1
    """


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a case.

    Attributes:
        name: in tables and results.
        work: does it once.
        counts: what is known about the work beside its time, such as the number of evaluations.
        share: the part of the case's work that it does, for work that is too slow as a whole and uniform; all
            of its times but the raw ones are divided by it.
    """

    name: str
    work: Callable[[], object]
    counts: Mapping[str, float] = field(default_factory=dict)
    share: float = 1.0


@dataclass(frozen=True)
class Case:
    """One line of questions to a benchmark: who does this work faster?

    Attributes:
        parameters: sizes and settings.
        check: raises `IncorrectError` unless every contender is right; called before the timing.
        contenders: the first one is what ratios are taken to.
        turns: how often each contender is timed, after one turn that is not counted.
        items: of the unit that one turn handles, for a rate; 0 for none.
        unit: of the items.

    Example:
        >>> case = Case({"n": 10}, lambda: None, (Contender("sum", lambda: sum(range(10))),), turns=3)
        >>> record = run_case(case)
        >>> record["correct"], len(record["contenders"]["sum"]["seconds"])
        (True, 3)
    """

    parameters: Parameters
    check: Callable[[], None]
    contenders: tuple[Contender, ...]
    turns: int = 10
    items: int = 0
    unit: str = "items"


@dataclass(frozen=True)
class Benchmark:
    """A question about speed with its cases.

    Attributes:
        name: of the module and the results.
        description: the question, in a line.
        cases: makes them; they are made when the benchmark is run.
    """

    name: str
    description: str
    cases: Callable[[], Iterable[Case]]


def run_case(case: Case, clock: Callable[[], float] = time.process_time) -> dict[str, Any]:
    """Check a case, then time its contenders in turns; a case that is not correct has no times.

    Args:
        case: what to run.
        clock: returns seconds.

    Returns:
        A record for JSON with all raw times.
    """
    record: dict[str, Any] = {"parameters": dict(case.parameters), "correct": True}
    try:
        case.check()
    except IncorrectError as fault:
        return {**record, "correct": False, "fault": str(fault)}
    seconds: dict[str, list[float]] = {contender.name: [] for contender in case.contenders}
    for turn in range(case.turns + 1):
        for contender in case.contenders:
            began = clock()
            contender.work()
            elapsed = clock() - began
            if turn > 0:
                seconds[contender.name].append(elapsed)
    whole = {
        contender.name: [elapsed / contender.share for elapsed in seconds[contender.name]]
        for contender in case.contenders
    }
    first = whole[case.contenders[0].name]
    record["contenders"] = {
        contender.name: {
            **_record(contender, whole[contender.name], first, case),
            "share": contender.share,
            "seconds": seconds[contender.name],
        }
        for contender in case.contenders
    }
    return record


def _record(contender: Contender, seconds: list[float], first: list[float], case: Case) -> dict[str, Any]:
    median = statistics.median(seconds)
    record: dict[str, Any] = {
        "median_seconds": median,
        "best_seconds": min(seconds),
        "ratio_to_first": statistics.median(mine / other for mine, other in zip(seconds, first, strict=True)),
        **contender.counts,
    }
    if case.items:
        record[f"{case.unit}_per_second"] = {"median": case.items / median, "best": case.items / min(seconds)}
    return record
