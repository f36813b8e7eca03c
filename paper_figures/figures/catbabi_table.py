"""All accuracies on catbAbI as a table, with published ones beside them."""

from collections.abc import Mapping, Sequence
from typing import Any

from paper_figures.figures.catbabi import shares
from paper_figures.figures.catbabi_training import SETTINGS_OF_STATE
from paper_figures.published_tables import read_table


def results_table(found: Mapping[str, Any]) -> str:
    """Return a table of all accuracies in percent, measured and published, as Markdown.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(results_table(StoredResults.read("catbabi").results))
        | model | answers, state carried | all words, state carried | ...
    """
    head = ["model", *SETTINGS_OF_STATE.values()]
    rows = [head, ["---"] * len(head)]
    names = dict.fromkeys(name for models in found["accuracies"].values() for name in models)
    for name in names:
        cells = []
        for setting in SETTINGS_OF_STATE:
            values = [
                100 * value for value in shares(found["accuracies"].get(setting, {}).get(name, {"seeds": {}}))
            ]
            cells.append(", ".join(f"{value:.2f}" for value in values) or "-")
        rows.append([name, *cells])
    rows += [
        [f"*{row['model']}*, published", str(row["questions_only"]), str(row["all_tokens"]), "-", "-"]
        for row in read_table("catbabi_fast_weights").rows
    ]
    rows += [[_published_name(row), "-", "-", _published_range(row), "-"] for row in _fixed_points()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _fixed_points() -> Sequence[Mapping[str, Any]]:
    """The published rows of models that read every chunk without a state."""
    return read_table("catbabi_fixed_point").rows


def _published_name(row: Mapping[str, Any]) -> str:
    return f"*{row['model']}*, {row['layers']} layer{'s' if row['layers'] > 1 else ''}, published"


def _published_range(row: Mapping[str, Any]) -> str:
    low, high = row["lowest"], row["highest"]
    return f"{low if low == high else f'{low} to {high}'} (loss not told)"
