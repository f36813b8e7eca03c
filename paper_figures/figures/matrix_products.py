"""Products of 3 by 3 matrices modulo 2, trained on words of 30 tokens and read at up to 90."""

from paper_figures import figure as pf
from paper_figures.figures.connectivity import LENGTHS, judge, label, runs_on

RATES = (3e-3, 3e-3, 1e-2, 3e-3, 3e-3, 1e-2, 1e-2, 3e-3)
"""A family has that of 0.003 and 0.01 with which more words were right in validation, seed 0."""
ALL_ZERO = {length: 0.2 + 0.8 * (3 / 8) ** (length // 9) for length in LENGTHS}
"""Share of words with no answer but 0. The first row of the product decides: it becomes any of 8 rows, half
of which begin with 0, and once it is 0 it stays so."""

FIGURE = pf.Figure(
    title="Products of matrices, beyond 30 tokens",
    section="State tracking",
    claim=pf.Claim(
        f"trained on products in words of {LENGTHS[0]} tokens, implicit Mamba-2 has more words of "
        f"{LENGTHS[-1]} right throughout than Mamba-2 and DeltaNet, in every seed",
        pf.OURS,
        lambda rows: judge(rows, f"sequence_accuracy@{LENGTHS[-1]}", ALL_ZERO[LENGTHS[-1]]),
    ),
    runs=runs_on("matrices-3-mod-2", RATES, d_model=64),
    measure=(pf.accuracy_at(*LENGTHS, sequences=512, rtol=0.01, keep=("accuracy", "sequence_accuracy")),),
    panels=[
        pf.Marks(
            f"sequence_accuracy@{length}",
            f"words right,\n{length} tokens",
            chance=(ALL_ZERO[length],),
            xlim=(-0.05, 1.05),
            ticks=(0, 0.5, 1),
        )
        for length in LENGTHS
    ],
    label=label,
    layout=pf.Layout(columns=(3, 3), height=(2.4, 2.6)),
)
