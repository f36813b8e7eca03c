"""What `analysis.convergence` says in the terminal and in the report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from analysis.convergence.measurement import ConvergenceAnalysis
from analysis.framework.report_section import Entry, ReportSection
from analysis.framework.terminal import number
from implicit.runs.loading import Run


def tables(found: ConvergenceAnalysis) -> list[Table | str]:
    """Return a table with a line for every mode and length, for the terminal.

    Example:
        >>> from analysis.convergence.measurement import analyse
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity"), sequences=1, length=4)
        >>> [table.columns[0].header for table in tables(found)]
        ['mode']
    """
    table = Table(
        title=f"{found.run.title}; relative tolerance {found.settings.rtol:g}", title_justify="left"
    )
    table.add_column("mode")
    for column in ("length", "converged", "iterations", "token evaluations"):
        table.add_column(column, justify="right")
    for mode, result in found.modes.items():
        for length in found.lengths:
            table.add_row(
                mode,
                str(length),
                f"{result.converged[:, :length].mean():.2%}",
                f"{np.median(result.until(length)):.0f} (at most {result.until(length).max()})",
                number(result.evaluations(length, shared=mode == "simultaneous"), 6),
            )
    return [table]


def content(_run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``report.json`` holds of the numbers: not the residuals and iterations by position.

    Example:
        >>> found = {"share_converged": 1.0, "mean_iterations": 52.25, "by_length": {}}
        >>> content(None, {"sequential": {**found, "iterations_by_position": {}}})["convergence"]
        {'sequential': {'share_converged': 1.0, 'mean_iterations': 52.25, 'by_length': {}}}
    """
    kept = ("share_converged", "mean_iterations", "by_length")
    return {"convergence": {mode: {key: result[mode][key] for key in kept} for mode in result}}


def paragraphs(name: str, entry: Entry) -> Sequence[str]:
    """Return what the search for the fixed points costs, as Markdown.

    Example:
        >>> found = {"sequential": {"share_converged": 1.0, "mean_iterations": 52.25}}
        >>> paragraphs("mine", {"convergence": found})[1]
        '- sequential: 100.00% of tokens converged, 52.2 self-iterations per token'
    """
    lines = [
        f"{mode}: {found['share_converged']:.2%} of tokens converged, "
        f"{found['mean_iterations']:.1f} self-iterations per token"
        for mode, found in entry["convergence"].items()
    ]
    return [
        "### How the fixed points are found",
        "\n".join(f"- {line}" for line in lines),
        f"![Convergence of {name}](analysis/{name}/convergence.png)",
    ]


SECTION = ReportSection(
    key="convergence",
    content=content,
    settings={
        "sequences": "convergence_sequences",
        "length": "mode_length",
        "max_iterations": "max_iterations",
        "seed": "seed",
    },
    priority=1,
    paragraphs=paragraphs,
)
