"""Covers of loops with images in closed form: bounds of steps, radii that close, and every term decides.

In the last part Φ(z; s, x) = A z + b s + e in one dimension, with A anywhere in [a − r, a + r] and e anywhere
in [−E, E], and G = g z + k s. The axes V are a quarter too short for the metric W, so that ‖I − W V‖ = 1/4
has to be made up for. The bounds of `theory.rigorous.covers.invariant_cover` are reached by the loop with A =
a + r, in exact arithmetic: a bound that lacks any of its terms is below what that loop does.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers.contracting_metrics import step_jacobians
from theory.rigorous.covers.invariant_cover import (
    Cover,
    EnclosedLoop,
    StepBounds,
    StepErrors,
    bound_all,
    close_cover,
    enclose_steps,
)

IntArray = NDArray[np.int64]
Array = NDArray[np.float64]


HALF = Ball.exact(0.5)


@dataclass
class Loop:
    advance: Callable[..., tuple[Dual, Dual]]
    logits: Callable[..., Dual]


def linear(keep: Array, through: Array, drive: Array) -> Loop:
    """Φ(z; s, x) = z/2 + M s / 2, so that z* = M s, and G(z; s, x) = K s + z + b_x: s' = (K + M) s + b_x."""

    def advance(z: Dual, s: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        image = z.scaled(HALF) + s.mapped(Ball.exact(through)).scaled(HALF)
        return image, (s.mapped(Ball.exact(keep)) + z).shifted(Ball.exact(drive[np.asarray(tokens)]))

    return Loop(advance, lambda z: z.mapped(Ball.exact(np.eye(2))))


def _first(z: Dual) -> Dual:
    """The logits (z, 1)."""
    return z.mapped(Ball.exact([[1.0], [0.0]])).shifted(Ball.exact([0.0, 1.0]))


SQUARE = Loop(lambda z, s, _: (z.scaled(HALF) + s.scaled(HALF), z * z), _first)
"""Φ(z; s) = z/2 + s/2 and G(z; s) = z²: s' = s² in one dimension."""


def one_set(centre: Array, metric: Array, radius: float, latents: Array, answers: IntArray) -> Cover:
    tokens = len(latents)
    axes = np.asarray(np.linalg.inv(metric), dtype=np.float64)
    return Cover(
        centre[None],
        metric[None],
        axes[None],
        np.array([radius]),
        np.zeros((1, tokens), dtype=np.int64),
        answers[None],
        latents[None],
    )


@pytest.mark.parametrize("seed", range(5))
def test_bounds_of_a_linear_loop_are_its_norms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    keep, through = (0.3 * rng.standard_normal((2, 2)) for _ in range(2))
    drive, centre = 0.1 * rng.standard_normal((2, 2)), rng.standard_normal(2)
    metric = np.asarray(np.eye(2) + 0.3 * rng.standard_normal((2, 2)), dtype=np.float64)
    latents = np.repeat((through @ centre)[None], 2, axis=0)
    cover = one_set(centre, metric, 0.5, latents, np.array([0, 1]))
    loop = linear(keep, through, drive)
    jacobians = np.broadcast_to(keep + through, (1, 2, 2, 2))
    np.testing.assert_allclose(step_jacobians(loop, cover), jacobians, rtol=1e-12)  # a solve in float64
    bounds = enclose_steps(loop, cover, [0, 0], [0, 1])
    whole = metric @ (keep + through) @ np.linalg.inv(metric)
    gain = np.linalg.norm(whole, 2)
    offset = np.linalg.norm((metric @ ((keep + through) @ centre + drive - centre).T), axis=0)
    # rounding apart; the bound of the spectral norm is too large by at most 2^(1/64), see its docstring
    np.testing.assert_allclose(bounds.gain, gain, rtol=0.012)
    assert (bounds.gain >= gain).all()
    np.testing.assert_allclose(bounds.offset, offset, rtol=1e-9)
    np.testing.assert_allclose(bounds.image, offset + bounds.gain * 0.5, rtol=1e-9)
    assert bounds.exists.all()
    # the margin of z over the ellipsoid: the least value of a linear function
    row = np.array([1.0, -1.0]) @ through
    least = row @ centre - 0.5 * np.linalg.norm(row @ np.linalg.inv(metric))
    np.testing.assert_allclose(bounds.margin[0], least, rtol=1e-9, atol=1e-12)
    most = row @ centre + 0.5 * np.linalg.norm(row @ np.linalg.inv(metric))
    np.testing.assert_allclose(bounds.margin[1], -most, rtol=1e-9, atol=1e-12)


def test_nothing_is_proved_where_something_is_wrong() -> None:
    good = one_set(np.array([0.1]), np.eye(1), 0.2, np.array([[0.1]]), np.array([1]))
    for wrong in (
        replace(good, latents=np.array([[[np.nan]]])),
        replace(good, axes=np.zeros((1, 1, 1))),
        replace(good, answers=np.array([[0]])),
        replace(good, radii=np.array([np.inf])),
    ):
        assert not enclose_steps(SQUARE, wrong, [0], [0]).maps_into(np.array([1e6])).any()
    # The affine Φ has a fixed point for every state of a large set, in a box that is wide enough. With a
    # self-map of slope 1 there is none at any width.
    assert enclose_steps(SQUARE, replace(good, radii=np.array([50.0])), [0], [0]).exists.all()
    bounds = enclose_steps(Loop(lambda z, s, _: (z + s, z * z), _first), good, [0], [0])
    assert not bounds.exists.any()
    assert np.isinf(bounds.image).all()


def _second(z: Dual) -> Dual:
    """The logits (1, s)."""
    return z.mapped(Ball.exact([[0.0], [1.0]])).shifted(Ball.exact([1.0, 0.0]))


def shrinking(rate: float) -> Loop:
    """s' = rate · s + x / 10 on numbers."""

    def advance(z: Dual, s: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        return s, s.scaled(Ball.exact(rate)).shifted(Ball.exact(np.asarray(tokens)[:, None] / 10))

    return Loop(advance, _second)


def chain(targets: list[list[int]], centres: list[float]) -> Cover:
    count = len(centres)
    one = np.ones((count, 1, 1))
    states = np.array(centres)[:, None]
    answers = np.zeros((count, 2), dtype=np.int64)
    return Cover(
        states, one, one, np.zeros(count), np.array(targets), answers, np.repeat(states[:, None], 2, axis=1)
    )


def test_radii_are_just_above_the_least_ones() -> None:
    # s' = s/2 or s/2 + 0.1 keeps [0, 0.2]: around 0.1 the radius 0.1
    found = close_cover(shrinking(0.5), chain([[0, 0]], [0.1]))
    assert found.closed.all()
    assert 0.1 <= found.cover.radii[0] < 0.1 * 1.25
    # the answer is right by 1 − s at least
    assert 1 - 0.1 - 0.1 * 1.25 < found.bounds.margin.min() <= 0.8


def test_two_sets_that_lead_into_each_other() -> None:
    # [0, 0.2] as halves around 0.05 and 0.15; token 0 leads from both into the first, token 1 into the second
    cover = chain([[0, 1], [0, 1]], [0.05, 0.15])
    found = close_cover(shrinking(0.5), cover)
    assert found.closed.all()
    assert (found.cover.radii >= 0.05).all()
    # for a checker in other arithmetic images leave one part in a hundred of their targets
    assert (found.bounds.image <= 0.99 * found.cover.radii[cover.targets.ravel()]).all()
    again = bound_all(shrinking(0.5), found.cover)
    np.testing.assert_array_equal(again.image, found.bounds.image)
    some = bound_all(shrinking(0.5), found.cover, np.array([3, 0]))
    np.testing.assert_array_equal(some.image, found.bounds.image[[3, 0]])


def test_what_does_not_contract_or_changes_its_answer_is_not_closed() -> None:
    assert not close_cover(shrinking(1.01), chain([[0, 0]], [0.1]), attempts=3).closed.any()
    # the set around 2 answers 1, not 0
    assert not close_cover(shrinking(0.5), chain([[0, 0]], [2.0])).closed.any()


def test_radii_that_suffice_are_not_grown() -> None:
    """s' = s/2: the first radii are 5% above what is needed, more than the slack of 1%."""
    cover = chain([[0, 0]], [0.1])
    found, first = (close_cover(shrinking(0.5), cover, attempts=count) for count in (40, 0))
    assert first.closed.all()
    np.testing.assert_array_equal(found.cover.radii, first.cover.radii)


def test_radii_that_curvature_makes_too_small_are_grown_until_images_leave_the_slack() -> None:
    """s' = s² + s/2 + 0.01: the first radius around 0 is 1.05 times that without s²."""

    def advance(z: Dual, s: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        return s, (s * s + s.scaled(HALF)).shifted(Ball.exact(np.full((len(tokens), 1), 0.01)))

    cover = chain([[0, 0]], [0.0])
    first, found = (close_cover(Loop(advance, _second), cover, attempts=count) for count in (0, 40))
    assert first.bounds.image[0] > 0.99 * first.cover.radii[0]
    assert found.closed.all()
    assert (found.bounds.image <= 0.99 * found.cover.radii[0]).all()


def test_a_step_of_which_nothing_is_known_does_not_spoil_others() -> None:
    """Token 1 leads from both sets into the second, whose own steps with token 0 close all the same."""

    def advance(z: Dual, s: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        unknown = Ball.exact(np.where(np.asarray(tokens)[:, None] == 1, np.nan, 0.0))
        fixed, following = shrinking(0.5).advance(z, s, tokens)
        return fixed.shifted(unknown), following.shifted(unknown)

    found = close_cover(Loop(advance, _second), chain([[0, 1], [0, 1]], [0.05, 0.15]))
    assert np.isfinite(found.cover.radii).all()
    assert found.closed.reshape(2, 2).tolist() == [[True, False], [True, False]]


COUNT = 60


@dataclass
class Family:
    """The loops, one a token: the middles, and how far from them the loops lie."""

    a: Array
    r: Array
    b: Array
    E: Array
    g: Array
    k: Array
    v: Array
    d: Array

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        self.tokens = tokens

        def of(numbers: Array) -> Ball:
            return Ball.exact(numbers[tokens][:, None])

        slope = Ball.around(self.a[tokens][:, None], self.r[tokens][:, None])
        tangent = latent.tangent * slope[..., None] + state.tangent * of(self.b)[..., None]
        centre = latent.value.midpoint  # the latents are fixed points up to E
        image = Dual(Ball.around(centre, self.E[tokens][:, None]), tangent)
        return image, latent.scaled(of(self.g)) + state.scaled(of(self.k))

    def logits(self, latent: Dual) -> Dual:
        """(v z + d, 0)."""
        slopes, terms = (
            Ball.exact(np.stack([numbers[self.tokens], 0 * self.tokens], axis=1))
            for numbers in (self.v, self.d)
        )
        return Dual(latent.value * slopes, latent.tangent * slopes[..., None]).shifted(terms)


def drawn(seed: int) -> tuple[Family, Cover]:
    """As many loops as sets; set i is read with token i, and led into set i + 1."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.4, 0.6, COUNT)
    r = rng.uniform(0.01, 0.9, COUNT) * (1 - a)
    family = Family(a, r, *rng.uniform(0.1, 2, (6, COUNT)))
    metrics = rng.uniform(0.5, 2, (COUNT, 1, 1))
    cover = Cover(
        rng.uniform(-1, 1, (COUNT, 1)),
        metrics,
        0.75 / metrics,
        rng.uniform(0.1, 1, COUNT),
        np.tile((np.arange(COUNT) + 1) % COUNT, (COUNT, 1)).T.copy(),
        np.zeros((COUNT, COUNT), dtype=np.int64),
        rng.uniform(-1, 1, (COUNT, COUNT, 1)),
    )
    return family, cover


def bounds_of(family: EnclosedLoop, cover: Cover, errors: StepErrors | None = None) -> StepBounds:
    steps = np.arange(COUNT)
    return enclose_steps(family, cover, steps, steps, *([errors] if errors else []))


def exact(number: float) -> Fraction:
    return Fraction(float(number))


def ends_of(cover: Cover, i: int) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    """How far set i reaches from its centre, that centre, and the metric and the centre of its target."""
    target = (i + 1) % COUNT
    radius = exact(cover.radii[i]) / exact(cover.metrics[i, 0, 0])
    return (
        radius,
        exact(cover.centres[i, 0]),
        exact(cover.metrics[target, 0, 0]),
        exact(cover.centres[target, 0]),
    )


def truth(family: Family, cover: Cover, i: int) -> dict[str, Fraction]:
    """Map the ends of set i by the loop with A = a + r, in exact arithmetic."""
    names = ("a", "r", "b", "E", "g", "k", "v", "d")
    a, r, b, E, g, k, v, d = (exact(getattr(family, name)[i]) for name in names)
    radius, centre, metric, end = ends_of(cover, i)
    latent = exact(cover.latents[i, i, 0])
    slope = 1 - a - r
    offset = metric * (abs(g * latent + k * centre - end) + g * E / slope)
    gain = k + g * b / slope
    return {
        "farthest": (E + b * radius) / slope,
        "offset": offset,
        "image": offset + metric * gain * radius,
        "margin": v * (latent - (E + b * radius) / slope) + d,
    }


@pytest.mark.parametrize("errors", [None, StepErrors(latent=0.0625, state=0.03125)], ids=["exact", "inexact"])
def test_bounds_are_what_the_worst_loop_does(errors: StepErrors | None) -> None:
    """With a latent off by δ and a next state off by η, both outward, as much farther."""
    family, cover = drawn(0)
    bounds = bounds_of(family, cover, errors)
    assert bounds.exists.all()
    strayed, off = (exact(errors.latent), exact(errors.state)) if errors else (Fraction(0), Fraction(0))
    for i in range(COUNT):
        true = truth(family, cover, i)
        further = ends_of(cover, i)[2] * (exact(family.g[i]) * strayed + off)
        reached = [(bounds.image[i], true["image"] + further)]
        reached += [] if errors else [(bounds.offset[i], true["offset"])]
        for bound, least in reached:
            # a few dozen roundings; the spectral norm of one number is that number
            assert least <= exact(bound) <= least * (1 + Fraction(1, 10**11))
        margin = true["margin"] - exact(family.v[i]) * strayed
        slack = Fraction(1, 10**10) * (abs(margin) + 10)
        assert margin - slack <= exact(bounds.margin[i]) <= margin
        assert exact(bounds.latent_radius[i]) >= true["farthest"] + strayed


def test_the_box_of_a_latent_holds_the_fixed_points_of_the_worst_loop() -> None:
    """The first box is too small for most; the next one is half as wide again as what is then needed."""
    family, cover = drawn(1)
    radius = bounds_of(family, cover).latent_radius
    needed = [truth(family, cover, i)["farthest"] for i in range(COUNT)]
    assert all(exact(bound) >= least for bound, least in zip(radius, needed, strict=True))
    assert (np.abs(radius / np.array(needed, dtype=float) - 1.5) < 1e-9).mean() > 0.5


def test_a_target_that_just_holds_the_image_is_accepted_and_a_smaller_one_is_not() -> None:
    family, cover = drawn(2)
    bounds = bounds_of(family, cover)
    right = bounds.margin > 0
    assert right.sum() > 10
    images = np.array([float(truth(family, cover, i)["image"]) for i in range(COUNT)])
    assert (bounds.maps_into(images * (1 + 1e-9)) == right).all()
    assert not bounds.maps_into(images * (1 - 1e-9)).any()


def test_the_box_of_states_holds_the_whole_set() -> None:
    """G = s²: |s² − c²| ≤ 2 (|c| + δ) δ on the set, δ = ρ / W; its derivative is taken at |c| + δ."""
    _, cover = drawn(3)
    cover = replace(cover, latents=np.zeros_like(cover.latents))
    nothing = Ball.exact(0.0)
    squares = Loop(lambda z, s, _: (z.scaled(nothing), s * s), lambda z: _second(z.scaled(nothing)))
    bounds = bounds_of(squares, cover)
    assert bounds.exists.all()
    assert not bounds.latent_radius.max() > 1e-11
    for i in range(COUNT):
        radius, centre, metric, end = ends_of(cover, i)
        image = metric * (abs(centre**2 - end) + 2 * (abs(centre) + radius) * radius)
        assert image <= exact(bounds.image[i]) <= image * (1 + Fraction(1, 10**10))


def test_an_image_may_be_as_large_as_its_target_and_a_margin_must_be_positive() -> None:
    one = np.ones(3)
    bounds = StepBounds(one > 0, one, one, one, np.array([0.5, 1.0, 1.0]), np.array([1.0, 1e-300, 0.0]))
    assert bounds.maps_into(one).tolist() == [True, True, False]
    assert bounds.maps_into(np.nextafter(one, 0)).tolist() == [True, False, False]


def test_a_step_without_a_proof_leaves_the_others_theirs() -> None:
    """A = 1: no inverse of I − A; and a latent that is no number. Before and behind them all is proved."""
    family, cover = drawn(4)
    family.a[5], family.r[5] = 1.0, 0.0
    latents = cover.latents.copy()
    latents[9, 9] = np.nan
    bounds = bounds_of(family, replace(cover, latents=latents))
    unproved = np.isin(np.arange(COUNT), [5, 9])
    assert (bounds.exists == ~unproved).all()
    assert np.isinf(bounds.image[unproved]).all()
