"""The search for a cover: sets of states with radii, around the states that a model reaches.

Nothing of it is assumed of what it finds; `theory.rigorous.covers.radii.close_cover` proves that.

From the initial state all tokens are followed. A state that lies near one found before, with the same label,
is taken for it; where the loop forgets, finitely many remain. They are centres for the sets of a cover
(`theory.rigorous.covers.invariant_cover`), and of nothing that is found here anything is assumed there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt
from scipy.spatial import cKDTree

from analysis.certificates.proofs.steps import IterationSettings
from automata.tasks.word_problem import WordProblem
from implicit.runs.loading import STORED_RUNS, Run
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.contracting_metrics import contracting_metrics, step_jacobians
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop, StepErrors, with_radii
from theory.rigorous.covers.radii import LEAST_RADIUS, ClosedCover, bound_all, close_cover

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


OF_STORED_RUNS: dict[str, dict[str, Any]] = {
    "s3-small": {
        "distance": 3e-3,
        "rate": 0.7,
        "fraction": 0.14,
        "sets": 40_000,
        "tolerance": 1e-9,
        "small_radius": 3e-5,
    },
    "parity-elman": {"distance": 0.05, "rate": 0.9},
}
"""Settings with which a proof was found, where they are others than the defaults."""


class LengthsSettings(IterationSettings):
    """How the cover is searched for; what is proved does not depend on it."""

    distance: PositiveFloat = Field(default=1e-4, description="of states that are first taken for one")
    rate: PositiveFloat = Field(default=0.86, lt=1, description="contraction per token, to find metrics for")
    gain: PositiveFloat = Field(default=0.93, lt=1, description="a set is as large as keeps gains below this")
    fraction: PositiveFloat = Field(
        default=0.03, lt=1, description="share of that size within which states are taken for one"
    )
    sets: PositiveInt = Field(default=30_000, description="the most sets")
    tolerance: PositiveFloat = Field(
        default=1e-6, lt=1, description="the largest relative tolerance of the iteration that is proved right"
    )
    small_radius: PositiveFloat = Field(
        default=2e-6, description="of sets at which it is measured how gains grow with the radius"
    )


def for_run(settings: LengthsSettings, run: Run) -> LengthsSettings:
    """Return settings in which those that were not chosen are the ones of a stored run, if it has its own."""
    own = OF_STORED_RUNS.get(run.name, {}) if run.path.parent == STORED_RUNS else {}
    return settings.model_copy(update={n: own[n] for n in own if n not in settings.model_fields_set})


class SizedLoop(EnclosedLoop, Protocol):
    """A model on balls that says how many numbers its state has."""

    state_size: int


def find_cover(
    step: Step, loop: SizedLoop, task: WordProblem, settings: LengthsSettings, errors: StepErrors
) -> tuple[ClosedCover | None, str]:
    """Return a cover with what is proved of it, or why there is none."""

    def follow(tolerance: Tolerance) -> ReachableStates | None:
        return reachable_states(
            step, np.zeros(loop.state_size), task.initial_state, task.table, tolerance, settings.sets
        )

    def coarse_tolerance(states: Array, _labels: IntArray) -> tuple[Array, Array]:
        shape = (len(states), loop.state_size, loop.state_size)
        return np.broadcast_to(np.eye(loop.state_size), shape), np.full(len(states), settings.distance)

    many = f"more than {settings.sets} states lie farther than"
    unsettled = f"no metrics were found in which every step contracts by {settings.rate}"
    coarse = follow(coarse_tolerance)
    if coarse is None:
        return None, f"{many} {settings.distance} from each other"
    cover = _with_metrics(loop, coarse, task.table, settings.rate)
    if cover is None:
        return None, unsettled
    room = _room(loop, cover, settings.gain, settings.small_radius)

    def fine_tolerance(states: Array, labels: IntArray) -> tuple[Array, Array]:
        nearest = np.zeros(len(states), dtype=np.int64)
        for label in np.unique(labels):
            there, here = np.nonzero(coarse.labels == label)[0], np.nonzero(labels == label)[0]
            nearest[here] = there[cKDTree(coarse.states[there]).query(states[here])[1]]
        return cover.metrics[nearest], settings.fraction * room[nearest]

    fine = follow(fine_tolerance)
    if fine is None:
        return None, f"{many} their sets may be wide from each other"
    whole = _with_metrics(loop, fine, task.table, settings.rate)
    if whole is None:
        return None, unsettled
    return close_cover(loop, whole, errors=errors), ""


def _with_metrics(loop: SizedLoop, found: ReachableStates, table: IntArray, rate: float) -> Cover | None:
    """A cover around these states; its radii are still to be found."""
    count = len(found.states)
    identity = np.broadcast_to(np.eye(loop.state_size), (count, loop.state_size, loop.state_size))
    answers = table[found.labels]
    plain = Cover(found.states, identity, identity, np.zeros(count), found.targets, answers, found.latents)
    metrics = contracting_metrics(step_jacobians(loop, plain), found.targets, rate)
    if metrics is None:
        return None
    return Cover(found.states, *metrics, np.zeros(count), found.targets, answers, found.latents)


def _room(loop: SizedLoop, cover: Cover, share: float, small_radius: float) -> Array:
    """How large each set may be, so that its gains and those of all sets that follow stay below a share.

    The gain grows about linearly with the radius; a set of radius r leads into one of radius gain · r.
    """
    shape = cover.targets.shape
    gains, larger = (
        bound_all(loop, with_radii(cover, np.full(cover.set_count, radius))).gain.reshape(shape)
        for radius in (LEAST_RADIUS, small_radius)
    )
    slopes = np.nan_to_num((larger - gains) / small_radius, nan=np.inf).clip(1)
    room: Array = ((share - gains).clip(0.02) / slopes).min(axis=1)
    for _ in range(1000):
        followed = np.minimum(room, (share * room[cover.targets] / gains).min(axis=1))
        if np.allclose(followed, room, rtol=1e-6, atol=0):
            break
        room = followed
    return room
