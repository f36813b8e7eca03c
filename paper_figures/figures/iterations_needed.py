"""How many self-iterations tokens need on three tasks, in both modes, and what tells those that need many."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.axes import Axes

from analysis.framework.figures import log_axis, powers_of_two
from analysis.framework.palette import GREY, Look
from paper_figures import figure as pf
from paper_figures.figures.iterations_at_test import GRIDS, LABELS, LOOKS, label, look
from paper_figures.measurements.iterations import TokenSettings, hardest_tokens, token_iterations

SETTINGS = TokenSettings()
LOOSE, TIGHT = "0.01", "0.0001"
KINDS = {
    "state changes or not": "state changes",
    "token": "token",
    "last 4 tokens": "last 4 tokens",
    "position": "position",
    "state before": "state",
    "state before and token": "state, token",
}
"""Properties that may tell tokens apart, and their names in the figure."""


def _tokens(run: pf.MeasuredRun, tolerance: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = run.values["tolerances"][tolerance]["tokens"]
    return found


def _sequential(run: pf.MeasuredRun) -> dict[str, float]:
    found: dict[str, float] = run.values["tolerances"][TIGHT]["sequential"]["iterations"]
    return found


def _sweeps(run: pf.MeasuredRun) -> dict[str, float]:
    by_length = run.values["tolerances"][TIGHT]["simultaneous"]["sweeps"]
    return {length: sum(sweeps) / len(sweeps) for length, sweeps in by_length.items()}


def _by_length(axes: Axes, rows: pf.Rows) -> None:
    """Draw sequential mode solid and simultaneous mode dashed, a line per run."""
    for value, dashes in ((_sequential, "-"), (_sweeps, "--")):
        quantities = {row.label: (value, Look(row.look.color, row.look.marker, dashes)) for row in rows}
        for row in rows:
            pf.Lines(
                {row.label: quantities[row.label]},
                only=row.label,
                xlabel="length (tokens)",
                ylabel="self-iterations\nper token",
                yscale="log",
                ylim=None,
                band=False,
            ).draw(axes, rows)
    powers_of_two(axes, SETTINGS.lengths)
    axes.axhline(SETTINGS.max_sweeps, color=GREY, linewidth=0.9, linestyle=":")
    axes.set_title("by length, to 1e-4")


def shares_beyond(histogram: Mapping[str, int]) -> tuple[list[int], list[float]]:
    """Return numbers of self-iterations from 1, and the share of tokens that need more than each.

    Example:
        >>> shares_beyond({"2": 3, "4": 1})
        ([1, 2, 3, 4], [1.0, 0.25, 0.25, 0.0])
    """
    total, left, shares = sum(histogram.values()), sum(histogram.values()), []
    numbers = list(range(1, max(map(int, histogram)) + 1))
    for number in numbers:
        left -= histogram.get(str(number), 0)
        shares.append(left / total)
    return numbers, shares


def _beyond(tolerance: str, words: str) -> Callable[[Axes, pf.Rows], None]:
    def draw(axes: Axes, rows: pf.Rows) -> None:
        for row in rows:
            for run in row.runs:
                axes.step(
                    *shares_beyond(_tokens(run, tolerance)["histogram"]), where="post", color=row.look.color,
                    marker=row.look.marker, markevery=0.06, markersize=2.5, linewidth=0.9,
                )  # fmt: skip
        for threshold in SETTINGS.thresholds:
            axes.axvline(threshold, color=GREY, linewidth=0.9, linestyle=":")
        axes.set(ylim=(5e-6, 1.6))
        log_axis(axes)
        powers_of_two(axes, (4, 8, 16, 32, 64, 128, 256, 512))
        axes.set(
            xlim=(3, 600),
            title=f"sequential mode, to {words}",
            xlabel="self-iterations k",
            ylabel="tokens that need\nmore than k (share)",
        )

    return draw


def _explained(axes: Axes, rows: pf.Rows) -> None:
    """Draw a mark per run at the variance that each kind explains."""
    for number, row in enumerate(rows):
        for run in row.runs:
            explained = run.values["hardest"][TIGHT]["explained"]
            shares = {place: explained[kind]["variance"] for place, kind in enumerate(KINDS)}
            marked = {place: share for place, share in shares.items() if share is not None}
            axes.plot(
                list(marked.values()), [place + 0.22 * (number - 1) for place in marked],
                color=row.look.color, marker=row.look.marker, linestyle="", alpha=0.8,
            )  # fmt: skip
    axes.axvline(0, color=GREY, linewidth=0.9, linestyle=":")
    axes.set(
        title="what foretells them, to 1e-4",
        xlabel="variance explained (share)",
        xlim=(-0.1, 1.05),
        **pf.lines_of_text([*KINDS.values()]),
    )


def _span(shares: list[float]) -> str:
    return f"{100 * min(shares):.2g}% to {100 * max(shares):.2g}%"


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count runs in which 90% of the tokens need at most 8, and 0.01% to 10% of them more than 16.

    Reproduced if all runs show it at both tolerances, not if none does at either; partly otherwise.
    """
    runs, of = [run for row in rows for run in row.runs], sum(row.of for row in rows)
    shown = {}
    for tolerance in (LOOSE, TIGHT):
        more = [_tokens(run, tolerance)["more_than"] for run in runs]
        shown[tolerance] = sum(one["8"] <= 0.1 + 1e-12 and 1e-4 <= one["16"] <= 0.1 for one in more)
    counted = [_tokens(run, tolerance) for run in runs for tolerance in (LOOSE, TIGHT)]
    because = (
        "runs in which at least 90% of the tokens need at most 8 and 0.01% to 10% more than 16: "
        + ", ".join(f"{count} of {of} at {tolerance}" for tolerance, count in shown.items())
        + f"; {_span([one['more_than_twice_the_median'] for one in counted])} of the tokens need more than "
        "twice the median of their run, and the hardest tenth takes "
        f"{_span([one['iterations_of_hardest_tenth'] for one in counted])} of all self-iterations"
    )
    return pf.graded(min(shown.values()) == of, any(shown.values()), because)


FIGURE = pf.Figure(
    title="Which tokens need many self-iterations",
    section="Fixed points",
    claim=pf.Claim(
        "most tokens need few self-iterations, and a small subset of them needs many",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=(
        pf.Measurement("token_iterations", token_iterations, SETTINGS),
        pf.Measurement("hardest_tokens", hardest_tokens, SETTINGS),
    ),
    label=label,
    looks=look,
    panels=[
        pf.Drawn(_by_length),
        pf.Drawn(_beyond(LOOSE, "0.01")),
        pf.Drawn(_beyond(TIGHT, "1e-4")),
        pf.Drawn(_explained),
    ],
    layout=pf.Layout(
        columns=(2, 1),
        height=(4.5, 7.8),
        share=("none", "none"),
        legend=(5, 2),
        keys={
            **{LABELS[task]: Look(one.color, one.marker, "") for task, one in LOOKS.items()},
            "sequential mode": Look(GREY, "", "-"),
            "simultaneous mode": Look(GREY, "", "--"),
        },
    ),
)
