"""Means over places of several sequences, and rates of growth, with intervals over the sequences.

Places of one sequence hang together, so that the sequences are the independent units. With s_i the sum over
the places of sequence i and n_i their number, the mean is m = Σ s_i / Σ n_i, and its standard error is that
of a ratio, sqrt(Σ (s_i − m n_i)² N / (N − 1)) / Σ n_i for N sequences with places; the interval is Student's
with N − 1 degrees of freedom.

Source:
    Cochran 1977, "Sampling techniques", chapter 6, for the variance of a ratio.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.special

from analysis.framework.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Estimate:
    """A mean with its confidence interval.

    Example:
        >>> Estimate(0.5, 0.4, 0.6, sequences=8, places=20).cell
        '0.5 ± 0.1'
    """

    mean: float  # NaN if there is no place
    low: float  # end of the interval; NaN for fewer than two sequences
    high: float  # other end
    sequences: int  # with at least one place
    places: int  # of all sequences

    @property
    def cell(self) -> str:
        """The estimate in a table, with half the width of its interval."""
        if math.isnan(self.mean):
            return "–"
        half = (self.high - self.low) / 2
        return f"{self.mean:.3g}" + ("" if math.isnan(half) else f" ± {half:.2g}")


def estimate(values: FloatArray, sequences: IntArray, confidence: float = 0.95) -> Estimate:
    """Return the mean of values at places of sequences, with its interval over the sequences.

    ``sequences`` holds the number of the sequence of each value, ``[places]``.
    """
    present, number = np.unique(sequences, return_inverse=True)
    count, units = len(values), len(present)
    if not count:
        return Estimate(math.nan, math.nan, math.nan, 0, 0)
    mean = float(values.mean())
    if units < 2 or not math.isfinite(mean):
        return Estimate(mean, math.nan, math.nan, units, count)
    off = np.bincount(number, weights=values - mean)
    error = math.sqrt((off**2).sum() * units / (units - 1)) / count
    half = float(scipy.special.stdtrit(units - 1, (1 + confidence) / 2)) * error
    return Estimate(mean, mean - half, mean + half, units, count)


@dataclass(frozen=True, eq=False)
class Bins:
    """Means of one quantity in bins of another.

    Example:
        >>> found = binned(np.array([1.0, 3.0]), np.array([0, 1]), np.array([1, 5]), [1, 4, 8])
        >>> found.low.tolist(), found.high.tolist(), found.means.tolist()
        ([1, 4], [3, 7], [1.0, 3.0])
    """

    low: IntArray  # the smallest number that belongs to each bin, [bins]
    high: IntArray  # the largest, [bins]
    found: tuple[Estimate, ...]  # the mean in each

    @property
    def means(self) -> FloatArray:
        """``[bins]``."""
        return np.array([entry.mean for entry in self.found])

    @property
    def middles(self) -> FloatArray:
        """Where the bins are drawn on a logarithmic axis: the geometric middle, ``[bins]``."""
        return np.sqrt(self.low * (self.high + 1.0))


def binned(
    values: FloatArray,
    sequences: IntArray,
    by: IntArray,
    edges: IntArray | list[int],
    confidence: float = 0.95,
) -> Bins:
    """Return the means in the bins [edge, next edge) of another quantity.

    ``by`` decides the bin of a value, as ``sequences`` its sequence, all ``[places]``.
    """
    inside = [(by >= low) & (by < high) for low, high in pairwise(edges)]
    found = tuple(estimate(values[there], sequences[there], confidence) for there in inside)
    return Bins(np.array(edges[:-1]), np.array(edges[1:]) - 1, found)


def doubling_edges(last: int, per_doubling: int = 1) -> list[int]:
    """Return edges of bins from 1 to a last number, so many to each doubling."""
    count = int(per_doubling * math.log2(max(last, 1))) + 1
    rounded = {round(2 ** (number / per_doubling)) for number in range(count + 1)}
    return [*sorted(edge for edge in rounded if edge < max(last, 2)), last + 1]


@dataclass(frozen=True)
class Rate:
    """An exponential rate: what the logarithm gains with each token, in nats."""

    per_token: float  # the mean of the rates of the sequences
    low: float  # end of its confidence interval (Student's, over the sequences); NaN for fewer than two
    high: float  # other end
    sequences: int  # to which a line could be fitted

    @property
    def cell(self) -> str:
        """The rate in a table."""
        return Estimate(self.per_token, self.low, self.high, self.sequences, self.sequences).cell


def fitted_rate(logarithms: FloatArray, confidence: float = 0.95) -> Rate:
    """Return the mean slope of straight lines through the logarithms, fitted by least squares.

    A line is fitted to each sequence, over the second half of the tokens before the first one at which the
    logarithm is not finite: the first half may hold a transient, and what underflows has no logarithm.
    Logarithms are ``[sequences, length]``.
    """
    slopes = []
    for row in logarithms:
        wrong = np.flatnonzero(~np.isfinite(row))
        last = int(wrong[0]) if wrong.size else len(row)
        times = np.arange(last // 2, last, dtype=np.float64)
        if len(times) >= 2:
            off = times - times.mean()
            slopes.append(float((off * row[last // 2 : last]).sum() / (off**2).sum()))
    found = estimate(np.array(slopes), np.arange(len(slopes)), confidence)
    return Rate(found.mean, found.low, found.high, found.sequences)
