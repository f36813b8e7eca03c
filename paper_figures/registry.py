"""All figures, found by their files, and their claims: by section, then by name."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from analysis.framework.finding import Rows
from automata.errors import unknown_name
from paper_figures import figures
from paper_figures.figure import SECTIONS, Figure
from paper_figures.results import Results

COLUMNS = ("figure", "claim", "verdict", "cost of a rerun")


@cache
def all_figures() -> dict[str, Figure]:
    """Return every figure by its name, in the order of the paper."""
    found = [
        replace(import_module(f"{figures.__name__}.{module.name}").FIGURE, name=module.name)
        for module in iter_modules(figures.__path__)
    ]
    return {
        figure.name: figure
        for figure in sorted(found, key=lambda figure: (SECTIONS.index(figure.section), figure.name))
    }


def figure_named(name: str) -> Figure:
    """Return a figure.

    Example:
        >>> figure_named("all_elements").title
        'A5 and S5, every element a token'
    """
    if name not in all_figures():
        raise unknown_name("figure", name, all_figures())
    return all_figures()[name]


def claim_rows(figures: Sequence[Figure]) -> list[tuple[str, str, str, str]]:
    """Return name, claim, verdict on the stored results and cost of a rerun of each figure."""
    rows = []
    for figure in figures:
        results = figure.results()
        claim = f"{figure.claim.statement} ({figure.claim.source})"
        rows.append((figure.name, claim, str(figure.verdict(results)), cost_of_rerun(results)))
    return rows


def summary(figures: Sequence[Figure]) -> str:
    """Return the rows as Markdown."""
    rows = []
    for name, claim, verdict, cost in claim_rows(figures):
        word, _, because = verdict.partition(": ")
        rows.append((f"`{name}`", claim, f"**{word}**: {because}", cost))
    return Rows(COLUMNS, rows).markdown()


def cost_of_rerun(results: Results) -> str:
    """Return how many runs there are, and how long their training and measurements took.

    Example:
        >>> cost_of_rerun(Results("f", "", "", {}, 91.0, 7200.0, {}, {}, [{}]))
        '1 runs, 2.0 h to train, 2 min to measure'
    """
    if not results.runs:
        return "nothing to rerun"
    trained = (
        "training time not stored"
        if results.training_seconds is None
        else f"{_duration(results.training_seconds)} to train"
    )
    return f"{len(results.runs)} runs, {trained}, {_duration(results.seconds)} to measure"


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    return f"{minutes / 60:.1f} h" if minutes > 90 else f"{minutes:.0f} min"
