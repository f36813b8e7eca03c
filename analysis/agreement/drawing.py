"""The figure of `analysis.agreement`: distances, shares by position, and the fixed points of examples."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.agreement.measurement import AgreementAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, log_axis, new_panels, styled
from analysis.framework.palette import FINDING_LOOKS, GREY, RED

SAME, DIFFERENT, UNCONVERGED = (FINDING_LOOKS[name].color for name in ("holds", "fails", "inconclusive"))


def draw(found: AgreementAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw distances, shares by position, and the fixed points of the example tokens.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.agreement.measurement import analyse
        >>> run = load_run("parity")
        >>> figure = draw(analyse(run, sequences=2, length=4, examples=1))
        >>> [axes.get_ylabel() for axes in figure.axes[:2]]
        ['tokens', 'share of sequences']
    """
    with styled():
        figure, (distance, position, points) = new_panels(
            width,
            3,
            f"{found.run.title}\nmodes reach the same fixed point at {found.shares['agree']:.2%} of tokens, "
            f"decode the same answer at {found.same_answer.mean():.2%}",
            height=2.75,
            color="black" if found.is_demanded else RED,
        )
        _draw_distances(distance, found)
        _draw_positions(position, found)
        _draw_fixed_points(points, found)
        return figure


def _draw_distances(axes: Axes, found: AgreementAnalysis) -> None:
    smallest = np.finfo(np.float64).eps
    for mask, label, color in (
        (found.agrees, "same fixed point", SAME),
        (found.differs, "different fixed points", DIFFERENT),
        (~found.converged, "not converged", UNCONVERGED),
    ):
        if mask.any():
            values = np.log10(np.maximum(found.distance[mask], smallest))
            axes.hist(
                values,
                bins=np.linspace(-16, 1, 86).tolist(),
                color=color,
                alpha=0.7,
                label=f"{label}: {mask.mean():.2%}",
            )
    tolerance = np.log10(np.median(found.tolerance))
    axes.axvline(tolerance, color="black", linestyle="--", linewidth=0.9, label="tolerance (median)")
    axes.set(
        title="distance between the modes",
        xlabel="log10 of the relative distance",
        ylabel="tokens",
    )
    log_axis(axes)
    axes.set_ylim(bottom=0.7)  # a single token shows
    axes.set_xticks(range(-16, 1, 4))
    legend_below(axes)


def _draw_positions(axes: Axes, found: AgreementAnalysis) -> None:
    x = np.arange(1, found.settings.length + 1)
    axes.stackplot(
        x,
        [mask.mean(axis=0) for mask in (found.agrees, found.differs, ~found.converged)],
        labels=["same fixed point", "different ones", "not converged"],
        colors=[SAME, DIFFERENT, UNCONVERGED],
        alpha=0.8,
        step="mid" if len(x) > 1 else None,
    )
    axes.plot(x, found.same_answer.mean(axis=0), color="black", linewidth=1, label="same answer")
    axes.set(
        title="agreement by position",
        xlabel="position of the token",
        ylabel="share of sequences",
        ylim=(0, 1.05),
    )
    legend_below(axes)


def _draw_fixed_points(axes: Axes, found: AgreementAnalysis) -> None:
    axes.axhline(1, color=GREY, linewidth=0.8)
    seen = set()
    for place, search in enumerate(found.searches, start=1):
        if not search.fixed_points:
            axes.text(place, 0.5, "no start converged", rotation=90, ha="center", va="center", color=RED)
        total = sum(point.starts for point in search.fixed_points) + search.unconverged
        for point in search.fixed_points:
            right = point.answer == search.label
            label = f"decodes the {'right' if right else 'wrong'} answer"
            look = FINDING_LOOKS["holds" if right else "fails"]
            axes.plot(
                place,
                point.spectral_radius,
                look.marker,
                color=look.color,
                markersize=2 + 5 * (point.starts / total) ** 0.5,
                label=None if label in seen else label,
            )
            seen.add(label)
    axes.set(
        title="fixed points of examples",
        xlabel="example token",
        ylabel="spectral radius (< 1: attracts)",
        xlim=(0.3, len(found.searches) + 0.7),
    )
    axes.set_ylim(0, max(1.05, axes.get_ylim()[1]))
    if seen:
        legend_below(axes)


def caption(found: AgreementAnalysis) -> str:
    """Tell what is drawn, and the finding.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> from analysis.agreement.measurement import analyse
        >>> caption(analyse(load_run("parity"), sequences=2, length=4, examples=0))[:52]
        'Fixed points of simultaneous and sequential mode for'
    """
    settings = found.settings
    return (
        f"Fixed points of simultaneous and sequential mode for {settings.sequences} sequences of "
        f"{settings.length} tokens, in float64: {found.sentence}. Distances ‖z − z̃‖ are relative to ‖z‖; "
        "two "
        "within the tolerance are the same fixed point. Shares by position are of all sequences. The marks "
        "of "
        f"{len(found.searches)} example tokens are fixed points found from {settings.starts} random starts, "
        "zero "
        "and both modes' latents: the larger, the more starts led there; one with a spectral radius below 1 "
        "attracts the iteration."
    )
