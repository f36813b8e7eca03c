"""The belief decoded from the state of a model by a linear probe, against the exact one and its own update.

The probe is an affine function of the state, fitted by ridge least squares. The features x are the entries of
the state, centred and divided by their standard deviation over the fitted sequences. Weights minimise
mean ‖Wx + c − b‖² + λ ‖W‖²; λ is one of `REGULARISATIONS`, that with the smallest total variation on the
validation sequences. The decoded belief is the point of the simplex that is nearest to Wx + c. KL is taken
with 10⁻⁶ of the uniform distribution mixed in, so that it is finite.

Two models can predict the same and still hold different things: at the last tokens of every length are
measured

- the distance of the belief decoded from the state s_t from the exact belief b_t;
- the distance of the belief decoded from s_{t+1} from what Bayes' rule makes of the one decoded from s_t with
  token t + 1: *one-step consistency*, 0 where the state is updated as the belief that it holds should be.

Source:
    Duchi et al. 2008, "Efficient projections onto the l1-ball", for the projection; Charikar, Chen and
    Farach-Colton 2002, "Finding frequent items in data streams", for the count sketch of large states.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg
import torch
from numpy.typing import NDArray
from torch import Tensor

from analysis.belief.exact import ExactSequences, exact_sequences
from analysis.belief.prediction import divergence
from analysis.belief.reading import BeliefSettings, Block, read_in_blocks
from analysis.belief.statistics import Estimate, estimate
from analysis.framework.arrays import FloatArray, IntArray
from analysis.framework.visited_states import entries
from automata.errors import InputError
from automata.tasks.observed import NOTHING, ObservedTask
from implicit.models.interface import SequenceModel
from implicit.training.streams import Stream
from theory.transition import State

MOST_FEATURES = 4096
"""A larger state is projected at random to so many numbers: the fit solves equations of this size."""
REGULARISATIONS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""λ; the features have variance 1."""
SMOOTHING = 1e-6  # share of the uniform distribution in a decoded belief before KL is taken


@dataclass(frozen=True, eq=False)
class Features:
    """The numbers that a probe reads from a state: all of its parts, in the order of their names.

    ``buckets`` says to which of ``size`` features a random projection adds each entry, and ``signs`` with
    which sign, ``[entries]``; both are None without a projection.
    """

    size: int
    dtype: type = np.float32
    buckets: Tensor | None = None
    signs: Tensor | None = None

    @classmethod
    def of(cls, model: SequenceModel, seed: int) -> "Features":
        """Return the features of a model's state; a random projection if it has over `MOST_FEATURES`."""
        begun, most = entries(model.init_state(1)), MOST_FEATURES
        size, dtype = begun.shape[1], np.float64 if begun.dtype == torch.float64 else np.float32
        if size <= most:
            return cls(size, dtype)
        rng = np.random.default_rng(seed)
        buckets = torch.from_numpy(rng.integers(0, most, size))
        return cls(most, dtype, buckets, torch.from_numpy(rng.choice([-1.0, 1.0], size)))

    @property
    def projected(self) -> bool:
        """Return whether the state is too large to be read as it is."""
        return self.buckets is not None

    def read(self, states: State) -> NDArray[np.floating]:
        """Return the features of states, ``[sequences, places, size]``, in that precision."""
        wide = torch.float64 if self.dtype is np.float64 else torch.float32
        flat = entries(states, sorted(states), leading=2).cpu().to(wide)
        if self.buckets is not None and self.signs is not None:
            projected = flat.new_zeros((*flat.shape[:2], self.size))
            flat = projected.index_add_(-1, self.buckets, flat * self.signs.to(flat.dtype))
        found: NDArray[np.floating] = flat.numpy()
        return found


def nearest_distributions(points: FloatArray) -> FloatArray:
    """Return the nearest points of the simplex in the Euclidean distance, over the last axis."""
    falling = -np.sort(-points, axis=-1)
    count = np.arange(1, points.shape[-1] + 1)
    thresholds = (falling.cumsum(axis=-1) - 1) / count
    kept = (falling > thresholds).sum(axis=-1, keepdims=True)  # at least 1: the largest is above itself − 1
    return np.maximum(points - np.take_along_axis(thresholds, kept - 1, axis=-1), 0)


