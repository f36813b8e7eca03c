"""The stored results in a table, one line a question, and the table that a run of a benchmark prints."""

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table

from benchmarks.frame import Benchmark, Headline


def summary(benchmarks: Iterable[Benchmark], results: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [
        _where(run for result in results.values() for run in result["runs"]),
        "",
        "| question | ratio of times | every run | aim | checked first | measured |",
        "|---|---|---|---|---|---|",
    ]
    for benchmark in benchmarks:
        runs = results[benchmark.name]["runs"]
        for headline in benchmark.headlines:
            ratios = [_ratio(_case(run["cases"], headline), headline) for run in runs]
            cells = (
                headline.question,
                f"{headline.more} / {headline.less}",
                ", ".join(ratios),
                headline.aim,
                benchmark.checked,
                "; ".join(dict.fromkeys(f"{run['environment']['processor']}, {run['date']}" for run in runs)),
            )
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _where(runs: Iterable[Mapping[str, Any]]) -> str:
    """Date and machine; all that there are, if the runs differ."""
    runs = list(runs)
    dates = sorted({run["date"] for run in runs})
    machines = {
        "{processor}, {cores} cores, threads: {threads}, Python {python}, torch {torch}".format(
            **run["environment"]
        )
        for run in runs
    }
    date = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"Measured {date} on {'; '.join(sorted(machines))}."


def _case(cases: Iterable[Mapping[str, Any]], headline: Headline) -> Mapping[str, Any]:
    for case in cases:
        if all(case["parameters"].get(name) == value for name, value in headline.where.items()):
            return case
    raise KeyError(f"no case with {dict(headline.where)} is stored; run the benchmark again")


def _ratio(case: Mapping[str, Any], headline: Headline) -> str:
    """A number, or why there is none."""
    if not case["correct"]:
        return f"no figure: {case['fault']}"
    more, less = (case["contenders"][name] for name in (headline.more, headline.less))
    turns = zip(more["seconds"], less["seconds"], strict=True)
    return _short(statistics.median(a / b for a, b in turns))


def _short(ratio: float) -> str:
    return f"{ratio:.0f}" if ratio >= 20 else f"{ratio:.1f}" if ratio >= 3 else f"{ratio:.2f}"


def table(title: str, cases: list[dict[str, Any]]) -> Table:
    parameters = [case["parameters"] for case in cases]
    common = {
        name: value
        for name, value in parameters[0].items()
        if all(other.get(name) == value for other in parameters)
    }
    if len(parameters) > 1 and common:
        title += f" ({_in_words(common)})"
    shown = Table(title=title, title_justify="left")
    for column in ("case", "contender"):
        shown.add_column(column)
    for column in ("median ms", "best ms", "time ratio"):
        shown.add_column(column, justify="right")
    for case in cases:
        own = {name: value for name, value in case["parameters"].items() if name not in common}
        label = _in_words(own or case["parameters"])
        if not case["correct"]:
            shown.add_row(label, f"[red]not correct, no speed: {case['fault']}[/red]")
            continue
        for name, record in case["contenders"].items():
            shown.add_row(label, name, *_figures(record))
            label = ""
    return shown


def _figures(record: Mapping[str, Any]) -> tuple[str, str, str]:
    return (
        f"{1e3 * record['median_seconds']:.2f}",
        f"{1e3 * record['best_seconds']:.2f}",
        f"{record['ratio_to_first']:.2f}",
    )


def _in_words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
