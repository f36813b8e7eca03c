"""The probe: the nearest distribution, ridge regression in closed form, and the choice of λ."""

from typing import Any

import numpy as np
import pytest
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
