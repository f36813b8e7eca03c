"""q against brute force, and its horizon against closed forms."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from torch import Tensor

from analysis.error_control import Horizon, Spread, measure_spread, visit_ratios
from automata.errors import InputError
from automata.tasks.registry import make_task
from implicit.config.recipes import recipe
from implicit.models.interface import ModelConfig
from implicit.models.step_model import StepModel
from implicit.runs.loading import Run
from theory import State

RNG = np.random.default_rng(0)


def brute_force(states: np.ndarray, classes: np.ndarray, visit: int) -> float:
    """q of one visit: the other visits' mean, and a projection by least squares instead of by an SVD."""
    labels = [label for label in np.unique(classes) if (classes == label).sum() >= 2]
    means = {label: states[classes == label].mean(axis=0) for label in labels}
    differences = np.stack([means[a] - means[b] for a in labels for b in labels if a < b], axis=1)
    others = np.flatnonzero((classes == classes[visit]) & (np.arange(len(classes)) != visit))
    away = states[visit] - states[others].mean(axis=0)
    within = differences @ np.linalg.lstsq(differences, away, rcond=None)[0]
    own = means[classes[visit]]
    nearest = min(np.linalg.norm(means[label] - own) for label in labels if label != classes[visit])
    return float(np.linalg.norm(within) / nearest)


def test_q_is_that_of_brute_force() -> None:
    classes = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3, -1])
    states = RNG.normal(size=(4, 6))[classes] + 0.2 * RNG.normal(size=(len(classes), 6))
    ratios = visit_ratios(states, classes)
    assert np.isnan(ratios[-2:]).all()  # alone in its class, and left out
    # the same numbers by other routes: rounding of least squares
    expected = [brute_force(states[:-1], classes[:-1], visit) for visit in range(9)]
    np.testing.assert_allclose(ratios[:9], expected, rtol=1e-10)


def test_q_below_one_half_means_that_the_nearest_mean_is_right() -> None:
    classes = RNG.integers(0, 5, 400)
    states = RNG.normal(size=(5, 3))[classes] + 0.3 * RNG.normal(size=(400, 3))
    ratios = visit_ratios(states, classes)
    means = np.stack([states[classes == label].mean(axis=0) for label in range(5)])
    nearest = np.linalg.norm(states[:, None] - means, axis=-1).argmin(axis=1)
    # q is of the mean of the others, farther from the visit than that of all: still a sufficient condition
    assert (nearest == classes)[ratios < 0.5].all()
    assert (nearest != classes).any()


def test_q_does_not_see_what_tells_no_classes_apart() -> None:
    rng = np.random.default_rng(5)  # its own: how far classes are apart decides what rounding does
    classes = np.repeat([0, 1, 2], 20)
    states = np.zeros((60, 4))
    states[:, :2] = rng.normal(size=(3, 2))[classes] + 0.1 * rng.normal(size=(60, 2))
    ratios = visit_ratios(states, classes)
    states[:, 2] = 1000 * np.tile(np.repeat([1.0, -1.0], 10), 3)  # the same mean in every class
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    # rounding of numbers of size 1000 against distances of size 0.1
    np.testing.assert_allclose(visit_ratios(7 * states @ turn + 5, classes), ratios, rtol=1e-8)


class Drift(StepModel):
    """Parity by λ = −1 with independent errors after every token: Theorem 3 of docs/error_control.md."""

    name = "drift"
    SIZE = 0.04

    def __init__(self) -> None:
        super().__init__(ModelConfig(vocabulary_size=2, output_size=2))
        self.generator = torch.Generator().manual_seed(0)

    def init_state(self, batch_size: int) -> State:
        return {"h": torch.ones(batch_size, 1, dtype=torch.float64)}

    def embed(self, tokens: Tensor) -> Tensor:
        return 1 - 2 * tokens[..., None].double()

    def update(self, state: State, inputs: Tensor) -> State:
        errors = torch.randn(state["h"].shape, generator=self.generator, dtype=torch.float64)
        return {"h": inputs * state["h"] + self.SIZE * errors}

    def read(self, state: State) -> Tensor:
        return torch.cat([state["h"], -state["h"]], dim=-1)


