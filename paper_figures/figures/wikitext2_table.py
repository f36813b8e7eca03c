"""Perplexities on WikiText-2 as a table, with parameters and the time of training."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from paper_figures.figures.wikitext2 import LABELS, runs_of
from paper_figures.figures.wikitext2_training import FAMILIES, KINDS, SIZES


def results_table(found: Mapping[str, Any]) -> str:
    """Return a row for each family and size, a column for each kind, as Markdown.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(results_table(StoredResults.read("wikitext2").results))
        | model, width x layers | parameters: explicit, implicit | explicit | implicit, (4+1) | ...
    """
    head = ["model, width x layers", "parameters: explicit, implicit", *LABELS.values()]
    rows = [head, ["---"] * len(head)]
    for family, kinds in found["models"].items():
        for size in SIZES:
            groups = [kinds.get(kind, {}).get(size, {"seeds": {}}) for kind in KINDS]
            counts = f"{_parameters(groups[0])}, {_parameters(groups[-1])}"
            rows.append([f"{FAMILIES[family]}, {size}", counts, *map(_cell, groups)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _parameters(group: Mapping[str, Any]) -> str:
    return next((f"{run['parameters']:,}" for run in group["seeds"].values()), "-")


def _cell(group: Mapping[str, Any]) -> str:
    """The perplexities of the runs, and the mean time that their training takes."""
    if not group["seeds"]:
        return "-"
    perplexities = ", ".join(f"{value:.2f}" for value in runs_of(group, "perplexity"))
    return f"{perplexities} ({np.mean(runs_of(group, 'training_seconds')):.0f} s)"
