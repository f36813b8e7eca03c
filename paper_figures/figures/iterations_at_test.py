"""Accuracy against the self-iterations that are allowed at test, in both modes."""

from analysis.framework.palette import Look
from paper_figures import figure as pf
from paper_figures.figures.s5_length_generalization import TRAINING
from paper_figures.measurements.iterations import MODES, BudgetSettings, budgets

LABELS = {"parity": "parity", "S3": "S3", "S5-generators": "S5, generators"}
LOOKS = {
    "parity": Look("#0077BB", "o"),
    "S3": Look("#EE7733", "s", "--"),
    "S5-generators": Look("#009988", "^", ":"),
}
SEEDS = range(3)
GRIDS = (
    pf.Grid({"seed": SEEDS}, {"task": "parity", "model": "implicit-mamba2", "carried_share": 0.9}),
    pf.Grid({"seed": SEEDS}, {"task": "S3", "model": "implicit-mamba2"}),
    pf.Grid({"seed": SEEDS}, {"model": "implicit-mamba2", **TRAINING, "layers": 1}),
)


def label(settings: pf.Settings) -> str:
    """Return the label of a row: its task."""
    return LABELS[settings["task"]]


def look(settings: pf.Settings) -> Look:
    """Return the look of a row: that of its task."""
    return LOOKS[settings["task"]]


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count runs and modes that gain at least 0.1 and never fall by more than 0.02 on the way."""
    lines = [
        list(accuracies.values())
        for row in rows
        for mode in MODES
        for accuracies in row.each(f"{mode}@accuracy")
    ]
    higher = [line for line in lines if line[-1] >= line[0] + 0.1]
    rising = sum(
        all(later >= before - 0.02 for place, before in enumerate(line) for later in line[place + 1 :])
        for line in higher
    )
    of = len(MODES) * sum(row.of for row in rows)
    because = (
        f"rises by 0.1 or more in {len(higher)} of {of} runs and modes, in {rising} of them without a fall "
        "of more than 0.02 on the way"
    )
    return pf.graded(rising == of, any(line[-1] > line[0] for line in lines), because)


FIGURE = pf.Figure(
    title="Test-time compute",
    section="Fixed points",
    claim=pf.Claim("quality rises with the self-iterations allowed at test", pf.IMPLICIT_ARE_RNNS, _judge),
    runs=GRIDS,
    measure=(pf.Measurement("budgets", budgets, BudgetSettings()),),
    label=label,
    looks=look,
    panels=[
        pf.Lines(f"{mode}@accuracy", xlabel=f"{what}, at most", title=f"{mode} mode")
        for mode, what in zip(MODES, ("self-iterations per token", "sweeps over the sequence"), strict=True)
    ],
    layout=pf.Layout(columns=(2, 1), height=(2.4, 4.8), share=("none", "all"), legend=(3, 1)),
)
