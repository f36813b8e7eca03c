"""Do errors at short lengths tell the length at which a model fails? Predicted against measured, on S3."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis import error_control, executed
from analysis.check_certificate import check_certificate
from analysis.error_control.spread import SHARE_BELOW
from analysis.framework.output import RunIdentity, json_ready
from analysis.length_generalization import analyse
from implicit.checked_config import CheckedConfig
from implicit.compiled import compile_run
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped

TASK = "S3"
GEOMETRIC = (4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128, 181, 256, 362, 512, 724, 1024, 1448, 2048, 2896, 4096)
"""Powers of the root of two, rounded."""
FACTOR = 2
"""A prediction is right if it is off by no more than this: two steps of the lengths that are tested."""


class FailureSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> FailureSettings().lengths[-1]
        4096
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    lengths: tuple[PositiveInt, ...] = Field(
        default=GEOMETRIC, min_length=1, description="lengths at which the accuracy is measured"
    )
    sequences: PositiveInt = Field(default=128, description="sequences of which it is the accuracy")
    seed: NonNegativeInt = Field(default=0, description="seed of these sequences")
    rtol: PositiveFloat = Field(default=1e-4, description="relative tolerance of their fixed points")
    max_iterations: PositiveInt = Field(default=1000, description="the most self-iterations per token")
    words: PositiveInt = Field(default=256, description="words from which a failure is predicted")
    words_seed: NonNegativeInt = Field(default=1, description="seed of these words")
    read: PositiveInt = Field(default=2, description="their length, in training lengths")
    blocks: PositiveInt = Field(default=8, description="blocks of positions in a training length, for q")
    pairs: PositiveInt = Field(default=32, description="pairs of states between which errors are injected")
    follow: PositiveInt = Field(default=32, description="tokens for which these errors are followed")


SETTINGS = FailureSettings()


def measure(run: Run, settings: FailureSettings) -> dict[str, Any]:
    """Predict from short words when a run fails, and measure its accuracy at every length.

    The prediction is that of `analysis.error_control`, which sees no longer word than it is told.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = FailureSettings(lengths=(4, 8), sequences=2, words=8, pairs=2, follow=2)
        >>> found = measure(load_run("parity-small"), small)
        >>> found["read"], found["predicted"], found["accuracy"]
        (32, None, {4: 1.0, 8: 1.0})
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
    (numbers,) = (
        analyse(
            run,
            lengths=settings.lengths,
            sequences=settings.sequences,
            mode="sequential",
            rtol=settings.rtol,
            max_iterations=settings.max_iterations,
            seed=settings.seed,
        )
        .numbers()
        .values()
    )
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


SEEDS = range(3)
GROWING = {
    "task": TASK,
    "start_length": 4,
    "length_growth": 2,
    "growth_accuracy": 0.93,
    "loss_until_error": False,
    "steps": 2500,
    "learning_rate": 5e-3,
    "carried_share": 0.0,
}
"""Lengths grow from 4 tokens as the model learns them, and every sequence begins anew."""
REFLECTING = {"negative_eigenvalues": True}
"""Of the delta rule: eigenvalues in [-1, 1], so that a step can reflect."""
EXPERIMENT = Experiment(
    "error_control",
    (
        Grid({"model": ["implicit-mamba2"], "seed": SEEDS}, {"task": TASK}),
        Grid({"model": ["lstm", "elman", "mamba2", "pd-ssm"], "seed": SEEDS}, {**GROWING, "length": 16}),
        Grid({"model": ["gated-deltaproduct"], "length": [16, 32], "seed": SEEDS}, {**GROWING, **REFLECTING}),
    ),
    (Measurement("failure", measure, SETTINGS),),
)
AFFINE = ("mamba2", "pd-ssm", "gated-deltaproduct")
"""Models whose token acts affinely on the state, given the last tokens."""


@cache
def certified(settings: FailureSettings) -> dict[str, Any]:
    """Compile S3 into weights, prove them right at every length, check the proof, and measure as all others.

    Raises:
        RefusedError: if the checker refuses the certificate.

    Example:
        >>> found = certified(FailureSettings(lengths=(4,), sequences=2, words=8, pairs=2, follow=2))
        >>> found["certificate"][:38], found["accuracy"]
        ('The certificate holds of run compiled ', {'4': 1.0})
    """
    with TemporaryDirectory() as folder:
        run = compile_run(TASK, Path(folder) / "compiled")
        verified = check_certificate(executed.analyse(run).certificate(run), run)
        identity = RunIdentity.of(run)
        found = measure(run, settings)
    found |= {"certificate": verified, "weights_sha256": identity.weights_sha256}
    plain: dict[str, Any] = json_ready(found)
    return plain


