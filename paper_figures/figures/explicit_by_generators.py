"""A5 and S5 by generators, by explicit models with enough capacity and learning rates of their own."""

from analysis.framework.palette import model_label
from paper_figures import figure as pf

LENGTH = 1024
LSTM = {"model": "lstm", "d_model": 256, "learning_rate": 3e-3, "steps": 4000}
PRODUCT = {
    "model": "gated-deltaproduct",
    "householder_steps": 4,  # the rank of I − P is 4 for a 5-cycle P
    "negative_eigenvalues": True,
    "learning_rate": 1e-2,
    "steps": 4000,
}

FIGURE = pf.Figure(
    title="Explicit models, by generators",
    section="Training",
    claim=pf.Claim(
        "with their own rates and capacity enough, explicit models learn A5 and S5 by generators at 40 "
        f"tokens; an LSTM answers 0.95 of the sequences of {LENGTH:,} right, gated DeltaProduct does not",
        pf.OURS,
        pf.ShareOfRuns(
            f"sequence_accuracy@{LENGTH}",
            least=0.95,
            row=pf.where(model="lstm"),
            controls=pf.where(model="gated-deltaproduct"),
            at=f"{LENGTH:,} tokens",
        ),
    ),
    runs=(
        pf.Grid({"task": ["A5-generators", "S5-generators"], "seed": range(3)}, LSTM),
        pf.Grid({"task": ["A5-generators", "S5-generators"], "seed": range(3)}, PRODUCT),
    ),
    measure=(
        pf.accuracy_at(
            40,
            256,
            LENGTH,
            sequences=512,
            rtol=0.01,
            keep=("accuracy", "sequence_accuracy", "updates", "million_tokens"),
        ),
    ),
    panels=[*pf.sequences_right(40, LENGTH), pf.Marks("million_tokens", "M tokens\nin training")],
    label=lambda settings: (
        f"{settings['task'][:2]}, {model_label(settings['model']).removeprefix('explicit ')}"
    ),
)
