"""Enclosures against closed forms: affine systems, a bistable map, a non-normal one; and every term decides.

In the second half Φ(z; s) = A z + b s + e in one dimension, with A anywhere in [a − r, a + r] and e anywhere
in [−E, E]. All bounds of `theory.rigorous.enclosure` are reached by one of these systems, in exact
arithmetic. A bound that lacks any of its terms (the tail κ² / (1 − κ), the division by 1 − κ, a rounding
upward) is below what that system does, at some of the positions that are drawn here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from automata.errors import InputError
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.dual import join
from theory.rigorous.enclosure import (
    Enclosures,
    approximate_slopes,
    enclose,
    independent_of_state,
    newton_step_bound,
    refine,
)

Array = NDArray[np.float64]
FIRST = (np.array([0]), np.array([0]))


@dataclass
class Update:
    """h' = decay ⊙ h + drive."""

    decay: Dual
    drive: Dual

    @property
    def coefficients(self) -> Dual:
        return join([self.decay, self.drive])

    def entries(self, rows: NDArray[np.int64]) -> tuple[Dual, Dual]:
        return self.decay.at(rows), self.drive.at(rows)


@dataclass
class System:
    """Φ and G of one layer: functions of z, and of h with its derivative in the last column."""

    latent_size: int
    maps: Callable[[Dual, Dual], tuple[Dual, Update]]
    damping: float = 1.0
    blocks: tuple[str, ...] = ("h",)

    def advance(
        self, latent: Dual, state: Mapping[str, Ball], directions: Mapping[str, Ball]
    ) -> tuple[Dual, Sequence[Update]]:
        h = Dual.constant(state["h"], latent.columns)
        if directions:
            last = Ball.exact(np.eye(1, latent.columns, k=self.latent_size)[0])
            h = Dual(state["h"], directions["h"][..., None] * last)
        image, update = self.maps(latent, h)
        return image, [update]


def affine_system(A: Array, C: Array, B: Array, decay: Array) -> System:
    """Φ = A z + C h and h' = λ h + B z."""

    def maps(z: Dual, h: Dual) -> tuple[Dual, Update]:
        rates = Dual.constant(Ball.exact(np.broadcast_to(decay, h.value.shape)), z.columns)
        return z.mapped(Ball.exact(A)) + h.mapped(Ball.exact(C)), Update(rates, z.mapped(Ball.exact(B)))

    return System(len(A), maps)


def _bistable(z: Dual, h: Dual) -> tuple[Dual, Update]:
    argument = z.scaled(Ball.exact(8.0)).shifted(Ball.exact(-4.0)) + h
    growth = (argument.scaled(Ball.exact(-1.0))).exp().shifted(Ball.exact(1.0))
    root = growth.rsqrt()  # σ(x) = 1 / (1 + e^{−x})
    return root * root, Update(z, Dual.constant(Ball.exact(np.zeros((1, 1))), z.columns))


BISTABLE = System(1, _bistable, damping=0.5)
"""Φ = σ(8 z − 4 + h): at h = 0 a repelling fixed point 1/2 between two attracting ones; h' = z h."""
ORIGIN = {"h": Ball.exact(np.zeros((1, 1)))}


GENERATOR = np.random.default_rng(0)
A = GENERATOR.normal(size=(4, 4)) / 5
C, B, DECAY = GENERATOR.normal(size=(4, 6)), GENERATOR.normal(size=(6, 4)), np.linspace(0.1, 0.9, 6)
AFFINE = affine_system(A, C, B, DECAY)


def _solution(h: Array) -> Array:
    return np.asarray(np.linalg.solve(np.eye(4) - A, C @ h), dtype=np.float64)


def test_all_statements_of_an_affine_system() -> None:
    h = np.arange(6.0)
    z = _solution(h)
    J = np.diag(DECAY) + B @ np.linalg.solve(np.eye(4) - A, C)
    for row, column in [(2, 5), (3, 3)]:
        places = (np.array([row]), np.array([column]))
        bounds = enclose(AFFINE, {"h": Ball.exact(h[None])}, z[None], np.array([1.0]), [places])
        assert bounds.exists[0]
        assert bounds.contracts[0]
        assert bounds.error[0] < 1e-12  # the rounding of z
        singular = np.linalg.svd(np.eye(4) - A, compute_uv=False)[-1]
        # the norm bound may be 4^{1/64} = 1.03 too large
        assert singular / 1.03 <= bounds.singular_value[0] <= singular * (1 + 1e-12)
        radius = np.abs(np.linalg.eigvals(A)).max()
        assert radius <= bounds.power_norm[0] ** (1 / bounds.power[0]) < 1
        assert bounds.entries[0].contains(J[row, column])
        assert bounds.entries[0].radius[0] < 1e-12


def test_a_box_of_states_holds_the_fixed_points_of_all_of_them() -> None:
    h, radius = np.arange(6.0), 0.25
    z = _solution(h)
    box = {"h": Ball.around(h[None], radius)}
    bounds = enclose(AFFINE, box, z[None], np.array([10.0]), [FIRST])
    assert bounds.exists[0]
    response = np.abs(np.linalg.solve(np.eye(4) - A, C)).sum(1).max() * radius
    # for an affine map only the wrapping of P C h in two products is lost
    assert response <= bounds.error[0] <= np.sqrt(6) * 2 * response
    assert newton_step_bound(AFFINE, box, z[None])[0] == pytest.approx(bounds.error[0], rel=1e-9)
    for corner in np.random.default_rng(1).choice([-1, 1], (30, 6)):
        moved = _solution(h + radius * corner)
        assert np.abs(moved - z).max() <= bounds.error[0]