def run_of(model: Any, length: int) -> Run:
    return Run(Path("runs/drift"), recipe("parity", "lstm", length=length), model, make_task("parity"), [])


def test_errors_that_add_up_reach_the_limit_where_a_random_walk_does() -> None:
    """|N(0, tσ²)| exceeds half of the distance 2 in 10% of the words at t = (1/(1.645 σ))²."""
    tokens, labels = make_task("parity").sample(2000, 160, np.random.default_rng(1))
    spread = measure_spread(
        run_of(Drift(), 16), torch.from_numpy(tokens), torch.from_numpy(labels), block=16, every=8
    )
    expected = (1 / (scipy.stats.norm.ppf(0.95) * Drift.SIZE)) ** 2
    assert 160 < expected < 250
    assert spread.horizon.how == "extrapolated"
    # a quantile of 4,000 visits is off by 3% in q, and a line through nine of them by as much again
    assert spread.horizon.length == pytest.approx(expected, rel=0.15)
    walk = scipy.stats.norm.ppf(0.95) * Drift.SIZE * np.sqrt(spread.tokens + 4) / 2
    np.testing.assert_allclose(spread.upper[1:], walk[1:], rtol=0.12)
    right = scipy.stats.norm.cdf(1 / (Drift.SIZE * np.sqrt(spread.tokens)))
    np.testing.assert_allclose(spread.accuracy, right, atol=0.02)


def made(upper: list[float], accuracy: list[float], training_length: int = 2) -> Spread:
    ratios = np.repeat(np.array(upper)[:, None], 4, axis=1)
    return Spread(
        np.arange(1.0, len(upper) + 1), ratios, np.ones(len(upper)), np.array(accuracy), training_length
    )


def test_the_limit_is_what_the_model_read_within_its_training_length() -> None:
    assert made([0.3, 0.4, 0.9], [1, 1, 1]).limit == 0.5
    assert made([0.7, 0.6, 0.9], [1, 1, 1]).limit == 0.7
    assert made([0.7, 0.6, 0.9], [0.5, 1, 1]).limit == 0.6


def test_a_failure_is_predicted_where_q_exceeds_its_limit_and_grows() -> None:
    right = [1.0] * 8
    assert made([0.1, 0.1, 0.2, 0.3, 0.4, 0.45, 0.55, 0.6], right).horizon == Horizon(7.0, "reached")
    assert made([0.1, 0.1, 0.5, 0.49, 0.51, 0.5, 0.49, 0.51], right).horizon == Horizon(None, "none")
    assert made([0.9] * 8, [0.5] * 8).horizon == Horizon(1.0, "reached")  # never learned
    assert made([0.9] * 8, right).horizon == Horizon(None, "none")  # read all the same
    assert made([0.1, 0.1, 0.6, 0.7, 0.8], [1.0] * 5).horizon == Horizon(None, "too short")
    assert "do not tell whether it grows" in Horizon(None, "too short").sentence
    assert made([0.4, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05], right).horizon == Horizon(None, "none")


def test_where_accuracy_falls_is_found() -> None:
    assert made([0.1] * 3, [1, 0.89, 0.95]).failure == 2
    assert made([0.1] * 3, [1, 0.9, 1]).failure is None


def test_too_few_words_are_refused() -> None:
    tokens = torch.tensor([[0, 0, 0, 0]])
    with pytest.raises(InputError, match="sequences is 1, too few for two visits"):
        measure_spread(run_of(Drift(), 4), tokens, torch.zeros(1, 4, dtype=torch.int64), block=4, every=1)


@pytest.mark.parametrize(("length", "how"), [(700.0, "extrapolated"), (810.0, "too far")])
def test_no_failure_is_foretold_far_beyond_what_was_read(length: float, how: str) -> None:
    """q² = t / (4 · length) reaches 1/4 there; eight tokens were read, and 100 times as many are the most."""
    spread = made([float(np.sqrt(t / (4 * length))) for t in range(1, 9)], [1.0] * 8)
    assert spread.horizon.how == how
    if how == "extrapolated":
        assert spread.horizon.length == pytest.approx(length)
    else:
        assert spread.horizon.length is None
        assert "beyond 100 times the words that were read" in spread.horizon.sentence
