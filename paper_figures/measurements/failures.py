"""Failures: the length at which short words foretell that a run fails, and the accuracy at every length."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis import error_control
from analysis.certify import certify
from analysis.check_certificate import check_certificate
from analysis.framework.output import RunIdentity, json_ready
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.compiled import compile_run
from implicit.runs.loading import Run
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
