"""Reachable states of loops whose attractors are known."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.certificates.proofs.lengths import reachable_states

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
PARITY = np.array([[0, 1], [1, 0]])


def third(states: Array, tokens: IntArray) -> tuple[Array, Array]:
    """s' = s/3 + 2x/3: from 0 the left ends of the Cantor set's intervals."""
    return states / 3 + 2 * tokens[:, None] / 3, tokens[:, None].astype(np.float64)


def within(radius: float, scale: float = 1.0) -> Any:
    def tolerance(states: Array, labels: IntArray) -> tuple[Array, Array]:
        return np.broadcast_to(scale * np.eye(1), (len(states), 1, 1)), np.full(len(states), radius)

    return tolerance


def test_targets_are_near_the_images_and_have_their_labels() -> None:
    found = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-3), limit=1000)
    assert found is not None
    count = len(found.states)
    # every interval of length 3⁻⁶ > 1e-3 holds a state of each parity; none is within 1e-3 of another
    assert 2**6 <= count <= 2 * 2**7
    for token in (0, 1):
        images, latents = third(found.states, np.full(count, token))
        assert np.abs(images - found.states[found.targets[:, token]]).max() <= 1e-3
        np.testing.assert_array_equal(found.labels[found.targets[:, token]], PARITY[found.labels, token])
        np.testing.assert_array_equal(found.latents[:, token], latents)
    for label in (0, 1):
        own = np.sort(found.states[found.labels == label].ravel())
        assert (np.diff(own) > 1e-3).all()


def test_metrics_scale_distances() -> None:
    plain = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-3), limit=1000)
    scaled = reachable_states(third, np.zeros(1), 0, PARITY, within(1e-2, scale=10.0), limit=1000)
    assert plain is not None
    assert scaled is not None
    np.testing.assert_array_equal(plain.states, scaled.states)


def test_a_limit_is_kept() -> None:
    assert reachable_states(third, np.zeros(1), 0, PARITY, within(1e-6), limit=100) is None
