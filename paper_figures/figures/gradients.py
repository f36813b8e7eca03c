"""S5 trained with the exact gradient and with phantom gradients, and how far off phantom gradients are."""

from functools import partial

from analysis.framework.palette import Look
from paper_figures import figure as pf
from paper_figures.measurements.gradient_reach import ReachSettings, gradient_reach
from paper_figures.measurements.lengths import accuracy_at

REACH = ReachSettings()
RULES = {
    "implicit": ("exact gradient", Look("#0072B2", "o")),
    "phantom": ("4 phantom steps", Look("#D55E00", "s", "--")),
}
STEPS = {
    1: Look("#CC79A7", "v", ":"),
    4: Look("#D55E00", "s", "--"),
    16: Look("#009988", "^", "-."),
    64: Look("#000000", "o"),
}


def _distance(steps: int, run: pf.MeasuredRun) -> tuple[range, list[float]] | None:
    """Return the distance by tokens back; None where a token did not reach its fixed point."""
    found = run.values["distance"]
    return (range(REACH.length), found[str(steps)]) if found else None


FIGURE = pf.Figure(
    title="Exact and phantom gradients on S5",
    section="Training",
    claim=pf.Claim(
        "phantom gradients of four steps train an implicit SSM that tracks S5 beyond its training length",
        pf.IMPLICIT_ARE_RNNS,
        pf.ShareOfRuns("accuracy@256", least=0.99, row="4 phantom steps", at="256 tokens"),
    ),
    runs=(
        pf.Grid(
            {"free_gradient": list(RULES), "seed": range(3)},
            {"task": "S5-generators", "model": "implicit-mamba2", "carried_share": 0.0},
        ),
    ),
    measure=(
        accuracy_at(40, 64, 128, 256, 512, 1024, sequences=256, rtol=0.01),
        pf.Measurement(
            "gradient_reach",
            gradient_reach,
            REACH,
            {"norm": "norm", "distance": "distance", "share_converged": "reach_converged"},
        ),
    ),
    label=lambda settings: RULES[settings["free_gradient"]][0],
    looks=lambda settings: RULES[settings["free_gradient"]][1],
    panels=[
        pf.Lines("accuracy", title="trained with", chance=(1 / 120,), trained=(40,)),
        pf.Lines(
            {
                f"{steps} phantom step{'s' * (steps > 1)}, distance": (partial(_distance, steps), look)
                for steps, look in STEPS.items()
            },
            xlabel="tokens back",
            ylabel="distance from the exact gradient,\nrelative to its norm",
            title="phantom gradients of trained models",
            xscale="linear",
            ylim=(-0.04, 1.3),
            markers=False,
        ),
    ],
    layout=pf.Layout(columns=(2, 1), height=(3.2, 5.8), share=("none", "none"), legend=(2, 1)),
)
