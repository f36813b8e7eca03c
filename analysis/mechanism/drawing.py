"""The figure of `analysis.mechanism`: how the codes of every run lie, and what follows an exchanged part."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.palette import GREY
from analysis.mechanism.measurement import MechanismAnalysis
from automata.drawing import COLORS
from automata.drawn_labels import in_legend

DASHES = ("-", "--", ":", "-.")
MARKERS = "os^Dv<>P"


def draw(found: MechanismAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw how the codes of every run lie, and whose answers follow an exchanged part.

    Example:
        >>> from analysis.mechanism.measurement import compare
        >>> from implicit.runs.loading import load_run
        >>> found = compare([load_run("parity")], sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> [axes.get_title() for axes in draw(found).axes][:2]
        ['directions of the codes', 'representations']
    """
    names = ", ".join(run.run.name for run in found.runs)
    with styled():
        figure, panels = new_panels(width, 4, f"mechanism: {names}", height=2.75, columns=2)
        for axes, fill in zip(panels, (_directions, _components, _distances, _swaps), strict=True):
            fill(axes, found)
            legend_below(axes, columns=1)
    return figure


def _color(place: int) -> str:
    return COLORS[place % len(COLORS)]


def _directions(axes: Axes, found: MechanismAnalysis) -> None:
    for place, run in enumerate(found.runs):
        lengths = np.maximum(run.held.spectrum, 0)[: len(run.classes) - 1]
        shares = lengths.cumsum() / max(lengths.sum(), 1e-300)
        axes.plot(
            np.arange(1, len(shares) + 1),
            shares,
            color=_color(place),
            marker=MARKERS[place % len(MARKERS)],
            markevery=max(1, len(shares) // 8),
            label=in_legend(run.run.name),
        )
    axes.set(
        title="directions of the codes",
        xlabel="principal directions",
        ylabel="share of variance",
        ylim=(-0.02, 1.05),
    )


def _components(axes: Axes, found: MechanismAnalysis) -> None:
    axes.set(title="representations", xlabel="irreducible representation", ylabel="share of variance")
    names = list(found.chance)
    places = np.arange(len(names))
    if not names:
        axes.text(0.5, 0.5, "no group", ha="center", transform=axes.transAxes)
        axes.plot([], [], color=GREY, label="equal distances")
        return
    axes.plot(
        places,
        [found.chance[name] for name in names],
        "_",
        color=GREY,
        markersize=14,
        label="equal distances",
    )
    for place, run in enumerate(found.runs):
        shares = run.geometry[run.coded_in].shares
        if shares:
            axes.plot(
                places,
                [shares[name] for name in names],
                linestyle="",
                color=_color(place),
                marker=MARKERS[place % len(MARKERS)],
                label=in_legend(run.run.name),
            )
    axes.set_xticks(places, names)
    axes.set_xlim(-0.5, len(names) - 0.5)
    axes.set_ylim(-0.02, 1.05)


def _distances(axes: Axes, found: MechanismAnalysis) -> None:
    """How many pairs lie closer than a multiple of the mean distance."""
    for place, run in enumerate(found.runs):
        distances = np.sort(run.held.distances)
        if distances.mean() > 0:
            axes.plot(
                distances / distances.mean(),
                np.arange(1, len(distances) + 1) / len(distances),
                color=_color(place),
                linestyle=DASHES[place % len(DASHES)],
                marker=MARKERS[place % len(MARKERS)] if len(distances) < 3 else "",
                label=in_legend(run.run.name),
            )
    axes.axvline(1, color=GREY, linewidth=0.8, linestyle=":", label="all equal")
    axes.set(
        title="distances of the codes",
        xlabel="distance / mean distance",
        ylabel="share of pairs below",
        xlim=(0, 2),
        ylim=(-0.02, 1.05),
    )


def _swaps(axes: Axes, found: MechanismAnalysis) -> None:
    for place, run in enumerate(found.runs):
        for number, (kind, swap) in enumerate(run.swaps.items()):
            axes.plot(
                np.arange(1, len(swap.giver) + 1),
                swap.giver,
                color=_color(place),
                linestyle=DASHES[number % len(DASHES)],
                marker=MARKERS[place % len(MARKERS)],
                markersize=2.5,
                label=in_legend(f"{run.run.name}: {kind}"),
            )
    axes.set(
        title="answers that follow an exchanged part",
        xlabel="tokens after the exchange",
        ylabel="share of the giver's",
        ylim=(-0.05, 1.05),
    )


def caption(found: MechanismAnalysis) -> str:
    """Tell what is drawn.

    Example:
        >>> from analysis.mechanism.measurement import compare
        >>> from implicit.runs.loading import load_run
        >>> found = compare([load_run("parity")], sequences=4, length=8, pairs=8, follow=4, states=2)
        >>> caption(found)[:55]
        'Codes: means of the part of the state that holds the au'
    """
    settings = found.settings
    sentences = " ".join(f"{run.run.name}: {run.sentence}." for run in found.runs)
    return (
        "Codes: means of the part of the state that holds the automaton state, over "
        f"{settings.sequences} words of {settings.length} tokens for each, all with the same last tokens. "
        "Top left: their variance along the first principal directions. Top right: the share of it in each "
        "irreducible representation of the group that the tokens generate, named by its dimension; bars "
        "are what codes at equal distances, such as one-hot ones, have. Bottom left: distances between the "
        "codes. Bottom right: a part of the state is put into that of another word "
        f"({settings.pairs} pairs of words with the same last tokens), and the share of the answers that are "
        f"right for where it came from. Measured, not a bound. {sentences}"
    )