def collect(outcomes: Sequence[Outcome], settings: FailureSettings = SETTINGS) -> Results:
    """Collect what was predicted and measured of every run, and of the compiled model.

    Example:
        >>> found = collect([], FailureSettings(lengths=(4,), sequences=2, words=8, pairs=2, follow=2))
        >>> found["groups"], found["certified"]["predicted"]
        ([], None)
    """
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "groups": grouped(outcomes, "failure"),
        "certified": certified(settings),
    }


@dataclass(frozen=True)
class Forecast:
    """What was predicted of a run from short words, and what was measured.

    Attributes:
        model: its name.
        seed: of the run.
        read: length of the words from which the failure was predicted.
        predicted: length of the failure; None if none was predicted.
        known: whether the words told enough for a prediction.
        failed: first of the tested lengths at which less than 90% was right; None if there is none.
        longest: of the tested lengths.

    Example:
        >>> forecast = Forecast("lstm", 0, read=32, predicted=None, known=True, failed=None, longest=4096)
        >>> forecast.counts, forecast.right
        (True, True)
        >>> late = Forecast("lstm", 1, read=32, predicted=200.0, known=True, failed=91, longest=4096)
        >>> late.counts, late.right
        (True, False)
    """

    model: str
    seed: int
    read: int
    predicted: float | None
    known: bool
    failed: int | None
    longest: int

    @property
    def counts(self) -> bool:
        """Whether the model was right on all that was read, so that something was still to be predicted."""
        return self.failed is None or self.failed > self.read

    @property
    def right(self) -> bool:
        """Whether the failure is at most a factor of 2 off, or none was predicted where there is none."""
        if self.failed is None:
            return self.known and (self.predicted is None or self.predicted > self.longest)
        return self.predicted is not None and self.failed / FACTOR <= self.predicted <= self.failed * FACTOR


def first_failure(accuracy: Mapping[str, float]) -> int | None:
    """Return the first length with an accuracy below 90%; None if there is none.

    Example:
        >>> first_failure({"16": 0.95, "32": 0.89, "64": 0.91}), first_failure({"16": 0.9})
        (32, None)
    """
    return next((int(length) for length, share in accuracy.items() if share < SHARE_BELOW), None)


def forecasts(found: Mapping[str, Any]) -> list[Forecast]:
    """Return those of all trained runs, in the order of the grid.

    Example:
        >>> forecasts({"groups": []})
        []
    """
    return [
        Forecast(
            group["settings"]["model"],
            int(seed),
            run["read"],
            run["predicted"],
            run["how"] != "too short",
            first_failure(run["accuracy"]),
            max(map(int, run["accuracy"])),
        )
        for group in found["groups"]
        for seed, run in group["seeds"].items()
    ]


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that q, read at short lengths, tells when a model fails.

    Counted are the runs that are right on all lengths up to that of the words from which the prediction is
    drawn. A prediction is right if it is at most a factor of 2 off, or if none up to the longest tested
    length was predicted of a run that does not fail there. Reproduced if at least one counted run fails, at
    least one does not, and all predictions are right; not reproduced if none of a counted run that fails is
    right; partly otherwise. Runs that failed to train make it partly at best. The compiled model, whose
    answer is known, is not counted.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    counted = [forecast for forecast in forecasts(found) if forecast.counts]
    failing = [forecast for forecast in counted if forecast.failed is not None]
    lasting = [forecast for forecast in counted if forecast.failed is None]
    dated = sum(forecast.right for forecast in failing)
    because = (
        f"failures predicted to a factor of {FACTOR} from shorter words: {dated} of {len(failing)}; runs "
        f"without a failure of which none was predicted: {sum(f.right for f in lasting)} of {len(lasting)}"
    )
    if not dated:
        return Verdict("not reproduced", because)
    complete = not any(group["failed"] for group in found["groups"])
    everything = lasting and complete and all(forecast.right for forecast in counted)
    return Verdict("reproduced" if everything else "partly", because)


def draw(found: Results, width: float) -> Figure:
    """Draw the figure."""
    raise NotImplementedError


def caption(found: Results) -> str:
    """Tell what is drawn."""
    return judge(found).because


FIGURE = PaperFigure(
    title="Errors at short lengths and the length of failure",
    claim=Claim(
        "the time at which the spread of the states of a class reaches its limit against the distance of "
        "the classes tells the length at which a model fails on S3",
        "Chung, Choi and Kim 2026, arXiv 2605.07755",
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
