"""What `analysis.length_generalization` says in the terminal and in the report."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from analysis.framework.markdown import shown
from analysis.framework.report_section import Entry, ReportSection
from analysis.framework.terminal import number
from analysis.length_generalization.measurement import LengthAnalysis
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS


def tables(found: LengthAnalysis) -> list[Table | str]:
    """Return a table with a line for every run, for the terminal.

    Example:
        >>> import numpy as np
        >>> from analysis.framework.output import RunIdentity
        >>> from analysis.length_generalization.measurement import LengthSettings, RunAccuracy
        >>> identity = RunIdentity("mine", "parity", "lstm", 178, 32, 0, "0" * 64)
        >>> accuracy = RunAccuracy(identity, np.ones((8, 16), bool), None, {16: 0.5})
        >>> found = LengthAnalysis(LengthSettings(lengths=(16,), sequences=8), (accuracy,))
        >>> table = tables(found)[0]
        >>> [list(column.cells) for column in table.columns]
        [['mine', 'most frequent answer'], ['1.000 (0.676–1.000)', '0.5']]
    """
    table = Table(
        title=f"accuracy over the last {REPORTED_TOKENS} tokens, {found.settings.sequences} sequences, with "
        f"{found.settings.confidence:.0%} intervals",
        title_justify="left",
    )
    table.add_column("run")
    for length in found.settings.lengths:
        table.add_column(str(length), justify="right")
    for result in found.runs:
        cells = []
        for length in found.settings.lengths:
            low, high = result.interval(length, found.settings.confidence)
            cells.append(_cell(result.accuracy(length), low, high))
        table.add_row(result.run.name, *cells)
    for task, baselines in {result.run.task: result.baseline for result in found.runs}.items():
        several = len({result.run.task for result in found.runs}) > 1
        label = f"most frequent answer{f' of {task}' if several else ''}"
        table.add_row(label, *(number(baselines[length]) for length in found.settings.lengths))
    lines: list[Table | str] = [table]
    said = {run.run.name: _unconverged(run.share_converged or {}, found.settings.mode) for run in found.runs}
    return [*lines, *(f"{name}: {sentence}" for name, sentence in said.items() if sentence)]


def _unconverged(shares: Mapping[Any, float], mode: str) -> str:
    """What is said of tokens without a fixed point at the longest length; nothing if there are none."""
    longest = max(shares, key=int, default=None)
    if longest is None or shares[longest] == 1:
        return ""
    remedy = "raise max_iterations or loosen rtol"
    if mode == "simultaneous":
        remedy += ", or take the mode auto, which needs fewer iterations"
    return (
        f"{1 - shares[longest]:.2%} of the tokens up to length {longest} have no converged fixed point (mode "
        f"{mode}), and later ones rest on them: their answers do not count as the model's; {remedy}"
    )


def content(_run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``report.json`` holds of the numbers of a run.

    Example:
        >>> numbers = {"accuracy": {"32": 1.0}, "interval": {"32": [0.9, 1.0]}}
        >>> content(None, {**numbers, "majority_baseline": {"32": 0.5}})["majority_baseline"]
        {'32': 0.5}
    """
    return {
        "accuracy": result["accuracy"],
        "accuracy_interval": result["interval"],
        "majority_baseline": result["majority_baseline"],
        "accuracy_share_converged": result.get("share_converged"),
    }


def warnings(name: str, entry: Entry) -> list[str]:
    """Return a sentence if accuracies rest on tokens without a fixed point.

    Example:
        >>> warnings("mine", {"accuracy_share_converged": {"32": 1.0, "256": 0.75}})[0]
        "mine: 25.00% of the tokens up to length 256 have no converged fixed point (mode auto), and later ..."
        >>> warnings("mine", {"accuracy_share_converged": None})
        []
    """
    sentence = _unconverged(entry.get("accuracy_share_converged") or {}, "auto")
    return [f"{name}: {sentence}"] if sentence else []


def columns(entry: Entry) -> dict[str, str]:
    """Return the cells of the table "In short": the accuracy at each length with its interval.

    Example:
        >>> columns({"accuracy": {"32": 0.5}, "accuracy_interval": {"32": [0.4, 0.6]}})
        {'accuracy at 32': '0.500 (0.400–0.600)'}
    """
    cells = {}
    for length, accuracy in entry["accuracy"].items():
        low, high = entry["accuracy_interval"][length]
        cells[f"accuracy at {length}"] = _cell(accuracy, low, high)
    return cells


def _cell(accuracy: float | None, low: float, high: float) -> str:
    """An accuracy with its interval; a dash where nothing is asked."""
    if accuracy is None or math.isnan(accuracy):
        return "–"
    return f"{accuracy:.3f} ({low:.3f}–{high:.3f})"


def overview(report: Mapping[str, Any]) -> Sequence[str]:
    """Return what the accuracies are, and their figure, as Markdown.

    Example:
        >>> models = {"mine": {"task": "parity", "majority_baseline": {"32": 0.5}}}
        >>> overview({"settings": {"sequences": 256}, "models": models})[0]
        'Accuracy: mean over the last ten ...; giving the most frequent answer always reaches 0.5 on parity.'
    """
    baselines = {
        model["task"]: list(model["majority_baseline"].values())[-1] for model in report["models"].values()
    }
    reached = ", ".join(f"{shown(baseline)} on {task}" for task, baseline in baselines.items())
    return [
        f"Accuracy: mean over the last ten tokens of {report['settings']['sequences']} sequences, with 95% "
        f"intervals; giving the most frequent answer always reaches {reached}.",
        "![Accuracy against length](analysis/length_generalization.png)",
    ]


def _lines(entry: Entry) -> Sequence[str]:
    return [
        "accuracy " + ", ".join(f"{number(value)} at {length}" for length, value in entry["accuracy"].items())
    ]


LIMITS = """\
- **Accuracy** is the mean over the last ten tokens of fresh random sequences; the intervals are Wilson's,
  with sequences as the independent units. Nothing follows for longer sequences than those measured."""

SECTION = ReportSection(
    key="accuracy",
    content=content,
    settings={"lengths": "lengths", "sequences": "sequences", "seed": "seed"},
    columns=columns,
    warnings=warnings,
    overview=overview,
    lines=_lines,
    limits=LIMITS,
)
