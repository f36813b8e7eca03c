"""A5 with every element as a token: whole sequences that are right, and what learning them took."""

from analysis.framework.palette import model_label
from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy_at

LENGTH = 128
RATES = {"lstm": 1e-2, "gru": 3e-3}
"""The better of 1e-2 and 3e-3 for each control, in validation on A5, seed 0; the worse run is not stored."""

FIGURE = pf.Figure(
    title="A5, every element a token",
    section="Training",
    claim=pf.Claim(
        "one implicit layer, trained on at most 40 tokens, answers 0.95 of the sequences of 128 tokens "
        "without an error in four seeds of five, on A5 with all 60 elements as tokens",
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
        pf.Marks("million_tokens", "tokens,\nmillions", ticks=(0, 3, 6)),
        pf.Marks("minutes", "training,\nminutes", ticks=(0, 15, 30)),
    ],
    label=lambda settings: model_label(settings["model"]),
)
