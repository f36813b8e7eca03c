"""Bounds on the sweeps over a whole sequence from contraction, coupling and memory of single tokens.

In one sweep of the simultaneous mode the error of token t becomes at most

    e_t^(k+1)  ≤  ρ e_t^(k)  +  γ Σ_{j<t} μ^(t−1−j) e_j^(k) .

On a profile e_t = x^(−t) a sweep is at most the factor a(x) = ρ + γ x / (1 − μ x). Profiles that grow along
the sequence (x < 1) bound from below how fast the right answers advance, profiles that fall (x > 1) bound
from above how fast anything does.

| code          | symbol | meaning                                                                       |
|---------------|--------|-------------------------------------------------------------------------------|
| `contraction` | ρ      | Lipschitz constant of the damped iteration of one token, its state held fixed |
| `coupling`    | γ      | of that iteration by the state, times that of the state update by the latent  |
| `memory`      | μ      | Lipschitz constant of the state update by the state, its latent held fixed    |

``docs/when_modes_agree.md`` has statement and proof: `guaranteed_speed` and `enough_sweeps` are Theorem 3,
`light_cone` and `needed_sweeps` Theorem 4.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from automata.checks import check_integer, check_number
from automata.errors import InputError

FloatArray = NDArray[np.float64]

SLOPES = np.geomspace(1e-6, 600.0, 20_001)
"""θ = |log x| of the profiles that are tried. Every single one gives a valid bound, so that the grid costs
sharpness only: neighbours differ by 0.1%, and the extremum is smooth."""


@dataclass(frozen=True)
class SweepInequality:
    """The inequality between the errors before and after a sweep, and what follows from it.

    InputError unless ρ (``contraction``) is at least 0 and below 1, γ (``coupling``) and μ (``memory``) at
    least 0.

    Example:
        One token hands its whole error to the next: one token per sweep, not faster and not slower.

        >>> shift = SweepInequality(contraction=0.0, coupling=1.0, memory=0.0)
        >>> round(shift.guaranteed_speed(), 3), round(shift.light_cone(), 3)
        (1.0, 1.0)
    """

    contraction: float
    coupling: float
    memory: float

    def __post_init__(self) -> None:
        if not 0 <= check_number("contraction", self.contraction) < 1:
            raise InputError(f"contraction is {self.contraction}; give a number of at least 0 and below 1")
        for name in ("coupling", "memory"):
            value = check_number(name, getattr(self, name))
            if not 0 <= value < math.inf:
                raise InputError(f"{name} is {value}; give a finite number of at least 0")

    def growth(self, x: float) -> float:
        """Return a(x), the factor of a sweep on the profile e_t = x^(−t); infinite if μ x is 1 or more."""
        return float(self._growth(np.array([x]))[0])

    def guaranteed_speed(self) -> float:
        """Return tokens per sweep behind which errors vanish: the largest log a(x) / log x over x < 1.

        Infinite if a(1) < 1: then all tokens converge together, however many there are.
        """
        if self.growth(1.0) < 1:
            return math.inf
        return max(0.0, float((-np.log(self._growth(np.exp(-SLOPES))) / SLOPES).max()))

    def light_cone(self) -> float:
        """Return tokens per sweep that nothing exceeds: the least log a(x) / log x over x > 1.

        Infinite for μ ≥ 1, as a state that forgets nothing carries anything over any distance in one sweep;
        0 if a(x) < 1 for some x > 1, as then every influence dies out.
        """
        return max(0.0, float((np.log(self._growth(np.exp(SLOPES))) / SLOPES).min()))

    def enough_sweeps(self, length: int, reduction: float) -> int:
        """Return how many sweeps bring every error to at most ``reduction`` times the largest at first.

        The least over x < 1 of ((L − 1) log 1/x + log 1/reduction) / log 1/a(x), for L tokens. InputError for
        a length below 1 or a reduction outside of (0, 1).
        """
        if check_integer("length", length) < 1:
            raise InputError(f"length is {length}; give at least 1")
        if not 0 < check_number("reduction", reduction) < 1:
            raise InputError(f"reduction is {reduction}; give a number between 0 and 1")
        slopes = np.concatenate([[0.0], SLOPES])
        growth = self._growth(np.exp(-slopes))
        shrinks = growth < 1
        with np.errstate(divide="ignore"):  # growth 0: one sweep
            counts = ((length - 1) * slopes[shrinks] - math.log(reduction)) / -np.log(growth[shrinks])
        return max(1, math.ceil(float(counts.min())))

    def needed_sweeps(self, token: int, signal: float) -> int:
        """Return how many sweeps token t needs at least to hear of a change of the state before token 1.

        Take two runs with the same tokens and starts but different initial states: before that sweep their
        latents at token t differ by less than g. It is the largest over y < 1 with μ < y and λ = a(1/y) > 1
        of (t log 1/y − log(signal / (y (λ − 1)))) / log λ. InputError for a token below 1 or a signal that is
        not positive.

        Args:
            token: t, from 1.
            signal: β δ / g: the first latents' Lipschitz constant by the state, times the distance of the two
                states, over g.
        """
        if check_integer("token", token) < 1:
            raise InputError(f"token is {token}; give at least 1")
        if not 0 < check_number("signal", signal) < math.inf:
            raise InputError(f"signal is {signal}; give a positive number")
        growth = self._growth(np.exp(SLOPES))
        grows = (growth > 1) & np.isfinite(growth)
        if not grows.any():
            return 0
        slopes, growth = SLOPES[grows], growth[grows]
        counts = (token * slopes - math.log(signal) - slopes + np.log(growth - 1)) / np.log(growth)
        return max(0, math.ceil(float(counts.max()) - 1e-9))  # an integer may be missed by rounding

    def _growth(self, x: FloatArray) -> FloatArray:
        kept = 1 - self.memory * x
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            spread = np.where(kept > 0, self.coupling * x / np.where(kept > 0, kept, 1.0), np.inf)
        return np.asarray(self.contraction + spread, dtype=np.float64)
