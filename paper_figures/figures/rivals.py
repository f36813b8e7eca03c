"""S3 with every element as a token: which families learn it, each at its own learning rate, and how fast."""

from analysis.framework.palette import model_label
from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy_as_trained

LENGTH = 1024
TWO_LAYERS = {"layers": 2}  # one of Mamba, Mamba-3, DeltaNet cannot hold S3: docs/what_can_be_tracked.md
REFLECTING = {**TWO_LAYERS, "negative_eigenvalues": True}
LOOPED = {
    "rope_base": None,  # no positions
    "bounded_steps": 1500,  # to the end: every token has as many loops, and all are differentiated
    "bounded_iterations": 8,
    "evaluation_rtol": 1e-6,
    "evaluation_max_iterations": 8,
    "contraction_weight": 0.0,
}
FAMILIES: tuple[tuple[pf.Settings, float], ...] = (
    ({"model": "implicit-mamba2"}, 1e-1),
    ({"model": "implicit-deltanet"}, 1e-2),
    ({"model": "lstm"}, 3e-2),
    ({"model": "gru"}, 3e-2),
    ({"model": "slstm"}, 1e-1),
    ({"model": "elman"}, 3e-2),
    ({"model": "pd-ssm"}, 1e-1),
    ({"model": "gated-deltaproduct", "householder_steps": 4, **REFLECTING}, 3e-2),
    ({"model": "gated-deltaproduct", "householder_steps": 3, **REFLECTING}, 1e-2),
    ({"model": "gated-deltaproduct", "householder_steps": 2, **REFLECTING}, 1e-2),
    ({"model": "deltanet", **REFLECTING}, 1e-2),
    ({"model": "mamba3", **TWO_LAYERS}, 1e-2),
    ({"model": "mamba2", **TWO_LAYERS}, 1e-2),
    ({"model": "transformer", "layers": 4}, 1e-2),
    ({"model": "implicit-transformer", **LOOPED}, 3e-3),
)
"""Settings and learning rate: of those tried, that with the fewest tokens to 0.9 or most right, seed 0."""
NON_LINEAR = ("implicit-mamba2", "implicit-deltanet", "lstm", "gru", "slstm", "elman")


def _label(settings: pf.Settings) -> str:
    if "bounded_iterations" in settings:
        return f"Transformer looped ×{settings['bounded_iterations']}"
    name = model_label(settings["model"]).removeprefix("explicit ")
    steps = settings.get("householder_steps")
    return f"{name} ×{steps}" if steps else name


def rivals_on(task: str, title: str, claim: str, keeping: tuple[str, ...]) -> pf.Figure:
    """Return the figure of all families on a task; the models that are claimed to keep it are named."""
    return pf.Figure(
        title=title,
        section="State tracking",
        claim=pf.Claim(
            claim,
            pf.OURS,
            pf.ShareOfRuns(
                f"sequence_accuracy@{LENGTH}",
                least=0.95,
                row=lambda row: row.settings["model"] in keeping,
                controls=lambda row: row.settings["model"] not in keeping,
                at=f"{LENGTH:,} tokens",
            ),
        ),
        runs=tuple(
            pf.Grid(
                {"seed": range(3)}, {"task": task, **settings, "learning_rate": rate, "evaluate_every": 50}
            )
            for settings, rate in FAMILIES
        ),
        measure=(
            pf.accuracy_at(
                32,
                128,
                LENGTH,
                sequences=256,
                rtol=0.01,
                by=accuracy_as_trained,
                keep=("accuracy", "sequence_accuracy", "updates", "million_tokens_to_90"),
            ),
        ),
        panels=[*pf.sequences_right(32, LENGTH), pf.Marks("million_tokens_to_90", "M tokens\nto 0.9")],
        label=_label,
        layout=pf.Layout(columns=(3, 3), height=(3.2, 3.4)),
    )


FIGURE = rivals_on(
    "S3",
    "S3 by family, each with its own learning rate",
    "trained on pieces of 32 tokens of S3, at their own rates, two implicit models and four non-linear RNNs "
    f"answer 0.95 of the sequences of {LENGTH:,} right; the linear RNNs and the Transformers tried do not",
    NON_LINEAR,
)
