"""Each cell with and without the fixed point, on parity."""

from analysis.framework.palette import GREY, Look, model_label
from paper_figures import figure as pf

CELLS = ("mamba2", "mamba3", "deltanet", "gated-deltanet", "gated-deltaproduct")
TRAINING = {
    "task": "parity",
    "d_model": 32,
    "mlp_size": 0,
    "length": 16,
    "batch_size": 32,
    "steps": 500,
    "growth_accuracy": None,
    "free_mode": "simultaneous",
    "free_max_iterations": 24,
    "free_rtol": 0.02,
    "free_gradient": "phantom",  # the exact one takes many times as long in cells without a kernel
}


def _twins(*cells: str) -> list[str]:
    return [name for cell in cells for name in (cell, f"implicit-{cell}")]


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Reproduced if every implicit run solves parity and no explicit one; not if no implicit run does."""
    twins = [row for row in rows if row.settings["model"].startswith("implicit-")]
    solved = {row.label: row.reaching("accuracy@256", 0.99) for row in rows}
    lifted = [row for row in twins if solved[row.label] == row.of]
    explicit = sum(solved[row.label] for row in rows if row not in twins)
    because = (
        f"cells whose implicit runs all reach 0.99 at 256 tokens: {len(lifted)} of {len(twins)}; explicit "
        f"runs that do: {explicit}"
    )
    for row in twins:
        if row not in lifted:
            because += f"; {row.label} at 16 tokens: {', '.join(f'{x:.2f}' for x in row.each('accuracy@16'))}"
    if not any(solved[row.label] for row in twins):
        return pf.Verdict("not reproduced", because)
    return pf.verdict(len(lifted), len(twins), because, also=not explicit)


FIGURE = pf.Figure(
    title="Cells with and without the fixed point",
    section="State tracking",
    claim=pf.Claim("on parity the fixed point lifts other cells than the diagonal one, too", pf.OURS, _judge),
    runs=[
        pf.Grid({"model": _twins(*CELLS), "seed": range(3)}, TRAINING),
        pf.Grid({"model": _twins("transformer"), "seed": range(3)}, {**TRAINING, "steps": 2000}),
    ],
    measure=(pf.accuracy_at(16, 256, sequences=64),),
    label=lambda settings: model_label(settings["model"]),
    panels=[
        pf.Marks(
            f"accuracy@{length}",
            f"accuracy,\n{length} tokens",
            chance=(0.5,),
            xlim=(-0.05, 1.08),
            ticks=(0, 0.5, 1),
        )
        for length in (16, 256)
    ],
    layout=pf.Layout(
        columns=(2, 2),
        height=(3.2, 3.2),
        legend=(3, 3),
        keys={
            "implicit": Look(GREY, "o", ""),
            "explicit": Look(GREY, "s", ""),
            "chance": Look(GREY, "", ":"),
        },
    ),
)
