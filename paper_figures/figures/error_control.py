"""Do errors at short lengths tell the length at which a model fails? Predicted against measured, on S3."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis import error_control
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from analysis.error_control.spread import SHARE_BELOW
from analysis.framework.figures import powers_of_two
from analysis.framework.output import RunIdentity, json_ready
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.compiled import compile_run
from implicit.runs.loading import Run
from paper_figures import figure as pf
from paper_figures.measurements.lengths import accuracy

GEOMETRIC = (4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896, 4096)
"""Powers of the root of two, rounded."""


class FailureSettings(CheckedConfig):
    """The settings of the measurement."""

    # lengths at which the accuracy is measured
    lengths: tuple[PositiveInt, ...] = Field(default=GEOMETRIC, min_length=1)
    sequences: PositiveInt = 128  # sequences of which it is the accuracy
    seed: NonNegativeInt = 0  # seed of these sequences
    rtol: PositiveFloat = 1e-4  # relative tolerance of their fixed points
    max_iterations: PositiveInt = 1000  # the most self-iterations per token
    words: PositiveInt = 256  # words from which a failure is predicted
    words_seed: NonNegativeInt = 1  # seed of these words
    read: PositiveInt = 2  # their length, in training lengths
    blocks: PositiveInt = 8  # blocks of positions in a training length, for q
    pairs: PositiveInt = 32  # pairs of states between which errors are injected
    follow: PositiveInt = 32  # tokens for which these errors are followed


def failure(run: Run, settings: FailureSettings) -> dict[str, Any]:
    """Predict from short words when a run fails, and measure its accuracy at every length.

    The prediction is that of `analysis.error_control`, which sees no longer word than it is told.
    """
    trained = run.config.length
    block = max(1, trained // settings.blocks)
    errors = error_control.analyse(
        run,
        sequences=settings.words,
        length=settings.read * trained,
        block=block,
        every=max(1, block // 2),
        seed=settings.words_seed,
        pairs=settings.pairs,
        follow=settings.follow,
    )
    how = settings.model_dump(include={"lengths", "sequences", "rtol", "max_iterations", "seed"})
    numbers = accuracy(run, LengthSettings(mode="sequential", **how))
    return {
        "trained": trained,
        "read": settings.read * trained,
        "predicted": errors.horizon.length,
        "how": errors.horizon.how,
        "limit": errors.spread.limit,
        "tokens": errors.spread.tokens.tolist(),
        "q": errors.spread.upper.tolist(),
        "left": errors.left,
        **{name: numbers[name] for name in ("accuracy", "share_converged", "chance")},
    }


@cache
def certified(settings: FailureSettings) -> dict[str, Any]:
    """Compile S3 into weights, prove and check that they are right at every length, and measure."""
    with TemporaryDirectory() as folder:
        run = compile_run("S3", Path(folder) / "compiled")
        verified = check_certificate(certify(run, claim="executed"), run)
        identity = RunIdentity.of(run)
        found = failure(run, settings)
    found |= {"certificate": verified, "weights_sha256": identity.weights_sha256}
    plain: dict[str, Any] = json_ready(found)
    return plain


SETTINGS = FailureSettings()
FACTOR = 2
"""A prediction is right if it is off by no more than this: two steps of the lengths that are tested."""
TICKS = (4, 16, 64, 256, 1024, 4096)
EDGE = 4 * TICKS[-1]  # where it is drawn what lies beyond all lengths that were tested
SEEDS = range(3)
GROWING = {
    "task": "S3",
    "start_length": 4,
    "length_growth": 2,
    "growth_accuracy": 0.93,
    "loss_until_error": False,
    "steps": 2500,
    "learning_rate": 5e-3,
    "carried_share": 0.0,
}
REFLECTING = {"negative_eigenvalues": True}


class Forecast(NamedTuple):
    """Prediction for a run from short words, and measurement; None stands for no failure."""

    read: int
    predicted: float | None
    known: bool
    failed: int | None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Forecast":
        """Return that of the values of a run."""
        failed = next((int(n) for n, share in values["accuracy"].items() if share < SHARE_BELOW), None)
        return cls(values["read"], values["predicted"], values["how"] != "too short", failed)

    @property
    def counts(self) -> bool:
        """Return whether the model was right on all that was read: something was still to be predicted."""
        return self.failed is None or self.failed > self.read

    @property
    def right(self) -> bool:
        """Return whether the failure is at most a factor of 2 off, or was rightly not predicted."""
        if self.failed is None:
            return self.known and (self.predicted is None or self.predicted > SETTINGS.lengths[-1])
        return self.predicted is not None and self.failed / FACTOR <= self.predicted <= self.failed * FACTOR


def _forecasts(row: pf.Row) -> list[Forecast]:
    return [Forecast.of(run.values) for run in row.runs]


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count the predictions that are right, of runs that are right on the words they are drawn from.

    Reproduced if all are, and some runs fail and some do not; not reproduced if no failure is predicted.
    """
    counted = [forecast for row in rows for forecast in _forecasts(row) if forecast.counts]
    failing = [forecast for forecast in counted if forecast.failed is not None]
    lasting = [forecast for forecast in counted if forecast.failed is None]
    dated = sum(forecast.right for forecast in failing)
    because = (
        f"failures predicted to a factor of {FACTOR} from shorter words: {dated} of {len(failing)}, and none "
        f"was predicted of {sum(forecast.predicted is None for forecast in failing)} of these; runs without "
        f"a failure of which none was predicted: {sum(f.right for f in lasting)} of {len(lasting)}"
    )
    complete = lasting and not any(row.failed for row in rows) and all(f.right for f in counted)
    return pf.graded(bool(complete), dated > 0, because)


