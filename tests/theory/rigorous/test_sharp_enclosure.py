"""Every term of a bound decides: systems of which the exact answer is known, and is the bound itself.

Φ(z; s) = A z + b s + e in one dimension, with A anywhere in [a − r, a + r] and e anywhere in [−E, E]. All
bounds of `theory.rigorous.enclosure` are reached by one of these systems, in exact arithmetic. A bound that
lacks any of its terms (the tail κ² / (1 − κ), the division by 1 − κ, a rounding upward) is below what that
system does, at some of the positions that are drawn here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.enclosure import Enclosures, enclose, newton_step_bound

Array = NDArray[np.float64]
POSITIONS = 300


@dataclass
class Update:
    """h' = k h + g z."""

    keep: Dual
    gain: Dual

    @property
    def coefficients(self) -> Dual:
        return self.gain

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        return self.keep, self.gain


@dataclass
class Family:
    """All systems at once, a row a position; the middles, and how far from them the systems lie."""

    a: Array
    r: Array
    b: Array
    E: Array
    g: Array
    k: Array
    damping: float = 1.0
    latent_size: int = 1
    blocks: tuple[str, ...] = ("h",)

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Update]]:
        slope = Ball.around(self.a[:, None], self.r[:, None])
        tangent = latent.tangent * slope[..., None]
        if directions:
            seed = Ball.exact(np.eye(1, latent.columns, k=1))
            tangent = tangent + seed * Ball.exact(self.b[:, None, None]) * directions["h"][..., None]
        # only the value at z = 0, s = 0 is asked for
        image = Dual(Ball.around(np.zeros((len(self.a), 1)), self.E[:, None]), tangent)
        keep = Dual.constant(Ball.exact(self.k[:, None]), latent.columns)
        return image, [Update(keep, latent.scaled(Ball.exact(self.g[:, None])))]


def drawn(seed: int) -> Family:
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.4, 0.6, POSITIONS)
    r = rng.uniform(0.01, 0.9, POSITIONS) * (1 - a)  # κ = r / (1 − a) up to 0.9
    b, E, k = rng.uniform(0.1, 2, (3, POSITIONS))
    return Family(a, r, b, E, rng.choice([-1.0, 1.0], POSITIONS) * rng.uniform(0.1, 2, POSITIONS), k)


def bounds_of(family: Family, radius: float = 1e6) -> Enclosures:
    count = len(family.a)
    first = np.zeros(count, dtype=np.int64)
    state = {"h": Ball.exact(np.zeros((count, 1)))}
    return enclose(family, state, np.zeros((count, 1)), np.full(count, radius), [(first, first)])


def exact(numbers: Array) -> list[Fraction]:
    return [Fraction(number) for number in numbers.tolist()]


def assert_reached(bounds: Array, truths: list[Fraction], *, above: bool = True) -> None:
    """Every bound is on the right side, in exact arithmetic, and not further away than rounding."""
    for bound, truth in zip(exact(bounds), truths, strict=True):
        assert bound >= truth if above else bound <= truth
        # a few dozen roundings of 1e-16, of numbers that may cancel to a tenth
        assert abs(bound - truth) <= Fraction(1, 10**12) * abs(truth)


def test_error_and_singular_value_are_those_of_the_worst_system() -> None:
    family = drawn(0)
    bounds = bounds_of(family)
    least = [1 - a - r for a, r in zip(exact(family.a), exact(family.r), strict=True)]  # of 1 − A
    assert bounds.exists.all()
    assert_reached(bounds.error, [E / slope for E, slope in zip(exact(family.E), least, strict=True)])
    assert_reached(bounds.singular_value, least, above=False)
    kappa = [r / (1 - a) for a, r in zip(exact(family.a), exact(family.r), strict=True)]
    assert_reached(bounds.newton_factor, kappa)


def test_a_radius_that_just_holds_the_fixed_points_is_accepted_and_a_smaller_one_is_not() -> None:
    family = drawn(1)
    farthest = family.E / (1 - family.a - family.r)
    for factor, exists in ((1 - 1e-9, False), (1 + 1e-9, True)):
        one_by_one = [
            bounds_of(
                replace(
                    family, **{name: getattr(family, name)[[i]] for name in ("a", "r", "b", "E", "g", "k")}
                ),
                radius=float(factor * farthest[i]),
            ).exists[0]
            for i in range(20)
        ]
        assert one_by_one == [exists] * 20


def test_the_entry_of_the_worst_system_is_the_end_of_its_interval() -> None:
    """J = k + g b / (1 − A) is farthest from k where A = a + r."""
    family = drawn(2)
    entry = bounds_of(family).entries[0]
    ends = [
        k + g * b / (1 - a - r)
        for a, r, b, g, k in zip(*map(exact, (family.a, family.r, family.b, family.g, family.k)), strict=True)
    ]
    upward = family.g > 0
    for up, lower, upper, end in zip(upward, exact(entry.lower), exact(entry.upper), ends, strict=True):
        assert lower <= end <= upper
        scale = abs(end) + abs(upper) + abs(lower)
        assert (upper - end if up else end - lower) <= Fraction(1, 10**12) * scale


@pytest.mark.parametrize("damping", [1.0, 0.5])
def test_contraction_is_that_of_the_slowest_system(damping: float) -> None:
    """|1 − τ + τ A| ≤ q^{1/k}, with the power at which the bound first falls to one half."""
    family = replace(drawn(3), damping=damping)
    bounds = bounds_of(family)
    tau = Fraction(damping)
    for a, r, power, norm in zip(
        exact(family.a), exact(family.r), bounds.power.tolist(), bounds.power_norm.tolist(), strict=True
    ):
        step = max(abs(1 - tau + tau * (a + r)), abs(1 - tau + tau * (a - r)))
        if step >= 1:
            assert (power, norm) == (0, np.inf)
            continue
        assert power == next((k for k in (2**i for i in range(11)) if step**k <= Fraction(1, 2)), 1024)
        assert step**power <= Fraction(norm) <= step**power * (1 + Fraction(1, 10**9))  # ten squarings


def test_a_newton_step_is_bounded_over_the_whole_box_of_states() -> None:
    """Where the slope is known, P is 1 / (1 − a) up to rounding, and the step E / (1 − a)."""
    family = replace(drawn(4), r=np.zeros(POSITIONS))
    state = {"h": Ball.exact(np.zeros((POSITIONS, 1)))}
    step = newton_step_bound(family, state, np.zeros((POSITIONS, 1)))
    np.testing.assert_allclose(step, family.E / (1 - family.a), rtol=1e-12)


def test_a_position_without_a_proof_leaves_the_others_theirs() -> None:
    """A = 1: no inverse of I − A; and a value that is no number. Before and behind them all is proved."""
    family = drawn(5)
    family.a[5], family.r[5] = 1.0, 0.0
    family.a[9] = np.nan
    bounds = bounds_of(family)
    assert (bounds.exists == ~np.isin(np.arange(POSITIONS), [5, 9])).all()
