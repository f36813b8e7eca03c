"""The probe and its choice of λ; means with intervals over sequences, and fitted rates: closed forms."""

import math
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from analysis.belief import probe as probes
from analysis.belief.probe import (
    REGULARISATIONS,
    Features,
    belief_divergence,
    fit_probe,
    nearest_distributions,
    total_variation,
)
from analysis.belief.statistics import binned, doubling_edges, estimate, fitted_rate
from automata.errors import InputError
from implicit.models.torch_rnn import LSTM, LSTMConfig


def test_the_nearest_distribution_is_the_projection() -> None:
    """p is the nearest point of a convex set exactly if no point of it lies beyond p as seen from x."""
    points = np.random.default_rng(0).normal(scale=[[0.1], [1.0], [10.0]] * 20, size=(60, 7))
    found = nearest_distributions(points)
    np.testing.assert_allclose(found.sum(axis=-1), 1, rtol=1e-12)
    assert (found >= 0).all()
    corners = np.eye(7) - found[:, None]
    assert np.einsum("nd,ncd->nc", points - found, corners).max() < 1e-9


def test_total_variation_and_divergence_of_distributions() -> None:
    p, q = np.array([0.5, 0.5, 0.0]), np.array([0.0, 0.5, 0.5])
    assert total_variation(p, q) == 0.5
    # half of the mass meets nothing but the smoothing
    expected = 0.5 * np.log(0.5 / (1e-6 / 3)) + 0.5 * np.log(0.5 / (0.5 * (1 - 1e-6) + 1e-6 / 3))
    assert belief_divergence(p, q) == pytest.approx(expected, rel=1e-12)


