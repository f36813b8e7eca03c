"""Both modes during training: do they reach the same fixed points, and in how many self-iterations?"""

from analysis.framework.palette import MODE_LOOKS, Look
from paper_figures import figure as pf
from paper_figures.figures.iterations_at_test import GRIDS, label, look
from paper_figures.measurements.courses import AgreementCourse, agreement_course, along

PUBLISHED_AGREEMENT = 0.976
"""Share of the tokens at which the modes are said to agree in the largest published model, of 1.3B."""


SHARES = {
    "modes reach the same fixed point": (along(lambda entry: entry["agree"]), Look("#0077BB", "o")),
    "different ones": (along(lambda entry: entry["differ"]), Look("#EE7733", "^", "--")),
    "accuracy, sequential mode": (along(lambda entry: entry["accuracy"]), Look("#009988", "s", ":")),
}
ITERATIONS = {
    "sequential, to 1e-4": (along(lambda entry: entry["iterations"]["sequential"]), MODE_LOOKS["sequential"]),
    "simultaneous, to 1e-4": (
        along(lambda entry: entry["iterations"]["simultaneous"]),
        MODE_LOOKS["simultaneous"],
    ),
    "in training, to its tolerance": (
        along(lambda entry: entry["iterations"], of="training"),
        Look("#000000", "D", "-."),
    ),
}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count runs whose modes agree at the end as often as in the published model."""
    agree = {
        row.label: [[entry["agree"] for entry in course] for course in row.each("course")] for row in rows
    }
    last = {label: [shares[-1] >= PUBLISHED_AGREEMENT for shares in runs] for label, runs in agree.items()}
    reached = {row.label: (sum(last[row.label]), row.of) for row in rows}
    least = min(share for runs in agree.values() for shares in runs for share in shares)
    because = (
        f"runs whose modes agree at {PUBLISHED_AGREEMENT:.1%} of the tokens or more at the end: "
        f"{pf.counts(reached)}; least share on the way: {least:.3f}"
    )
    shown, of = (sum(part) for part in zip(*reached.values(), strict=True))
    return pf.verdict(shown, of, because)


FIGURE = pf.Figure(
    title="Agreement of the modes through training",
    section="Fixed points",
    claim=pf.Claim(
        "the simultaneous and the sequential mode of a trained implicit SSM reach the same fixed points",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=GRIDS[:2],
    measure=(pf.Measurement("agreement_course", agreement_course, AgreementCourse()),),
    label=label,
    looks=look,
    panels=[
        pf.Lines(
            quantities,
            xlabel="training step",
            ylabel=ylabel,
            title=task if quantities is SHARES else "",
            only=task,
            xscale="linear",
            yscale="linear" if quantities is SHARES else "log",
            ylim=(-0.04, 1.06) if quantities is SHARES else None,
            band=False,
        )
        for quantities, ylabel in ((SHARES, "share of the tokens"), (ITERATIONS, "self-iterations"))
        for task in ("parity", "S3")
    ],
    layout=pf.Layout(columns=(2, 2), height=(3.9, 4.4), share=("col", "row"), legend=(2, 1)),
)
