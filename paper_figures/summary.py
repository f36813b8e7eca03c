"""All figures with their claims as a table in Markdown, that of docs/experiments.md."""

from collections.abc import Sequence

from paper_figures.experiments.expected_cost import expected_cost
from paper_figures.figures.figure import PaperFigure
from paper_figures.registry import AnyFigure
from paper_figures.stored_results import RESULTS, StoredResults

NOTHING_TO_RERUN = "nothing to rerun"
"""What a rerun of published numbers costs."""
NOT_RUN = "not run: written and checked, but nobody has trained it here"
"""The verdict on an experiment at full size without results."""


def claim_rows(figures: Sequence[AnyFigure]) -> list[tuple[str, str, str, str]]:
    """Return name, claim, verdict on the stored results and cost of a rerun of each figure.

    Example:
        >>> from paper_figures.registry import figure_named
        >>> ((name, claim, verdict, cost),) = claim_rows([figure_named("published")])
        >>> name, verdict, cost
        ('published', 'published: as its authors print it; nothing was run here', 'nothing to rerun')
    """
    rows = []
    for figure in figures:
        claim = figure.claim
        if isinstance(figure, PaperFigure) and figure.in_full and not figure.stored_in(RESULTS):
            cost = expected_cost(figure.experiment)
            rows.append((figure.name, f"{claim.statement} ({claim.source})", NOT_RUN, cost))
            continue
        shown = figure.shown(RESULTS)
        cost = NOTHING_TO_RERUN if shown.stored is None else cost_of_rerun(shown.stored)
        rows.append((figure.name, f"{claim.statement} ({claim.source})", str(shown.verdict), cost))
    return rows


def at_full_size(figures: Sequence[AnyFigure]) -> list[PaperFigure]:
    """Return those of the figures that have an experiment at the size of the paper, at that size.

    Example:
        >>> from paper_figures.registry import all_figures
        >>> at_full_size(list(all_figures().values()))[0].command
        'python -m paper_figures jacobians_in_training --full'
    """
    return [figure.at_full_size() for figure in figures if isinstance(figure, PaperFigure) and figure.full]


def summary(figures: Sequence[AnyFigure]) -> str:
    """Return the table in Markdown.

    Example:
        >>> from paper_figures.registry import figure_named
        >>> print(summary([figure_named("convergence")]).splitlines()[0])
        | figure | claim | verdict on the stored results | cost of a rerun |
    """
    lines = ["| figure | claim | verdict on the stored results | cost of a rerun |", "|---|---|---|---|"]
    for name, claim, verdict, cost in claim_rows(figures):
        word, _, reason = verdict.partition(": ")
        lines.append(f"| `{name}` | {claim} | **{word}**: {reason} | {cost} |")
    return "\n".join(lines)


def cost_of_rerun(stored: StoredResults) -> str:
    """Return how long training and measuring took when the results were stored.

    Example:
        >>> cost_of_rerun(StoredResults.read("convergence"))
        '5 runs, ... to train, ... to measure'
    """
    training = (
        "training time not stored"
        if stored.training_seconds is None
        else f"{_duration(stored.training_seconds)} to train"
    )
    return f"{len(stored.runs)} runs, {training}, {_duration(stored.seconds)} to measure"


def _duration(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h" if seconds >= 5400 else f"{seconds / 60:.0f} min"
