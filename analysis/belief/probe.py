"""A linear probe: the belief as an affine function of the state, fitted by ridge least squares.

The features x are the entries of the state, centred and divided by their standard deviation over the fitted
sequences. Weights minimise mean ‖Wx + c − b‖² + λ ‖W‖²; λ is one of `REGULARISATIONS`, that with the
smallest total variation on the validation sequences. What is decoded is the point of the simplex that is
nearest to Wx + c. KL is taken with 10⁻⁶ of the uniform distribution mixed in, so that it is finite.

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

from analysis.belief.prediction import divergence
from analysis.belief.reading import state_size
from analysis.framework.arrays import FloatArray
from automata.errors import InputError
from implicit.models.interface import SequenceModel
from theory.transition import State

MOST_FEATURES = 4096
"""A larger state is projected at random to so many numbers: the fit solves equations of this size."""
REGULARISATIONS = (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0)
"""λ; the features have variance 1."""
SMOOTHING = 1e-6  # share of the uniform distribution in a decoded belief before KL is taken


@dataclass(frozen=True, eq=False)
class Features:
    """The numbers that a probe reads from a state: all of its parts, in the order of their names.

    Of a random projection ``buckets`` says to which of ``size`` features each entry is added, and
    ``signs`` with which sign, ``[entries]``; both are None without one.
    """

    size: int
    dtype: type = np.float32
    buckets: Tensor | None = None
    signs: Tensor | None = None

    @classmethod
    def of(cls, model: SequenceModel, seed: int) -> "Features":
        """Return the features of a model's state; a random projection if it has over `MOST_FEATURES`."""
        entries, most = state_size(model), MOST_FEATURES
        dtypes = {part.dtype for part in model.init_state(1).values()}
        dtype = np.float64 if torch.float64 in dtypes else np.float32
        if entries <= most:
            return cls(entries, dtype)
        rng = np.random.default_rng(seed)
        buckets = torch.from_numpy(rng.integers(0, most, entries))
        return cls(most, dtype, buckets, torch.from_numpy(rng.choice([-1.0, 1.0], entries)))

    @property
    def projected(self) -> bool:
        """Whether the state is too large to be read as it is."""
        return self.buckets is not None

    def read(self, states: State) -> NDArray[np.floating]:
        """Return the features of states, ``[sequences, places, size]``, in that precision."""
        wide = torch.float64 if self.dtype is np.float64 else torch.float32
        flat = torch.cat([states[name].flatten(2).cpu().to(wide) for name in sorted(states)], dim=-1)
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
