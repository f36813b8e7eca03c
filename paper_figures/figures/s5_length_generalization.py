"""Accuracy against length on S5: one implicit layer, and one, two or four layers of the other families."""

from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy_at

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
SEEDS, LAYERS = range(3), (1, 2, 4)
GRIDS = (
    pf.Grid({"model": ["implicit-mamba2", "lstm"], "seed": SEEDS}, {**TRAINING, "layers": 1}),
    pf.Grid({"model": ["mamba2"], "layers": LAYERS, "seed": SEEDS}, TRAINING),
    pf.Grid(
        {"model": ["deltanet", "gated-deltaproduct"], "layers": LAYERS, "seed": SEEDS},
        {**TRAINING, "negative_eigenvalues": True},  # in [-1, 1], so that a step can reflect
    ),
    pf.Grid({"model": ["transformer"], "layers": LAYERS[1:], "seed": SEEDS}, TRAINING),
)
LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512, 1024)
MEASURE = (accuracy_at(*LENGTHS, sequences=256, keep=("accuracy", "share_converged", "by_position")),)
MODELS = ("implicit-mamba2", "lstm", "mamba2", "deltanet", "gated-deltaproduct", "transformer")
DEPTHS = {1: ("o", "-"), 2: ("s", "--"), 4: ("^", ":")}  # marker and dashes by the number of layers


def family(settings: pf.Settings) -> str:
    """Return the label of a row: model and number of layers."""
    layers = settings.get("layers", 1)
    return f"{model_label(settings['model'])}, {layers} layer{'s' * (layers > 1)}"


def _look(settings: pf.Settings) -> Look:
    return Look(MODEL_LOOKS[settings["model"]].color, *DEPTHS[settings.get("layers", 1)])


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Judge length, and tell whether explicit models had learnt the task at the length of training."""
    lasting = pf.ShareOfRuns(
        "accuracy@256",
        least=0.99,
        row=pf.where(model="implicit-mamba2"),
        controls=lambda row: row.settings["model"] not in ("implicit-mamba2", "lstm"),
        at="256 tokens",
    )(rows)
    best = max(
        value
        for row in rows
        if row.settings["model"] not in ("implicit-mamba2", "lstm")
        for value in row.each("accuracy@32")
    )
    return pf.Verdict(
        lasting.word,
        f"{lasting.because}; at the 32 tokens of training, explicit models and the Transformer have at most "
        f"{best:.3f}",
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
