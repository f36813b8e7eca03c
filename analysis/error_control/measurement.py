"""Are errors between the classes of states corrected, kept or added up?

Three measurements of one run: q along words (`analysis.error_control.spread`), with the model as it runs; and
in float64 the gains of words that return two states, and errors followed along random words
(`analysis.error_control.following`). All of it is measured on some words, and none of it is a bound.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PositiveInt

from analysis.error_control.following import Followed, follow_errors, median
from analysis.error_control.pairs import choose_pairs
from analysis.error_control.spread import SHARE_BELOW, Horizon, Spread, measure_spread
from analysis.framework.needs import CONSTANT_STATE, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.settings import SampleSettings, settings_from
from analysis.framework.visited_states import in_double_precision, sample_sequences
from implicit.runs.loading import Run

Verdict = Literal["corrected", "partly corrected", "kept", "growing", "unknown"]

CORRECTED, KEPT, GROWING = 0.1, 0.9, 1.1
"""An error is corrected if less than a tenth of it is left, and kept if it is the same to within a tenth."""
ROUNDING = 1e-9
"""Gains below this are rounding and the tolerance of the fixed points."""
NOT_A_BOUND = (
    "Measured, not a bound: other words may do worse. What is proved of a model for words of every length "
    "stands in its certificate (analysis.all_lengths)."
)


class ErrorControlSettings(SampleSettings):
    """Which words are read, and which errors are injected.

    Example:
        >>> ErrorControlSettings(pairs=8).errors
        (0.001, 0.01, 0.1, 0.4)
    """

    sequences: PositiveInt = Field(default=64, description="words along which q is measured")
    length: PositiveInt = Field(default=256, description="tokens of these words")
    block: PositiveInt = Field(default=16, description="positions whose visits are taken together for q")
    every: PositiveInt = Field(default=4, description="a state is visited after every so many tokens")
    pairs: PositiveInt = Field(default=32, description="pairs of states between which errors are injected")
    follow: PositiveInt = Field(default=32, description="tokens for which the errors are followed")
    errors: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = Field(
        default=(1e-3, 1e-2, 0.1, 0.4),
        min_length=1,
        description="sizes of the errors, as shares of the way to the other state",
    )
    max_iterations: PositiveInt = Field(
        default=1000, description="the most self-iterations per token, of the errors that are followed"
    )


@dataclass(frozen=True, eq=False)
class ErrorControlAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        spread: q and accuracy along words.
        followed: what becomes of errors.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=48, block=8, pairs=4, follow=16)
        >>> found.verdict, found.horizon.how, found.spread.failure
        ('corrected', 'none', None)
    """

    run: RunIdentity
    settings: ErrorControlSettings
    spread: Spread
    followed: Followed

    @property
    def smallest(self) -> float:
        """The smallest of the errors."""
        return min(self.settings.errors)

    @property
    def left(self) -> float:
        """What is left of the smallest error after the last token, in the median; 1 for an affine layer."""
        return self.followed.left(self.smallest)

    @property
    def verdict(self) -> Verdict:
        """What becomes of the smallest error in the median."""
        if np.isnan(self.left):
            return "unknown"
        if self.left < CORRECTED:
            return "corrected"
        if self.left < KEPT:
            return "partly corrected"
        return "kept" if self.left <= GROWING else "growing"

    @property
    def horizon(self) -> Horizon:
        """The length at which q says that the model fails."""
        return self.spread.horizon

    @property
    def sentence(self) -> str:
        """The finding, with what it was measured on."""
        settings, spread = self.settings, self.spread
        count = len(self.followed.shares[self.smallest])
        failed = spread.failure
        accuracy = (
            f"accuracy was never below {spread.accuracy.min():.3f}"
            if failed is None
            else f"accuracy fell below {SHARE_BELOW:.0%} after {failed:.0f} tokens"
        )
        converged = min(self.followed.share_converged, spread.share_converged)
        doubt = "" if converged == 1 else f"; up to {1 - converged:.2%} of the fixed points were not found"
        gains = self.followed.gains
        returns = (
            ""
            if gains is None
            else f"words that return both states change their distance by {median(gains.between):.2g} and "
            f"such an error by {_small(median(gains.within))} (medians, equal for an affine layer); "
        )
        return (
            f"an error of {self.smallest:g} of the way to a state of another class is {self.verdict}: "
            f"{_small(self.left)} of it is left after {settings.follow} tokens (median of {count} pairs, "
            f"where an affine layer leaves 1{doubt}); {returns}on {settings.sequences} words of "
            f"{settings.length} tokens, the q of 90% of the visits was {spread.upper[0]:.2g} at first and "
            f"{spread.upper[-1]:.2g} at last (limit {spread.limit:.2g}), {self.horizon.sentence}, and "
            f"{accuracy}"
        )

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "verdict": self.verdict,
            "sentence": self.sentence,
            "limits": NOT_A_BOUND,
            "left_of_the_smallest_error": self.left,
            "predicted_failure": {"tokens": self.horizon.length, "how": self.horizon.how},
            "measured_failure": self.spread.failure,
            "spread": self.spread.numbers(),
            "followed": self.followed.numbers(),
        }


def _small(value: float) -> str:
    return f"less than {ROUNDING:g}" if value < ROUNDING else f"{value:.2g}"


def analyse(run: Run, settings: ErrorControlSettings | None = None, **chosen: Any) -> ErrorControlAnalysis:
    """Measure what a model does to errors.

    Args:
        run: a loaded run of a word problem.
        settings: what to look at.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, a model whose state grows, a task that is no word problem, or words
            that visit too few classes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), sequences=8, length=16, block=8, pairs=4, follow=16)
        >>> found.left < 0.1, 0.5 < found.followed.gains.numbers()["between"]["median"] < 2
        (True, True)
    """
    settings = settings_from(ErrorControlSettings, chosen, settings)
    CONSTANT_STATE.require(run)
    task = word_problem_of(run)
    drawn = sample_sequences(task, settings.sequences, settings.length, settings.seed)
    tokens, labels = (part.to(run.model.device) for part in drawn)
    spread = measure_spread(run, tokens, labels, settings.block, settings.every)
    pairs = choose_pairs(
        task,
        settings.pairs,
        min(settings.length, run.config.length),
        settings.follow,
        np.random.default_rng(settings.seed),
    )
    model = in_double_precision(run.model)
    followed = follow_errors(model, pairs, settings.errors, settings.max_iterations, settings.seed)
    return ErrorControlAnalysis(RunIdentity.of(run), settings, spread, followed)
