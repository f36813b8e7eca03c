"""The bounds on sweeps against the inequality itself, iterated with equality, and closed forms of speeds."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from tests.refusals import refusals
from theory.mode_agreement import SweepInequality

CHAINS = {
    "neutral": (0.6, 0.4, 0.0),
    "amplifying": (0.5, 2.0, 0.0),
    "with memory": (0.4, 0.5, 0.6),
    "strongly coupled": (0.3, 20.0, 0.3),
    "contracting": (0.4, 0.2, 0.5),
    "without own contraction": (0.0, 3.0, 0.2),
}
cases = pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)


def sweep_matrix(chain: tuple[float, float, float], length: int) -> np.ndarray:
    """The inequality as a matrix: e^(k+1) = A e^(k) is its worst case."""
    rho, gamma, mu = chain
    distance = np.subtract.outer(np.arange(length), np.arange(length))
    coupled = np.where(distance > 0, gamma * float(mu) ** np.maximum(distance - 1, 0), 0.0)
    return coupled + rho * np.eye(length)


def sweeps_taken(matrix: np.ndarray, reduction: float) -> np.ndarray:
    """After how many sweeps the error of each token stays below, all errors being 1 at first."""
    matrix = matrix.astype(np.longdouble)  # ahead of the front errors grow beyond 1e308
    error, needed, sweep = np.ones(len(matrix), np.longdouble), np.zeros(len(matrix), int), 0
    while (error > reduction).any():
        sweep += 1
        needed[error > reduction] = sweep
        error = matrix @ error
    return needed


@cases
@pytest.mark.parametrize("length", [1, 2, 17, 120])
def test_enough_sweeps_are_enough(chain: tuple[float, float, float], length: int) -> None:
    taken = sweeps_taken(sweep_matrix(chain, length), 1e-4).max()
    bound = SweepInequality(*chain).enough_sweeps(length, 1e-4)
    assert taken <= bound
    if length == 120:  # and not many more: what is lost is a power of the length
        assert bound <= 1.25 * taken + 10


@cases
def test_the_worst_case_moves_at_the_guaranteed_speed(chain: tuple[float, float, float]) -> None:
    speed = SweepInequality(*chain).guaranteed_speed()
    needed = sweeps_taken(sweep_matrix(chain, 300), 1e-3)
    if math.isinf(speed):
        assert needed[-1] == needed[150]
    else:
        measured = 150 / (needed[-1] - needed[149])
        # the lag behind the speed is a logarithm of the tokens for a growing error, and some square roots of
        # them for one that is neutral and spreads as a random walk: 3 (√300 − √150) tokens of 150 are 10%
        assert speed * 0.9 <= measured <= speed * 1.03


def test_the_speed_of_a_binomial_front_is_the_root_of_its_rate_function() -> None:
    """Without memory the error is binomial, C(k, t) γᵗ ρ^(k−t): Stirling's formula gives the speed."""
    for rho, gamma in ((0.5, 2.0), (0.2, 1.5), (0.9, 0.4)):

        def rate(v: float, rho: float = rho, gamma: float = gamma) -> float:
            return v * math.log(gamma / v) + (1 - v) * math.log(rho / (1 - v))

        inequality = SweepInequality(rho, gamma, 0.0)
        most = gamma / (rho + gamma)  # where the binomial is largest, and has grown
        assert inequality.guaranteed_speed() == pytest.approx(brentq(rate, 1e-9, most), rel=1e-5)
        # γ > 1: even k tokens in k sweeps grow, and more there cannot be; the slopes tried end at 600
        fastest = pytest.approx(1.0, abs=math.log(gamma) / 600 + 1e-3 if gamma > 1 else 0)
        expected = fastest if gamma > 1 else pytest.approx(brentq(rate, most, 1 - 1e-12), rel=1e-5)
        assert inequality.light_cone() == expected


@cases
def test_nothing_is_heard_outside_of_the_light_cone(chain: tuple[float, float, float]) -> None:
    """Two runs that differ in the first state by 1: d^(k+1) = A d^(k) + β μ^(t−1), worst case, β = 1."""
    inequality, length = SweepInequality(*chain), 150
    matrix, source = sweep_matrix(chain, length), float(chain[2]) ** np.arange(length)
    heard, difference = np.full(length, np.inf), np.zeros(length)
    for sweep in range(1, 800):
        difference = matrix @ difference + source
        heard[(difference >= 1e-2) & np.isinf(heard)] = sweep
        if np.isfinite(heard).all():
            break
    for token in (1, 10, 80, 150):
        assert heard[token - 1] >= inequality.needed_sweeps(token, signal=100.0)
    if inequality.growth(1.0) > 1:
        assert inequality.needed_sweeps(150, signal=100.0) >= 0.8 * heard[149] - 5
        assert 140 / (heard[149] - heard[9]) <= inequality.light_cone() * 1.1
        assert inequality.light_cone() >= inequality.guaranteed_speed()


test_bad_input_is_refused = refusals(
    (lambda: SweepInequality(-0.1, 1, 0), "contraction is -0.1.*at least 0"),
    (lambda: SweepInequality(1.0, 1, 0), "contraction is 1.0; give a number of at least 0 and below 1"),
    (lambda: SweepInequality(0.5, math.inf, 0), "coupling is inf.*finite"),
    (lambda: SweepInequality(0.5, 1, math.nan), "memory is nan.*finite"),
    (lambda: SweepInequality(0.5, 1, 0).enough_sweeps(0, 0.1), "length is 0.*at least 1"),
    (lambda: SweepInequality(0.5, 1, 0).enough_sweeps(3, 1.5), "reduction is 1.5.*between 0 and 1"),
    (lambda: SweepInequality(0.5, 1, 0).needed_sweeps(0, 1), "token is 0.*at least 1"),
    (lambda: SweepInequality(0.5, 1, 0).needed_sweeps(1, 0), "signal is 0.*positive"),
)