def test_a_repelling_fixed_point_exists_but_does_not_attract() -> None:
    middle = enclose(BISTABLE, ORIGIN, np.array([[0.5]]), np.array([0.02]), [FIRST])
    assert (middle.exists[0], middle.contracts[0], middle.power[0]) == (True, False, 0)
    outer = refine(BISTABLE, ORIGIN, np.array([[0.97]]))
    attracting = enclose(BISTABLE, ORIGIN, outer, np.array([0.005]), [FIRST])
    assert attracting.contracts[0]
    # Φ' = 8 z (1 − z), so I − Φ' and J = 0 at h = 0 (h' = z h, with dz/dh times h = 0, plus z)
    z = outer[0, 0]
    assert attracting.singular_value[0] <= 1 - 8 * z * (1 - z)
    assert attracting.entries[0].contains(z)
    # Newton steps reach the fixed point
    residual, _ = approximate_slopes(BISTABLE, ORIGIN, refine(BISTABLE, ORIGIN, np.array([[0.9]])))
    assert np.abs(residual).max() < 1e-15


def test_a_ball_around_three_fixed_points_is_refused() -> None:
    bounds = enclose(BISTABLE, ORIGIN, np.array([[0.5]]), np.array([0.6]), [FIRST])
    assert not bounds.exists[0]
    assert not bounds.newton_factor[0] < 1


def _reading(weight: float) -> System:
    """h' = λ ⊙ h + u without a latent; λ reads h, times ``weight``."""

    def maps(z: Dual, h: Dual) -> tuple[Dual, Update]:
        constant = Dual.constant(Ball.exact(np.full((1, 2), 0.5)), z.columns)
        return z, Update(constant + h.scaled(Ball.exact(weight)) if weight else constant, constant)

    return System(0, maps)


def test_independence_of_all_real_h_is_proved_only_where_it_holds() -> None:
    anywhere = {"h": Ball.around(np.zeros((1, 2)), np.inf)}
    somewhere = {"h": Ball.around(np.zeros((1, 2)), 1.0)}
    assert independent_of_state(_reading(0.0), anywhere)[0].tolist() == [True]
    # However weak the dependence is, the enclosure of the derivative is not exactly zero.
    for weight in (1.0, 1e-300):
        assert independent_of_state(_reading(weight), somewhere)[0].tolist() == [False]
    with pytest.raises(InputError, match="latent_size is 1"):
        independent_of_state(BISTABLE, ORIGIN)


POSITIONS = 80


@dataclass
class Family:
    """All systems at once, a row a position; the middles, and how far from them the systems lie."""

    a: Array
    r: Array
    b: Array
    E: Array
    g: Array
    k: Array

    def system(self, damping: float = 1.0) -> System:
        """Only its value at z = 0, s = 0 is asked for."""

        def maps(z: Dual, h: Dual) -> tuple[Dual, Update]:
            slope = Ball.around(self.a[:, None, None], self.r[:, None, None])
            tangent = z.tangent * slope + h.tangent * Ball.exact(self.b[:, None, None])
            keep = Dual.constant(Ball.exact(self.k[:, None]), z.columns)
            image = Dual(Ball.around(np.zeros((len(self.a), 1)), self.E[:, None]), tangent)
            return image, Update(keep, z.scaled(Ball.exact(self.g[:, None])))

        return System(1, maps, damping)


def drawn(seed: int) -> Family:
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.4, 0.6, POSITIONS)
    r = rng.uniform(0.01, 0.9, POSITIONS) * (1 - a)  # κ = r / (1 − a) up to 0.9
    b, E, k = rng.uniform(0.1, 2, (3, POSITIONS))
    return Family(a, r, b, E, rng.choice([-1.0, 1.0], POSITIONS) * rng.uniform(0.1, 2, POSITIONS), k)


def bounds_of(family: Family, radius: float = 1e6, damping: float = 1.0) -> Enclosures:
    count = len(family.a)
    zeros, first = np.zeros((count, 1)), np.zeros(count, dtype=np.int64)
    radii = np.full(count, radius)
    return enclose(family.system(damping), {"h": Ball.exact(zeros)}, zeros, radii, [(first, first)])


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
        for i in range(20):
            alone = Family(*(numbers[[i]] for numbers in vars(family).values()))
            assert bounds_of(alone, radius=float(factor * farthest[i])).exists[0] == exists


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
    family = drawn(3)
    bounds = bounds_of(family, damping=damping)
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
    zeros = np.zeros((POSITIONS, 1))
    step = newton_step_bound(family.system(), {"h": Ball.exact(zeros)}, zeros)
    np.testing.assert_allclose(step, family.E / (1 - family.a), rtol=1e-12)


def test_a_position_without_a_proof_leaves_the_others_theirs() -> None:
    """A = 1: no inverse of I − A; and a value that is no number. Before and behind them all is proved."""
    family = drawn(5)
    family.a[5], family.r[5] = 1.0, 0.0
    family.a[9] = np.nan
    bounds = bounds_of(family)
    assert (bounds.exists == ~np.isin(np.arange(POSITIONS), [5, 9])).all()