def _accuracy(axes: Axes, rows: pf.Rows) -> None:
    """Draw a line per run against length, and the compiled model, which is proved right at every length."""
    compiled = rows.shared["certified"]["accuracy"]
    axes.plot(
        [*map(int, compiled), EDGE], [*compiled.values(), 1.0], color="black", linewidth=3.5,
        label="compiled, proved right at every length",
    )  # fmt: skip
    axes.plot([EDGE], [1.0], color="black", marker=">", markersize=6, linestyle="")
    for row in rows:
        for place, run in enumerate(row.runs):
            accuracy = run.values["accuracy"]
            axes.plot(
                [*map(int, accuracy)], [*accuracy.values()], color=row.look.color, linestyle=row.look.dashes,
                linewidth=0.9, marker=row.look.marker, markersize=3, markevery=(place, 4),
                label=row.label if place == 0 else None,
            )  # fmt: skip
    axes.axhline(SHARE_BELOW, color=GREY, linewidth=0.9, linestyle="--", label="90%")
    axes.axhline(rows.shared["certified"]["chance"], color=GREY, linewidth=0.9, linestyle=":", label="chance")
    powers_of_two(axes, TICKS)
    axes.set(xlabel="sequence length (tokens)", ylabel="accuracy", ylim=(-0.02, 1.06))


def _failures(axes: Axes, rows: pf.Rows) -> None:
    """Draw predicted against measured lengths of failure, open where a run failed within the words read."""
    ends = np.array([TICKS[0] / 2, EDGE / 2])
    axes.fill_between(
        ends, ends / FACTOR, ends * FACTOR, color=GREY, alpha=0.15, linewidth=0, label="off by a factor of 2"
    )
    axes.plot(ends, ends, color=GREY, linewidth=0.8)
    for number, row in enumerate(rows):
        for place, forecast in enumerate(_forecasts(row)):
            beside = 2 ** (0.45 * (place - (row.of - 1) / 2))
            above = 2 ** (0.3 * (number - (len(rows) - 1) / 2))
            axes.plot(
                [EDGE * beside if forecast.failed is None else forecast.failed],
                [EDGE * above if forecast.predicted is None else forecast.predicted],
                color=row.look.color, marker=row.look.marker, markersize=4.5, linestyle="", alpha=0.8,
                markerfacecolor=row.look.color if forecast.counts else "none",
            )  # fmt: skip
    compiled = Forecast.of(rows.shared["certified"])
    axes.plot(
        [compiled.failed or EDGE], [compiled.predicted or EDGE],
        color="black", marker="*", markersize=9, linestyle="", zorder=1, label="compiled",
    )  # fmt: skip
    powers_of_two(axes, TICKS)
    axes.set_yscale("log", base=2)
    names = [*map(str, TICKS)]
    axes.set_xticks([*TICKS, EDGE], [*names, "none"])
    axes.set_yticks([*TICKS, EDGE], [*names, "none"])
    axes.minorticks_off()
    limits = (TICKS[0] / 2, 4 * EDGE)
    axes.set(xlabel="below 90%: measured (tokens)", ylabel="predicted (tokens)", xlim=limits, ylim=limits)


def _look(settings: pf.Settings) -> Look:
    of_model = MODEL_LOOKS[settings["model"]]
    again = settings["model"] == "gated-deltaproduct" and settings.get("length") == 32
    return replace(of_model, marker="h", dashes=":") if again else of_model


FIGURE = pf.Figure(
    title="Errors at short lengths and the length of failure",
    section="State tracking",
    claim=pf.Claim(
        "the time at which the spread of the states of a class reaches its limit against the distance of "
        "the classes tells the length at which a model fails on S3",
        "Chung, Choi and Kim 2026, arXiv 2605.07755",
        _judge,
    ),
    runs=(
        pf.Grid({"model": ["implicit-mamba2"], "seed": SEEDS}, {"task": "S3"}),
        pf.Grid({"model": ["lstm", "elman"], "seed": SEEDS}, {**GROWING, "length": 16}),
        pf.Grid({"model": ["gated-deltaproduct"], "seed": SEEDS}, {**GROWING, **REFLECTING, "length": 16}),
        pf.Grid({"model": ["pd-ssm"], "seed": SEEDS}, {**GROWING, "length": 16}),
        pf.Grid({"model": ["gated-deltaproduct"], "seed": SEEDS}, {**GROWING, **REFLECTING, "length": 32}),
        pf.Grid({"model": ["mamba2"], "seed": SEEDS}, {**GROWING, "length": 16}),
    ),
    measure=(pf.Measurement("failure", failure, SETTINGS),),
    shared={"certified": lambda: certified(SETTINGS)},
    label=lambda settings: (
        f"{model_label(settings['model'])}, trained at {settings.get('length', 32)} tokens"
    ),
    looks=_look,
    panels=[pf.Drawn(_accuracy), pf.Drawn(_failures)],
    layout=pf.Layout(columns=(2, 1), height=(3.7, 6.8), share=("none", "none"), legend=(2, 1)),
)
