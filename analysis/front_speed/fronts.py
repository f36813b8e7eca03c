"""When did the right answer arrive at every token, and how fast is that?"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.errors import InputError


def arrivals(errors: NDArray[np.float64], level: float) -> NDArray[np.int64]:
    """Return after how many sweeps a token and all before it stay below an error.

    Args:
        errors: before every sweep, ``[sweeps, B, L]``; what is below at the end counts as arrived.
        level: of the error.

    Returns:
        ``[B, L]``, never falling along a sequence.

    Raises:
        InputError: if a token is not below the level at the end.

    Example:
        >>> errors = np.array([[[1.0, 1.0, 0.0]], [[0.0, 1.0, 1.0]], [[0.0, 0.0, 0.0]]])
        >>> arrivals(errors, 0.5).tolist()
        [[1, 2, 2]]
    """
    late = errors > level
    if late[-1].any():
        raise InputError(f"errors ends above the level {level}; give more sweeps or a larger level")
    last = len(errors) - np.argmax(late[::-1], axis=0)  # sweeps up to the last one that began above the level
    sweeps = np.where(late.any(axis=0), last, 0)
    return np.maximum.accumulate(sweeps, axis=1).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Front:
    """Arrivals at the tokens of several sequences, and the speed that they show.

    Attributes:
        arrivals: sweeps, ``[B, L]``.
        begin: tokens that are left out at the beginning, where the front forms.

    Example:
        >>> front = Front(np.array([[1, 2, 3, 4, 5], [1, 3, 5, 7, 9]]), begin=0)
        >>> round(front.speed, 3), round(front.error, 3)
        (0.667, 0.222)
    """

    arrivals: NDArray[np.int64]
    begin: int

    @property
    def sweeps(self) -> NDArray[np.int64]:
        """Sweeps from the token where the front has formed to the last one, ``[B]``."""
        sweeps: NDArray[np.int64] = self.arrivals[:, -1] - self.arrivals[:, self.begin]
        return sweeps

    @property
    def speed(self) -> float:
        """Tokens per sweep: all tokens over all sweeps; infinite if the last ones arrive together."""
        mean = float(self.sweeps.mean())
        return self._tokens / mean if mean else float("inf")

    @property
    def error(self) -> float:
        """Standard error of the speed, from the spread between sequences; NaN for a single one."""
        count = len(self.sweeps)
        if count == 1 or not self.sweeps.mean():
            return float("nan")
        relative = float(self.sweeps.std(ddof=1) / np.sqrt(count) / self.sweeps.mean())
        return self.speed * relative

    @property
    def _tokens(self) -> int:
        return self.arrivals.shape[1] - 1 - self.begin
