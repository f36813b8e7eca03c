"""State-to-state Jacobians of parity models from first to last weights, with and without window."""

from collections.abc import Callable, Mapping
from typing import Any

from analysis.framework.palette import Look
from paper_figures import figure as pf
from paper_figures.measurements.courses import JacobianCourse, along, jacobian_course

SETTINGS = JacobianCourse()
ROWS = {"with window": {"d_conv": 4}, "without window": {"d_conv": 1}}


def _mass(*parts: str) -> Callable[[pf.MeasuredRun], dict[int, Any]]:
    """Return the root of the sum of squares of some blocks; None where it is 0, or nothing was measured."""

    def mass(entry: Mapping[str, Any]) -> float | None:
        groups = entry["blocks"]
        return (sum(groups[part] ** 2 for part in parts) ** 0.5 or None) if groups is not None else None

    return along(mass)


QUANTITIES = {
    "share": {
        "accuracy": (along(lambda entry: entry["accuracy"]), Look("#EE3377", "s")),
        "states where Theorem 1 holds": (
            along(lambda entry: entry["counts"]["holds"] / SETTINGS.states),
            Look("#882255", "o", "--"),
        ),
    },
    "median of the states": {
        "off-diagonal mass": (along(lambda entry: entry["off_diagonal_mass"]), Look("#0077BB", "o")),
        "non-linearity": (along(lambda entry: entry["nonlinearity"]), Look("#EE7733", "^", "--")),
        "spectral radius of the iteration": (
            along(lambda entry: entry["spectral_radius"]),
            Look("#009988", "s", ":"),
        ),
    },
    "share of ‖ds'/ds‖": {
        "h to h": (_mass("diagonal", "within heads, off the diagonal", "across heads"), Look("#000000", "o")),
        "h to window": (_mass("state to window"), Look("#D55E00", "^", "--")),
        "window to h": (_mass("window to state"), Look("#56B4E9", "s", ":")),
        "window to window": (_mass("window to window"), Look("#CC79A7", "D", "-.")),
    },
}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count the visited states, at the end of training, at which the conclusions of Theorem 1 hold."""

    def held(place: int) -> dict[str, tuple[int, int]]:
        counted = {
            row.label: sum(course[place]["counts"]["holds"] for course in row.each("course")) for row in rows
        }
        return {row.label: (counted[row.label], SETTINGS.states * row.of) for row in rows}

    end, start = held(-1), held(0)
    before, of = (sum(part) for part in zip(*start.values(), strict=True))
    because = (
        f"states at which the conclusions hold at the end of training: {pf.counts(end)}; with the initial "
        f"weights at {before} of {of}"
    )
    return pf.verdict(sum(count for count, _ in end.values()), of, because)


FIGURE = pf.Figure(
    title="Jacobians through training",
    section="Theorem 1",
    claim=pf.Claim(
        "the transition of a trained implicit SSM is non-linear and non-diagonal in h",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=pf.Variants({"task": "parity", "model": "implicit-mamba2"}, ROWS),
    measure=(pf.Measurement("training_course", jacobian_course, SETTINGS),),
    panels=[
        pf.Lines(
            quantities,
            xlabel="training step",
            ylabel=ylabel,
            title=label if ylabel == "share" else "",
            chance=(0.5,) if ylabel == "share" else (),
            only=label,
            xscale="linear",
            yscale="linear" if ylabel == "share" else "log",
            ylim=(-0.04, 1.06) if ylabel == "share" else None,
            band=False,
        )
        for ylabel, quantities in QUANTITIES.items()
        for label in ROWS
    ],
    layout=pf.Layout(columns=(2, 2), height=(5.6, 6.6), share=("col", "row"), legend=(3, 1)),
)
