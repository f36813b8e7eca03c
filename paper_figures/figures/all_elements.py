"""A5 with every element as a token: whole sequences that are right, and what learning them took."""

from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy_at

LENGTH = 128
RATES = {"lstm": 1e-2, "gru": 3e-3}
"""The better of 1e-2 and 3e-3 for each control, by validation on A5, seed 0."""


FIGURE = pf.Figure(
    title="A5, every element a token",
    section="Training",
    claim=pf.Claim(
        "one implicit layer, trained on at most 40 tokens, is right at every one of 128 tokens in 0.95 of "
        "the sequences of A5, of 60 tokens, in four seeds of five",
        pf.OURS,
        pf.ShareOfRuns(
            f"sequence_accuracy@{LENGTH}",
            least=0.95,
            row=pf.where(model="implicit-mamba2"),
            reproduced=0.8,
        ),
    ),
    runs=(
        pf.Grid({"model": ["implicit-mamba2"], "task": ["A5"], "seed": range(5)}),
        *(
            pf.Grid(
                {"model": [model], "task": ["A5"], "seed": range(3)}, {"learning_rate": rate, "d_model": 128}
            )
            for model, rate in RATES.items()
        ),
    ),
    measure=(
        accuracy_at(
            40,
            LENGTH,
            512,
            sequences=512,
            rtol=0.01,
            keep=("accuracy", "sequence_accuracy", "share_converged", "updates", "million_tokens"),
        ),
    ),
    panels=[
        pf.Marks(f"sequence_accuracy@{LENGTH}", "sequences\nright", xlim=(-0.05, 1.05), ticks=(0, 0.5, 1)),
        pf.Marks("million_tokens", "tokens seen,\nmillions"),
        pf.Marks("minutes", "training,\nminutes"),
    ],
    layout=pf.Layout(columns=(4, 4)),
)
