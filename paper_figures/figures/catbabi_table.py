"""Accuracies on catbAbI as tables: all of them beside published ones, and task by task."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from automata.babi import TASK_NAMES
from paper_figures.figures.catbabi_comparison import shares
from paper_figures.figures.catbabi_training import NOT_TRAINED, SETTINGS_OF_STATE
from paper_figures.published_tables import read_table


def results_table(found: Mapping[str, Any]) -> str:
    """Return a table of all accuracies in percent, measured and published, as Markdown.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(results_table(StoredResults.read("catbabi").results))
        | model | parameters | answers, state carried | all words, state carried | ...
    """
    head = ["model", "parameters", *SETTINGS_OF_STATE.values()]
    rows = [head, ["---"] * len(head)]
    names = dict.fromkeys(name for models in found["accuracies"].values() for name in models)
    for name in names:
        cells = [_parameters(models[name] for models in found["accuracies"].values() if name in models)]
        for setting in SETTINGS_OF_STATE:
            values = [
                100 * value for value in shares(found["accuracies"].get(setting, {}).get(name, {"seeds": {}}))
            ]
            cells.append(", ".join(f"{value:.2f}" for value in values) or "-")
        rows.append([name, *cells])
    rows += [
        [f"*{row['model']}*, published", "", str(row["questions_only"]), str(row["all_tokens"]), "-", "-"]
        for row in read_table("catbabi_fast_weights").rows
    ]
    rows += [[_published_name(row), "", "-", "-", _published_range(row), "-"] for row in _fixed_points()]
    return _markdown(rows)


def tasks_table(found: Mapping[str, Any], setting: str) -> str:
    """Return a table of the accuracies in percent by task, means over the seeds and their ends, as Markdown.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(tasks_table(StoredResults.read("catbabi").results, "catbabi-answers-carried"))
        | task | explicit Mamba-2 | ...
    """
    models = found["accuracies"].get(setting, {})
    rows = [["task", *models], ["---"] * (1 + len(models))]
    for task, name in TASK_NAMES.items():
        cells = [
            _mean_and_ends([100 * value for value in shares(series, task)]) for series in models.values()
        ]
        rows.append([f"{task}. {name}" + (" (not trained)" if task == NOT_TRAINED else ""), *cells])
    return _markdown(rows)


def _parameters(series: Iterable[Mapping[str, Any]]) -> str:
    return next((f"{one['parameters']:,}" for one in series if one["parameters"] is not None), "-")


def _mean_and_ends(values: Sequence[float]) -> str:
    if not values:
        return "-"
    return f"{np.mean(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def _markdown(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fixed_points() -> Sequence[Mapping[str, Any]]:
    """The published rows of models that read every chunk without a state."""
    return read_table("catbabi_fixed_point").rows


def _published_name(row: Mapping[str, Any]) -> str:
    return f"*{row['model']}*, {row['layers']} layer{'s' if row['layers'] > 1 else ''}, published"


def _published_range(row: Mapping[str, Any]) -> str:
    low, high = row["lowest"], row["highest"]
    return f"{low if low == high else f'{low} to {high}'} (answers by default of their code)"
