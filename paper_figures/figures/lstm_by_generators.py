"""An LSTM on A5 and S5 by generators, with a learning rate of its own: the control of the recipes."""

from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy_at

LENGTH = 1024
SETTINGS = {"model": "lstm", "d_model": 256, "learning_rate": 3e-3, "steps": 4000}

FIGURE = pf.Figure(
    title="The LSTM, by generators",
    section="Training",
    claim=pf.Claim(
        "with a learning rate of its own an LSTM, trained by the recipe's curriculum on at most 40 tokens, "
        "answers 0.95 of the sequences of 1,024 tokens of A5 and S5 by generators without an error",
        pf.OURS,
        pf.ShareOfRuns(f"sequence_accuracy@{LENGTH}", least=0.95, row=lambda row: True),  # noqa: ARG005
    ),
    runs=pf.Variants(
        SETTINGS,
        {f"{task}, by generators": {"task": f"{task}-generators"} for task in ("A5", "S5")},
        seeds=3,
    ),
    measure=(
        accuracy_at(
            40,
            256,
            LENGTH,
            sequences=512,
            rtol=0.01,
            keep=("accuracy", "sequence_accuracy", "updates", "million_tokens"),
        ),
    ),
    panels=[
        pf.Marks(f"sequence_accuracy@{LENGTH}", "sequences\nright", xlim=(-0.05, 1.05), ticks=(0, 0.5, 1)),
        pf.Marks("million_tokens", "tokens,\nmillions"),
        pf.Marks("minutes", "training,\nminutes"),
    ],
)