def total_variation(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return half the sum of the absolute differences, over the last axis."""
    return np.asarray(np.abs(one - other).sum(axis=-1) / 2)


def belief_divergence(exact: FloatArray, decoded: FloatArray) -> FloatArray:
    """Return KL(exact ‖ decoded) in nats, with 10⁻⁶ of the uniform distribution in what is decoded.

    It is off by at most 1.1 · 10⁻⁶ where both agree, and at most log(n · 10⁶) for n states.
    """
    smoothed = (1 - SMOOTHING) * decoded + SMOOTHING / decoded.shape[-1]
    return divergence(exact, np.log(smoothed))


@dataclass(frozen=True, eq=False)
class Probe:
    """A fitted probe."""

    center: FloatArray  # of the features, ``[features]``
    scale: FloatArray  # their standard deviations, ``[features]``; 1 where one is constant but for rounding
    weights: FloatArray  # ``[features, states]``
    offset: FloatArray  # ``[states]``
    regularisation: float  # λ
    # total variation by λ, on the validation sequences; NaN where the equations are singular
    validation: dict[float, float]

    def decode(self, features: NDArray[np.floating]) -> FloatArray:
        """Return the beliefs decoded from features, ``[…, states]``.

        Features that are not finite tell nothing: the mean of the fitted beliefs is decoded.
        """
        finite = np.isfinite(features).all(axis=-1)
        read = np.where(finite[..., None], features, self.center)
        return nearest_distributions((read - self.center) / self.scale @ self.weights + self.offset)


def fit_probe(
    features: NDArray[np.floating],
    beliefs: FloatArray,
    validation_features: NDArray[np.floating],
    validation_beliefs: FloatArray,
    regularisations: Sequence[float] = REGULARISATIONS,
) -> Probe:
    """Fit a probe for every λ, and return the one that is best on the validation sequences.

    Features are ``[samples, features]``, beliefs ``[samples, states]``. Features that are not finite, as
    those of a state that has overflowed, are refused.
    """
    if not np.isfinite(features).all():
        raise InputError(
            "the state is not finite at the training length, so that no probe can be fitted to it; "
            "give another run, or leave the probe out with --no-probe"
        )
    given = features.astype(np.float64)
    center = given.mean(axis=0)
    given -= center
    scale = given.std(axis=0)
    scale[scale <= 8 * np.finfo(features.dtype).eps * np.abs(center)] = 1.0  # constant but for rounding
    given /= scale
    offset = beliefs.mean(axis=0)
    gram = given.T @ given / len(given)
    moments = given.T @ (beliefs - offset) / len(given)
    found: dict[float, Probe] = {}
    tried: dict[float, float] = {}
    for regularisation in regularisations:
        diagonal = np.diag_indices_from(gram)
        regularised = gram.copy()
        regularised[diagonal] += regularisation
        try:
            factor = scipy.linalg.cho_factor(regularised, overwrite_a=True, check_finite=False)
        except np.linalg.LinAlgError:  # singular to working precision: a greater λ is needed
            tried[regularisation] = float("nan")
            continue
        weights = scipy.linalg.cho_solve(factor, moments)
        probe = Probe(center, scale, weights, offset, regularisation, tried)
        distances = total_variation(probe.decode(validation_features), validation_beliefs)
        tried[regularisation] = float(distances.mean())
        found[regularisation] = probe
    return min(found.values(), key=lambda probe: tried[probe.regularisation])


MOST_SAMPLES = 8192  # states to which a probe is fitted at the most, evenly spread over the positions


def window_positions(length: int, window: int) -> IntArray:
    """Return the positions of the last tokens of a length, and the one before them.

    Example:
        >>> window_positions(64, 3).tolist(), window_positions(2, 32).tolist()
        ([60, 61, 62, 63], [0, 1])
    """
    return np.arange(max(0, length - 1 - window), length)


def probe_sequences(
    task: ObservedTask, length: int, settings: BeliefSettings
) -> tuple[ExactSequences, ExactSequences]:
    """Draw sequences to which probes are fitted, and others on which the regularisation is chosen."""
    count = max(1, min(length, MOST_SAMPLES // settings.probe_sequences))
    positions = np.unique(np.linspace(0, length - 1, count).round().astype(np.int64))
    parts = ((settings.probe_sequences, Stream.TRAIN), (settings.probe_validation, Stream.VALIDATION))
    fitted, validation = (
        exact_sequences(task, sequences, length, settings.probe_seed, positions, stream)
        for sequences, stream in parts
    )
    return fitted, validation


def fitted_probe(
    model: SequenceModel,
    features: Features,
    drawn: tuple[ExactSequences, ExactSequences],
    settings: BeliefSettings,
) -> Probe:
    """Fit the probe of a model's state to `probe_sequences`."""

    def samples(exact: ExactSequences) -> tuple[NDArray[np.floating], FloatArray]:
        read = FeatureSamples.empty(features, exact)
        label = f"probe, {len(exact.tokens)} sequences"
        for block in read_in_blocks(model, exact.tokens, settings, label):
            read.add(block)
        real = ~np.isnan(exact.beliefs).any(axis=-1)
        return read.found[real], exact.beliefs[real]

    fitted, validation = map(samples, drawn)
    return fit_probe(*fitted, *validation)


@dataclass(frozen=True, eq=False)
class FeatureSamples:
    """The features of states at the kept positions, ``[sequences, kept, features]``."""

    features: Features
    exact: ExactSequences
    found: NDArray[np.floating]

    @classmethod
    def empty(cls, features: Features, exact: ExactSequences) -> "FeatureSamples":
        """Return samples of which none is known yet."""
        shape = (len(exact.tokens), len(exact.kept), features.size)
        return cls(features, exact, np.full(shape, np.nan, dtype=features.dtype))

    def add(self, block: Block) -> None:
        """Enter the states of a block."""
        assert block.states is not None
        kept = self.exact.kept
        here = np.flatnonzero((kept >= block.first) & (kept < block.after))
        if here.size:
            after = kept[here] - block.first + 1  # the states of a block begin before its first token
            states = {name: part[:, after] for name, part in block.states.items()}
            self.found[block.rows, here] = self.features.read(states)


@dataclass(frozen=True)
class Decoded:
    """How far decoded beliefs are from the exact ones, at the last tokens of one length."""

    distance: Estimate  # total variation from the exact belief
    divergence: Estimate  # KL(exact ‖ decoded), in nats
    constant: Estimate  # total variation of the mean belief, which needs no state, from the exact one
    # total variation between the decoded belief and the Bayes update of the one decoded before, at tokens
    # that move or show something; 1 where that update is impossible
    inconsistency: Estimate
    impossible: float  # share of these tokens at which it is: the decoded belief rules out what is seen


def decoded_at(
    samples: FeatureSamples, probe: Probe, length: int, window: int, confidence: float = 0.95
) -> Decoded:
    """Decode the beliefs at the last tokens of a length, and compare.

    ``samples`` are those of the test sequences at the positions of `window_positions`, and others.
    """
    exact = samples.exact
    positions = window_positions(length, window)
    places = np.searchsorted(exact.kept, positions)
    beliefs = exact.beliefs[:, places]
    decoded = probe.decode(samples.found[:, places])
    in_window = np.arange(len(positions)) >= len(positions) - window  # not the one before it
    looked_at = ~np.isnan(beliefs).any(axis=-1) & in_window
    rows = np.nonzero(looked_at)[0]
    here, right = decoded[looked_at], beliefs[looked_at]
    gap, impossible, gap_rows = [], [], []
    for chosen, real in exact.by_length:
        inside = np.flatnonzero(positions[1:] < real)
        if not inside.size:
            continue
        tokens, after = exact.tokens[chosen, :real], positions[1:][inside]
        told = exact.task.observations(tokens)[:, after] != NOTHING
        images = exact.task.updated(decoded[chosen][:, inside], tokens, after)
        ruled_out = images.sum(axis=-1) == 0
        distance = total_variation(images, decoded[chosen][:, inside + 1])
        gap.append(np.where(ruled_out, 1.0, distance)[told])
        impossible.append(ruled_out[told])
        gap_rows.append(np.broadcast_to(chosen[:, None], told.shape)[told])
    gaps = np.concatenate([np.zeros(0), *gap])
    return Decoded(
        distance=estimate(total_variation(right, here), rows, confidence),
        divergence=estimate(belief_divergence(right, here), rows, confidence),
        constant=estimate(total_variation(right, probe.offset), rows, confidence),
        inconsistency=estimate(gaps, np.concatenate([np.zeros(0, np.int64), *gap_rows]), confidence),
        impossible=float(np.concatenate(impossible).mean()) if gaps.size else float("nan"),
    )
