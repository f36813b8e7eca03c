"""Accuracy against length on S5: one implicit layer, and one, two or four layers of families at own rates."""

from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from paper_figures import figure as pf

TRAINING = {
    "task": "S5-generators",
    "length": 32,
    "steps": 2000,
    "start_length": 4,
    "length_growth": 4,
    "length_growth_every": 100,
    "growth_accuracy": None,
    "carried_after": 1200,
}
"""The same sequences for every model: their length follows the number of the update, not the accuracy."""
REFLECTING = {"negative_eigenvalues": True}  # eigenvalues in [-1, 1], so that a step can reflect
PRODUCT = {**REFLECTING, "householder_steps": 4}  # the rank of I − P is 4 for a 5-cycle P
FAMILIES: tuple[tuple[pf.Settings, dict[int, float | None]], ...] = (
    ({"model": "implicit-mamba2"}, {1: None}),
    ({"model": "lstm", "d_model": 256}, {1: 3e-3}),
    ({"model": "mamba2"}, {1: 3e-2, 2: 1e-2, 4: 1e-2}),
    ({"model": "deltanet", **REFLECTING}, {1: 3e-2, 2: 1e-2, 4: 1e-2}),
    ({"model": "gated-deltaproduct", **PRODUCT}, {1: 1e-2, 2: 3e-2}),
    ({"model": "transformer"}, {2: None, 4: None}),
)
"""Settings, and learning rates by layers, the recipe's 0.002 if None: of those tried, the best of seed 0."""
GRIDS = tuple(
    pf.Grid(
        {"seed": range(3)},
        {**TRAINING, **settings, "layers": layers} | ({"learning_rate": rate} if rate else {}),
    )
    for settings, rates in FAMILIES
    for layers, rate in rates.items()
)
LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEASURE = (pf.accuracy_at(*LENGTHS, sequences=256, keep=("accuracy", "share_converged", "by_position")),)
MODELS = tuple(settings["model"] for settings, _ in FAMILIES)
DEPTHS = {1: ("o", "-"), 2: ("s", "--"), 4: ("^", ":")}  # marker and dashes by the number of layers


def family(settings: pf.Settings) -> str:
    """Return the label of a row: model and number of layers."""
    layers = settings.get("layers", 1)
    return f"{model_label(settings['model'])}, {layers} layer{'s' * (layers > 1)}"


def _look(settings: pf.Settings) -> Look:
    return Look(MODEL_LOOKS[settings["model"]].color, *DEPTHS[settings.get("layers", 1)])


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge length, and tell how well the best of the controls had learnt the length of training."""
    lasting = pf.ShareOfRuns(
        "accuracy@256",
        least=0.99,
        row=pf.where(model="implicit-mamba2"),
        controls=lambda row: row.settings["model"] not in ("implicit-mamba2", "lstm"),
        at="256 tokens",
    )(rows)
    controls = [row for row in rows if row.settings["model"] not in ("implicit-mamba2", "lstm")]
    best = max((row for row in controls if row.runs), key=lambda row: max(row.each("accuracy@32")))
    found = ", ".join(f"{value:.3f}" for value in best.each("accuracy@32"))
    return pf.Verdict(
        lasting.word,
        f"{lasting.because}; at the 32 tokens of training the best of them, {best.label}, has {found}",
    )


FIGURE = pf.Figure(
    title="Accuracy against length on S5",
    section="State tracking",
    claim=pf.Claim(
        "one implicit Mamba-2 layer trained at 32 tokens tracks S5 far beyond them; explicit models do not",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=MEASURE,
    label=family,
    looks=_look,
    panels=[
        pf.Lines(
            "accuracy", title=model_label(model), chance=(1 / 120,), trained=(32,), only=pf.where(model=model)
        )
        for model in MODELS
    ],
    layout=pf.Layout(
        columns=(3, 2),
        height=(3.9, 5.7),
        share=("all", "all"),
        legend=(5, 2),
        keys={f"{layers} layer{'s' * (layers > 1)}": Look(GREY, *look) for layers, look in DEPTHS.items()},
    ),
)
