"""What was foretold of runs from short words, what came, and how the two are compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis.error_control.spread import SHARE_BELOW
from paper_figures.figures.claim import Verdict

FACTOR = 2
"""A prediction is right if it is off by no more than this: two steps of the lengths that are tested."""


@dataclass(frozen=True)
class Forecast:
    """What was predicted of a run from short words, and what was measured.

    Attributes:
        model: its name.
        read: length of the words from which the failure was predicted.
        predicted: length of the failure; None if none was predicted.
        known: whether the words told enough for a prediction.
        failed: first of the tested lengths at which less than 90% was right; None if there is none.
        longest: of the tested lengths.

    Example:
        >>> forecast = Forecast("lstm", read=32, predicted=None, known=True, failed=None, longest=4096)
        >>> forecast.counts, forecast.right
        (True, True)
        >>> late = Forecast("lstm", read=32, predicted=200.0, known=True, failed=91, longest=4096)
        >>> late.counts, late.right
        (True, False)
    """

    model: str
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
        forecast_of(group["settings"]["model"], run)
        for group in found["groups"]
        for run in group["seeds"].values()
    ]


def forecast_of(model: str, run: Mapping[str, Any]) -> Forecast:
    """Return that of what was measured of one run.

    Args:
        model: its name.
        run: the prediction, the length of the words that were read for it, and the accuracy by length.

    Example:
        >>> run = {"read": 32, "predicted": 40.0, "how": "extrapolated", "accuracy": {"64": 0.5}}
        >>> forecast_of("lstm", run).right
        True
    """
    return Forecast(
        model,
        run["read"],
        run["predicted"],
        run["how"] != "too short",
        first_failure(run["accuracy"]),
        max(map(int, run["accuracy"])),
    )


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
    missed = sum(forecast.predicted is None for forecast in failing)
    because = (
        f"failures predicted to a factor of {FACTOR} from shorter words: {dated} of {len(failing)}, and none "
        f"was predicted of {missed} of these; runs without a failure of which none was predicted: "
        f"{sum(forecast.right for forecast in lasting)} of {len(lasting)}"
    )
    if not dated:
        return Verdict("not reproduced", because)
    complete = not any(group["failed"] for group in found["groups"])
    everything = lasting and complete and all(forecast.right for forecast in counted)
    return Verdict("reproduced" if everything else "partly", because)


def correlation(found: Mapping[str, Any]) -> tuple[int, float | None]:
    """Return of how many runs a failure was predicted and measured, and how the logarithms correlate.

    Counted are those whose failure lies beyond the words that were read; None for less than three of them,
    or where one of the two lengths is the same in all.

    Example:
        >>> correlation({"groups": []})
        (0, None)
    """
    both = np.array(
        [
            (forecast.predicted, forecast.failed)
            for forecast in forecasts(found)
            if forecast.counts and forecast.failed is not None and forecast.predicted is not None
        ]
    )
    if len(both) < 3 or (np.ptp(both, axis=0) == 0).any():
        return len(both), None
    return len(both), float(np.corrcoef(np.log(both), rowvar=False)[0, 1])
