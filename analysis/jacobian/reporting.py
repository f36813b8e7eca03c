"""What `analysis.jacobian` says in the terminal and in the report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.table import Table

from analysis.framework.markdown import shown
from analysis.framework.markdown import table as markdown_table
from analysis.framework.report_section import Entry, ReportSection
from analysis.framework.terminal import number
from analysis.jacobian.block_structure import BlockStructure
from analysis.jacobian.measurement import JacobianAnalysis
from implicit.runs.loading import Run
from theory.theorem1.conditions import combine

SPREAD = ("min", "median", "max")


def tables(found: JacobianAnalysis) -> list[Table | str]:
    """Return the verdict with its reasons, the conditions and the conclusions, for the terminal.

    Example:
        >>> from pathlib import Path
        >>> from automata.tasks.registry import make_task
        >>> from implicit.config.recipes import recipe
        >>> from analysis.jacobian.measurement import analyse
        >>> from implicit.runs.loading import Run, initial_model
        >>> config, task = recipe("parity", "lstm", d_model=4), make_task("parity")
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> tables(analyse(run, states=4, length=8))[2]
        '  4 × holds: the transition is non-diagonal and non-linear, but not by a fixed point ...'
    """
    summary = found.theorem1()
    table = Table(title=found.run.title, title_justify="left")
    table.add_column("quantity")
    table.add_column("verdict")
    for column in SPREAD:
        table.add_column(column, justify="right")
    coupling = [check.conditions[3].value for check in found.report.checks if check.layers]
    spreads = {
        **summary,
        "coupling": dict(zip(SPREAD, np.quantile(coupling, (0, 0.5, 1)), strict=True)) if coupling else {},
    }
    layers = [layer for check in found.with_fixed_point.checks for layer in check.layers]
    rows = {
        "residual": ("C1 residual", summary["conditions"]["C1"]),
        "smallest_singular_value": ("C2 smallest singular value", summary["conditions"]["C2"]),
        "spectral_radius": ("C3 spectral radius", summary["conditions"]["C3"]),
        "coupling": ("C4 coupling", summary["conditions"]["C4"]),
        "off_diagonal_mass": (
            "off-diagonal mass",
            f"non-diagonal: {combine([layer.non_diagonal for layer in layers])}",
        ),
        "nonlinearity": ("nonlinearity", f"non-linear: {combine([layer.non_linear for layer in layers])}"),
    }
    for quantity, (label, verdict) in rows.items():
        table.add_row(label, str(verdict), *(number(spreads[quantity].get(part)) for part in SPREAD))
    reasons = [f"  {count} × {reason}" for reason, count in summary["reasons"].items()]
    lines: list[Table | str] = [table, found.sentence, *reasons, found.report.kind_sentence]
    if found.blocks is not None:
        lines.append(_block_table(found.blocks))
    return lines


def _block_table(blocks: BlockStructure) -> Table:
    table = Table(
        title=f"Blocks of ds'/ds: ‖block‖ / ‖J‖, root mean square over {blocks.states} states",
        title_justify="left",
    )
    table.add_column("part")
    table.add_column("mass", justify="right")
    for name, mass in named_masses(blocks.blocks, blocks.groups, has_windows=blocks.has_windows).items():
        table.add_row(name, number(mass))
    return table


def named_masses(
    blocks: Sequence[str], groups: Mapping[str, float], *, has_windows: bool
) -> dict[str, float]:
    """Return the masses under the names of what the state has: nothing of heads or windows where none are.

    Example:
        >>> groups = {"diagonal": 0.6, "within heads, off the diagonal": 0.8, "across heads": 0.0}
        >>> named_masses(["head 0", "head 1"], groups, has_windows=False) == groups
        True
        >>> named_masses(["hidden.0"], groups, has_windows=False)
        {'diagonal': 0.6, 'off the diagonal': 0.8}
        >>> list(named_masses(["hidden.0", "cell.0"], groups, has_windows=False))
        ['diagonal', 'within parts of the state, off the diagonal', 'across parts of the state']
    """
    masses = {name: mass for name, mass in groups.items() if has_windows or "window" not in name}
    if any(block.startswith("head ") for block in blocks):
        return masses
    if len(blocks) == 1:
        masses.pop("across heads", None)
        return {name.removeprefix("within heads, "): mass for name, mass in masses.items()}
    return {name.replace("heads", "parts of the state"): mass for name, mass in masses.items()}


def content(_run: Run, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``report.json`` holds of the numbers.

    Example:
        >>> content(None, {"theorem1": {"verdict": "holds"}, "blocks": None})
        {'theorem1': {'verdict': 'holds'}, 'block_masses': None}
    """
    blocks = result["blocks"]
    masses = blocks and named_masses(blocks["blocks"], blocks["groups"], has_windows=blocks["has_windows"])
    return {"theorem1": result["theorem1"], "block_masses": masses}


def paragraphs(name: str, entry: Entry) -> Sequence[str]:
    """Return verdict, reasons and measured quantities of a run as Markdown.

    Example:
        >>> spread = dict.fromkeys(SPREAD, 0.5)
        >>> theorem1 = {"sentence": "Theorem 1 fails", "reasons": {}, "kind_sentence": "It is diagonal."}
        >>> theorem1 |= dict.fromkeys(QUANTITIES, spread)
        >>> paragraphs("mine", {"theorem1": theorem1, "block_masses": None})[0]
        '**Theorem 1 fails.**'
    """
    found = entry["theorem1"]
    lines = [
        f"**{found['sentence']}.**",
        "\n".join(f"- {count} states: {reason}" for reason, count in found["reasons"].items()),
        found["kind_sentence"],
        markdown_table(
            ["measured", *SPREAD],
            [
                [label, *(shown(found[quantity][part]) for part in SPREAD)]
                for quantity, label in QUANTITIES.items()
            ],
        ),
    ]
    if entry["block_masses"]:
        masses = ", ".join(f"{part} {shown(mass)}" for part, mass in entry["block_masses"].items())
        lines.append(f"Frobenius mass of the parts of ds'/ds, relative to the whole: {masses}.")
    return [*lines, f"![Jacobian of {name}](analysis/{name}/jacobian.png)"]


QUANTITIES = {
    "residual": "C1: residual ‖Φ(z\\*) − z\\*‖",
    "smallest_singular_value": "C2: smallest singular value of I − ∂zΦ",
    "spectral_radius": "C3: spectral radius of the damped iteration",
    "off_diagonal_mass": "off-diagonal mass of J = ∂h'/∂h, relative to ‖J‖",
    "nonlinearity": "nonlinearity: change of J between two states, relative to ‖J‖",
}
"""What the report's table shows, by the names of ``report.json``."""

LIMITS = """\
- **Theorem 1** is checked at each listed state by floating-point measurement (float64), not by proof: every
  threshold is ten times an error that was measured by an independent computation (finite differences of the
  actual transition, the fixed point solved anew). It says nothing about states that were not visited.
- States without a fixed point are counted as inconclusive. The verdict for a run is that over all visited
  states with a fixed point."""

SECTION = ReportSection(
    key="theorem1",
    content=content,
    settings={"states": "states", "length": "states_length", "seed": "seed"},
    priority=2,
    columns=lambda entry: {"Theorem 1": entry["theorem1"]["verdict"]},
    paragraphs=paragraphs,
    lines=lambda entry: [entry["theorem1"]["sentence"]],
    limits=LIMITS,
)
