"""The states that a closed loop can reach, up to small distances, as a finite automaton.

From the initial state all tokens are followed. A state that lies near one found before, with the same label,
is taken for it; where the loop forgets, finitely many remain. They are centres for the sets of a cover
(`theory.rigorous.covers.invariant_cover`), and of nothing that is found here anything is assumed there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from theory.rigorous.balls.ball import Array

IntArray = NDArray[np.int64]
Step = Callable[[Array, IntArray], tuple[Array, Array]]
Tolerance = Callable[[Array, IntArray], tuple[Array, Array]]
NEIGHBOURS = 8
"""Nearest states in the Euclidean norm that are tried in their own metrics."""


@dataclass(frozen=True, eq=False)
class ReachableStates:
    """States with their labels, where tokens lead from them, and the latents of these steps.

    Attributes:
        states: ``[states, n]``; the initial one is the first.
        labels: ``[states]``.
        targets: the number of the state that stands for the next one, ``[states, tokens]``.
        latents: ``[states, tokens, d]``.

    Example:
        `reachable_states` returns them.
    """

    states: Array
    labels: IntArray
    targets: IntArray
    latents: Array


def reachable_states(
    step: Step, initial: Array, label: int, table: IntArray, tolerance: Tolerance, limit: int
) -> ReachableStates | None:
    """Follow all tokens from the initial state, and take near states for one.

    Args:
        step: the next states and the latents, from states ``[m, n]`` and tokens ``[m]``.
        initial: the initial state, ``[n]``.
        label: of it.
        table: the label after a token, ``[labels, tokens]``.
        tolerance: metrics W ``[m, n, n]`` and radii r ``[m]`` of states with their labels: s lies near
            c if ‖W (s − c)‖₂ ≤ r.
        limit: the most states.

    Returns:
        None if there are more.

    Raises:
        FloatingPointError: if a state is not finite.

    Example:
        s' = s/2 + x on numbers, x in {0, 1}: within [0, 2], up to 1/4.

        >>> def halve(states, tokens):
        ...     return states / 2 + tokens[:, None], np.zeros((len(states), 1))
        >>> def near(states, labels):
        ...     return np.broadcast_to(np.eye(1), (len(states), 1, 1)), np.full(len(states), 0.25)
        >>> found = reachable_states(halve, np.zeros(1), 0, np.zeros((1, 2), int), near, limit=20)
        >>> found.states.ravel().tolist(), found.targets[:2].tolist()
        ([0.0, 1.0, 0.5, 1.5], [[0, 1], [2, 3]])
    """
    tokens = table.shape[1]
    states, labels = initial[None], np.array([label])
    metrics, radii = tolerance(states, labels)
    targets: list[IntArray] = []
    latents: list[Array] = []
    front = np.arange(1)
    while len(front):
        read = np.tile(np.arange(tokens), len(front))
        images, found = step(np.repeat(states[front], tokens, axis=0), read)
        if not np.isfinite(images).all():
            raise FloatingPointError("a state that words reach is not a finite number")
        after = table[np.repeat(labels[front], tokens), read]
        own_metrics, own_radii = tolerance(images, after)
        reached = _nearest(images, after, states, labels, metrics, radii)
        added: list[int] = []
        for row in np.nonzero(reached < 0)[0]:
            others = np.array(added, dtype=np.int64)
            away = own_metrics[others] @ (images[row] - images[others])[..., None]
            distance = np.linalg.norm(away[..., 0], axis=1) / own_radii[others]
            distance[after[others] != after[row]] = np.inf
            if len(added) and distance.min() <= 1:
                reached[row] = len(states) + int(distance.argmin())
            else:
                reached[row] = len(states) + len(added)
                added.append(int(row))
        targets.append(reached.reshape(-1, tokens))
        latents.append(found.reshape(len(front), tokens, -1))
        front = np.arange(len(states), len(states) + len(added))
        if len(states) + len(added) > limit:
            return None
        states, labels = np.concatenate([states, images[added]]), np.concatenate([labels, after[added]])
        metrics = np.concatenate([metrics, own_metrics[added]])
        radii = np.concatenate([radii, own_radii[added]])
    return ReachableStates(states, labels, np.concatenate(targets), np.concatenate(latents))


def _nearest(
    images: Array, after: IntArray, states: Array, labels: IntArray, metrics: Array, radii: Array
) -> IntArray:
    """The number of the state that each image is taken for; −1 for none."""
    reached = np.full(len(images), -1, dtype=np.int64)
    for label in np.unique(after):
        there, here = np.nonzero(labels == label)[0], np.nonzero(after == label)[0]
        if not len(there):
            continue
        count = min(NEIGHBOURS, len(there))
        near = there[cKDTree(states[there]).query(images[here], k=count)[1].reshape(len(here), count)]
        away = metrics[near] @ (images[here][:, None] - states[near])[..., None]
        distance = np.linalg.norm(away[..., 0], axis=-1) / radii[near]
        best = distance.argmin(axis=1)
        rows = np.arange(len(here))
        close = distance[rows, best] <= 1
        reached[here[close]] = near[rows, best][close]
    return reached
