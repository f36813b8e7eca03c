"""Errors in the state of a model that holds a belief: the pairs, an affine layer, and the exact filter."""

from typing import Any

import numpy as np
import pytest

from analysis.error_control.following import COMMON_TOKENS
from automata.errors import InputError
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.registry import registered_task
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, untrained_run
from paper_figures.measurements import beliefs
from paper_figures.measurements.beliefs import ErrorSettings, belief_errors, pairs_of

SMALL = ErrorSettings(pairs=6, length=24, follow=(8, 32))


def untrained(model: str, **sizes: Any) -> Run:
    return untrained_run(recipe("likely-swaps-3-reveals", model, **sizes))


def test_pairs_end_alike_can_occur_and_leave_different_beliefs() -> None:
    task = registered_task("likely-swaps-3-reveals")
    assert isinstance(task, PartiallyObserved)
    pairs = pairs_of(task, SMALL)
    assert pairs.first.shape == pairs.second.shape == (6, 24)
    assert pairs.after.shape == (6, 32)
    assert (pairs.first[:, -COMMON_TOKENS:] == pairs.second[:, -COMMON_TOKENS:]).all()
    for one, other in zip(pairs.first, pairs.second, strict=True):
        here, there = (task.beliefs(word[None])[0, -1] for word in (one, other))
        assert np.abs(here - there).sum() > 0


def test_errors_of_every_size_keep_their_share_in_an_affine_layer_only() -> None:
    """One layer of DeltaNet is affine in its memory where the windows agree; an LSTM is not."""

    def left(run: Run, size: float) -> list[float]:
        found = belief_errors(run, SMALL.model_copy(update={"size": size}))["left"]
        return [quarter for quarters in found.values() for quarter in quarters]

    affine, other = untrained("deltanet", layers=1, d_model=8), untrained("lstm", d_model=8)
    # rounding of float64 over an error of 0.001 of the way
    assert left(affine, 0.5) == pytest.approx(left(affine, 0.001), rel=1e-9)
    assert left(other, 1.0) != pytest.approx(left(other, 0.001), rel=1e-4)


def test_the_exact_filter_forgets_what_came_before_two_reveals() -> None:
    found = belief_errors(untrained("lstm", d_model=4), SMALL)["exact"]
    assert found[32] == [0.0, 0.0, 0.0]
    assert found[8][2] > 0


def test_too_few_pairs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    task = registered_task("likely-swaps-3-reveals")
    assert isinstance(task, PartiallyObserved)
    monkeypatch.setattr(beliefs, "total_variation", lambda one, other: np.zeros(1))
    with pytest.raises(InputError, match="pairs is 6, and 0 were found; give fewer"):
        pairs_of(task, SMALL)
