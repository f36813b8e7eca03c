"""The figure of `analysis.agreement`: distances, shares by position, and the fixed points of examples."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.agreement.measurement import AgreementAnalysis
from analysis.framework.figures import COLORS, GREY, RED, new_figure, styled


def draw(found: AgreementAnalysis) -> Figure:
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
        figure = new_figure(
            11,
            3.8,
            f"{found.run.title}: {found.settings.sequences} sequences of {found.settings.length} tokens\n"
            f"modes reach the same fixed point at {found.shares['agree']:.2%} of tokens, "
            f"decode the same answer at {found.same_answer.mean():.2%}",
        )
        for text in [] if found.is_demanded else figure.texts:
            text.set_color(RED)
        distance, position, points = figure.subplots(1, 3)
        _draw_distances(distance, found)
        _draw_positions(position, found)
        _draw_fixed_points(points, found)
        return figure


def _draw_distances(axes: Axes, found: AgreementAnalysis) -> None:
    smallest = np.finfo(np.float64).eps
    for mask, label, color in (
        (found.agrees, "same fixed point", COLORS[0]),
        (found.differs, "different fixed points", COLORS[1]),
        (~found.converged, "not converged", GREY),
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
        xlabel="log₁₀ of ‖z − z̃‖ / ‖z‖",
        ylabel="tokens",
        yscale="log",
    )
    axes.set_xticks(range(-16, 1, 4))
    axes.legend(loc="upper left")


def _draw_positions(axes: Axes, found: AgreementAnalysis) -> None:
    x = np.arange(1, found.settings.length + 1)
    axes.stackplot(
        x,
        [mask.mean(axis=0) for mask in (found.agrees, found.differs, ~found.converged)],
        labels=["same fixed point", "different ones", "not converged"],
        colors=[COLORS[0], COLORS[1], "#BBBBBB"],
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
    axes.legend(loc="lower left")


def _draw_fixed_points(axes: Axes, found: AgreementAnalysis) -> None:
    axes.axhline(1, color=GREY, linewidth=0.8)
    seen = set()
    for place, search in enumerate(found.searches, start=1):
        if not search.fixed_points:
            axes.text(
                place, 0.5, "no start converged", rotation=90, ha="center", va="center", color=RED, fontsize=8
            )
        total = sum(point.starts for point in search.fixed_points) + search.unconverged
        for point in search.fixed_points:
            right = point.answer == search.label
            label = f"decodes the {'right' if right else 'wrong'} answer"
            axes.plot(
                place,
                point.spectral_radius,
                "o" if right else "X",
                color=COLORS[2] if right else COLORS[1],
                markersize=3 + 7 * (point.starts / total) ** 0.5,
                label=None if label in seen else label,
            )
            seen.add(label)
    axes.set(
        title="fixed points of example tokens",
        xlabel="example token (size of mark: share of starts)",
        ylabel="spectral radius (below 1: attracts)",
        xlim=(0.3, len(found.searches) + 0.7),
    )
    axes.set_ylim(0, max(1.05, axes.get_ylim()[1]))
    if seen:
        axes.legend(loc="lower left")