def drawn(samples: int, rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Beliefs, and features that hold them with noise among others that hold nothing."""
    beliefs = rng.dirichlet(np.ones(3), samples)
    features = beliefs @ np.array([[1.0, 0, 2], [0, 3, 0], [1, 1, 1]]) + rng.normal(size=(samples, 3)) / 4
    return np.concatenate([features, rng.normal(size=(samples, 40))], axis=1), beliefs


def test_the_regularisation_is_the_best_on_the_validation_sequences() -> None:
    rng = np.random.default_rng(0)
    found = fit_probe(*drawn(48, rng), *drawn(400, rng))
    assert list(found.validation) == list(REGULARISATIONS)
    assert found.regularisation == min(found.validation, key=found.validation.__getitem__)
    # 43 features of 48 samples are learnt by heart without regularisation
    assert found.regularisation > 1e-3
    assert found.validation[found.regularisation] < found.validation[1e-12]


def test_the_weights_are_those_of_ridge_regression() -> None:
    rng = np.random.default_rng(1)
    features, beliefs = drawn(200, rng)
    found = fit_probe(features, beliefs, *drawn(50, rng), regularisations=(0.1,))
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    # least squares with a row √(λN) for each feature
    wide = np.concatenate([scaled, np.sqrt(0.1 * 200) * np.eye(43)])
    targets = np.concatenate([beliefs - beliefs.mean(axis=0), np.zeros((43, 3))])
    expected = np.linalg.lstsq(wide, targets, rcond=None)[0]
    np.testing.assert_allclose(found.weights, expected, rtol=1e-9, atol=1e-12)
    points = scaled @ expected + beliefs.mean(axis=0)
    np.testing.assert_allclose(found.decode(features), nearest_distributions(points), atol=1e-9)


def test_features_that_do_not_vary_are_left_alone() -> None:
    rng = np.random.default_rng(2)
    wide, beliefs = drawn(100, rng)
    features = wide.astype(np.float32)
    features[:, 5] = 3.0 + 1e-7 * rng.normal(size=100)
    features[:, 6] = 0.0
    found = fit_probe(features, beliefs, features, beliefs)
    assert found.scale[5] == found.scale[6] == 1
    far = features.copy()
    far[:, 5:7] += 1e-6
    np.testing.assert_allclose(found.decode(far), found.decode(features), atol=1e-3)


def test_what_is_not_finite_tells_nothing_and_cannot_be_fitted() -> None:
    rng = np.random.default_rng(3)
    features, beliefs = drawn(100, rng)
    found = fit_probe(features, beliefs, features, beliefs)
    features[3, 0] = np.inf
    np.testing.assert_allclose(found.decode(features)[3], beliefs.mean(axis=0))
    with pytest.raises(InputError, match="the state is not finite at the training length"):
        fit_probe(features, beliefs, features, beliefs)


def test_a_random_projection_adds_every_entry_to_one_feature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probes, "MOST_FEATURES", 5)
    model = LSTM(LSTMConfig(vocabulary_size=2, output_size=2, d_model=8))
    features, again = Features.of(model, seed=4), Features.of(model, seed=4)
    assert (features.size, features.projected) == (5, True)
    unit = torch.eye(16)
    states = {"hidden.0": unit[None, :, 8:], "cell.0": unit[None, :, :8]}  # in the order of the names
    matrix = features.read(states)[0]
    np.testing.assert_array_equal(np.abs(matrix).sum(axis=1), 1)
    assert set(np.unique(matrix)) <= {-1.0, 0.0, 1.0}
    np.testing.assert_array_equal(again.read(states)[0], matrix)
    rng = np.random.default_rng(0)
    points = torch.from_numpy(rng.normal(size=(1, 3, 16)).astype(np.float32))
    read = features.read({"cell.0": points[..., :8], "hidden.0": points[..., 8:]})
    np.testing.assert_allclose(read, points.numpy() @ matrix, rtol=1e-5, atol=1e-6)  # float32 sums


def test_with_one_place_in_each_sequence_it_is_students_interval() -> None:
    values = np.random.default_rng(0).normal(size=9)
    found = estimate(values, np.arange(9), 0.9)
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    # float64 sums of nine numbers
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high), rel=1e-12)


def test_places_of_a_sequence_do_not_count_as_independent() -> None:
    values = np.random.default_rng(0).normal(size=9)
    repeated = estimate(np.repeat(values, 50), np.repeat(np.arange(9), 50))
    alone = estimate(values, np.arange(9))
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
    assert (repeated.sequences, repeated.places) == (9, 450)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        counts = rng.integers(1, 6, 40)
        sequences = np.repeat(np.arange(40), counts)
        values = rng.normal(size=40)[sequences] + rng.normal(size=counts.sum())
        found = estimate(values, sequences, 0.9)
        held += found.low <= 0 <= found.high
    # a ratio over 40 sequences: nearly 90%; five deviations of 1,000 coins are 4.7%
    assert abs(held / 1000 - 0.9) < 0.047 + 0.01


def test_nothing_has_no_mean_and_one_sequence_no_interval() -> None:
    nothing = estimate(np.zeros(0), np.zeros(0, np.int64))
    assert math.isnan(nothing.mean)
    assert nothing.cell == "–"
    one = estimate(np.array([1.0, 2.0]), np.array([3, 3]))
    assert (one.mean, one.cell) == (1.5, "1.5")
    assert math.isnan(one.low)
    infinite = estimate(np.array([1.0, np.inf]), np.array([0, 1]))
    assert infinite.mean == np.inf
    assert math.isnan(infinite.low)


def test_bins_share_out_all_places() -> None:
    rng = np.random.default_rng(0)
    by = rng.integers(1, 100, 500)
    for per_doubling in (1, 2, 4):
        edges = doubling_edges(99, per_doubling)
        assert edges == sorted(set(edges))
        found = binned(by.astype(np.float64), rng.integers(0, 5, 500), by, edges)
        assert sum(entry.places for entry in found.found) == 500
        for low, high, entry in zip(found.low, found.high, found.found, strict=True):
            assert entry.places == ((by >= low) & (by <= high)).sum()
            assert not entry.places or low <= entry.mean <= high
        assert (found.middles >= found.low).all()


def test_rates_are_those_of_the_part_before_what_underflows() -> None:
    times = np.arange(40.0)
    logs = np.stack([-0.25 * times, -0.75 * times])
    logs[0, 20:] = -np.inf
    logs[:, :5] += np.linspace(50, 0, 5)  # a transient, in the first half of both
    found = fitted_rate(logs)
    assert found.per_token == pytest.approx(-0.5)
    assert found.sequences == 2
    half = 0.25 * scipy.stats.t.ppf(0.975, 1)  # of two values, 0.25 on both sides of their mean
    assert (found.low, found.high) == pytest.approx((-0.5 - half, -0.5 + half))
    assert math.isnan(fitted_rate(np.full((2, 8), -np.inf)).per_token)
