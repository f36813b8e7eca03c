"""The table that a run of a benchmark prints."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table

_NOT_COUNTS = {
    *("correct", "fault", "median_seconds", "best_seconds", "ratio_to_first"),
    *("peak_bytes", "allocator", "share", "seconds"),
}


def table(title: str, cases: list[dict[str, Any]]) -> Table:
    """Lay the cases of one run out for the terminal."""
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
    for column in ("median ms", "best ms", "time ratio", "peak MB", ""):
        shown.add_column(column, justify="right")
    for case in cases:
        own = {name: value for name, value in case["parameters"].items() if name not in common}
        label = _in_words(own or case["parameters"])
        if not case["correct"]:
            shown.add_row(label, f"[red]not correct, no speed: {case['fault']}[/red]")
            continue
        for name, record in case["contenders"].items():
            shown.add_row(label, name, *_figures(record), _remark(record))
            label = ""
    return shown


def _figures(record: Mapping[str, Any]) -> tuple[str, str, str, str]:
    if not record["correct"]:
        return ("-", "-", "-", "-")
    return (
        f"{1e3 * record['median_seconds']:.2f}",
        f"{1e3 * record['best_seconds']:.2f}",
        f"{record['ratio_to_first']:.2f}",
        "-" if record["peak_bytes"] is None else f"{1e-6 * record['peak_bytes']:.2f}",
    )


def _remark(record: Mapping[str, Any]) -> str:
    """What was wrong, rates and counts, in words."""
    parts = [] if record["correct"] else [f"[red]not correct, no speed: {record['fault']}[/red]"]
    if record.get("share", 1) != 1:
        parts.append(f"from {record['share']:.1%} of the work")
    for name, value in record.items():
        if name.endswith("_per_second"):
            parts.append(f"{value['median'] / 1e6:.1f} million {name.removesuffix('_per_second')} per second")
        elif name not in _NOT_COUNTS:
            parts.append(f"{value} {name.replace('_', ' ')}")
    return ", ".join(parts)


def _in_words(parameters: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in parameters.items())
