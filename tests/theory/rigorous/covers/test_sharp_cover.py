"""Every term of a step between sets decides: loops whose exact image is known, and is the bound itself.

In one dimension, Φ(z; s, x) = A z + b s + e with A anywhere in [a − r, a + r] and e anywhere in [−E, E], and
G = g z + k s. The axes V are a quarter too short for the metric W, so that ‖I − W V‖ = 1/4 has to be made up
for. The bounds of `theory.rigorous.covers.invariant_cover` are reached by the loop with A = a + r, in exact
arithmetic: a bound that lacks any of its terms is below what that loop does.
"""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers.invariant_cover import Cover, EnclosedLoop, StepBounds, StepErrors, enclose_steps

Array = NDArray[np.float64]
IntArray = NDArray[np.int64]
COUNT = 120


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

    def _of(self, numbers: Array, latent: Dual) -> Ball:
        return Ball.exact(numbers[self.tokens][:, None])

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        self.tokens = tokens
        slope = Ball.around(self.a[tokens][:, None], self.r[tokens][:, None])
        tangent = latent.tangent * slope[..., None] + state.tangent * self._of(self.b, latent)[..., None]
        centre = latent.value.midpoint  # the latents are fixed points up to E
        image = Dual(Ball.around(centre, self.E[tokens][:, None]), tangent)
        return image, latent.scaled(self._of(self.g, latent)) + state.scaled(self._of(self.k, latent))

    def logits(self, latent: Dual) -> Dual:
        """(v z + d, 0)."""
        both = Ball.exact(np.stack([self.v[self.tokens], 0 * self.v[self.tokens]], axis=1))
        terms = Ball.exact(np.stack([self.d[self.tokens], 0 * self.d[self.tokens]], axis=1))
        return Dual(latent.value * both, latent.tangent * both[..., None]).shifted(terms)


def drawn(seed: int) -> tuple[Family, Cover]:
    """As many loops as sets; set i is read with token i, and led into set i + 1."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(-0.4, 0.6, COUNT)
    r = rng.uniform(0.01, 0.9, COUNT) * (1 - a)
    b, E, g, k, v, d = rng.uniform(0.1, 2, (6, COUNT))
    metrics = rng.uniform(0.5, 2, COUNT)
    centres = rng.uniform(-1, 1, COUNT)
    targets = np.tile((np.arange(COUNT) + 1) % COUNT, (COUNT, 1)).T.copy()
    cover = Cover(
        centres[:, None],
        metrics[:, None, None],
        0.75 / metrics[:, None, None],
        rng.uniform(0.1, 1, COUNT),
        targets,
        np.zeros((COUNT, COUNT), dtype=np.int64),
        rng.uniform(-1, 1, (COUNT, COUNT, 1)),
    )
    return Family(a, r, b, E, g, k, v, d), cover


def bounds_of(family: EnclosedLoop, cover: Cover) -> StepBounds:
    steps = np.arange(COUNT)
    return enclose_steps(family, cover, steps, steps)


def truth(family: Family, cover: Cover, i: int) -> dict[str, Fraction]:
    """What the loop with A = a + r does to the ends of set i, in exact arithmetic."""
    a, r, b, E, g, k, v, d = (
        Fraction(float(getattr(family, name)[i])) for name in ("a", "r", "b", "E", "g", "k", "v", "d")
    )
    target = (i + 1) % COUNT
    radius = Fraction(float(cover.radii[i])) / Fraction(float(cover.metrics[i, 0, 0]))
    latent, centre = Fraction(float(cover.latents[i, i, 0])), Fraction(float(cover.centres[i, 0]))
    metric, end = Fraction(float(cover.metrics[target, 0, 0])), Fraction(float(cover.centres[target, 0]))
    slope = 1 - a - r
    offset = metric * (abs(g * latent + k * centre - end) + g * E / slope)
    gain = k + g * b / slope
    return {
        "farthest": (E + b * radius) / slope,
        "offset": offset,
        "image": offset + metric * gain * radius,
        "margin": v * (latent - (E + b * radius) / slope) + d,
    }


def test_bounds_are_what_the_worst_loop_does() -> None:
    family, cover = drawn(0)
    bounds = bounds_of(family, cover)
    assert bounds.exists.all()
    for i in range(COUNT):
        exact = truth(family, cover, i)
        for name in ("offset", "image"):
            bound = Fraction(float(getattr(bounds, name)[i]))
            # a few dozen roundings; the spectral norm of one number is that number
            assert exact[name] <= bound <= exact[name] * (1 + Fraction(1, 10**11)), name
        margin = Fraction(float(bounds.margin[i]))
        slack = Fraction(1, 10**10) * (abs(exact["margin"]) + 10)
        assert exact["margin"] - slack <= margin <= exact["margin"]


def test_inexact_steps_reach_as_much_farther_as_the_worst_loop_does() -> None:
    """A latent off by δ and a next state off by η, both outward."""
    family, cover = drawn(0)
    errors = StepErrors(latent=0.0625, state=0.03125)
    steps = np.arange(COUNT)
    bounds = enclose_steps(family, cover, steps, steps, errors)
    assert bounds.exists.all()
    strayed, off = Fraction(errors.latent), Fraction(errors.state)
    for i in range(COUNT):
        exact = truth(family, cover, i)
        metric = Fraction(float(cover.metrics[(i + 1) % COUNT, 0, 0]))
        image = exact["image"] + metric * (Fraction(float(family.g[i])) * strayed + off)
        assert image <= Fraction(float(bounds.image[i])) <= image * (1 + Fraction(1, 10**11))
        margin = exact["margin"] - Fraction(float(family.v[i])) * strayed
        slack = Fraction(1, 10**10) * (abs(margin) + 10)
        assert margin - slack <= Fraction(float(bounds.margin[i])) <= margin
        assert Fraction(float(bounds.latent_radius[i])) >= exact["farthest"] + strayed


def test_the_box_of_a_latent_holds_the_fixed_points_of_the_worst_loop() -> None:
    """The first box is too small for most; the next one is half as wide again as what is then needed."""
    family, cover = drawn(1)
    radius = bounds_of(family, cover).latent_radius
    widened = 0
    for i in range(COUNT):
        needed = truth(family, cover, i)["farthest"]
        assert Fraction(float(radius[i])) >= needed
        widened += abs(float(radius[i]) / float(needed) - 1.5) < 1e-9
    assert widened > COUNT / 2


def test_a_target_that_just_holds_the_image_is_accepted_and_a_smaller_one_is_not() -> None:
    family, cover = drawn(2)
    bounds = bounds_of(family, cover)
    right = bounds.margin > 0
    assert right.sum() > 10
    images = np.array([float(truth(family, cover, i)["image"]) for i in range(COUNT)])
    assert (bounds.maps_into(images * (1 + 1e-9)) == right).all()
    assert not bounds.maps_into(images * (1 - 1e-9)).any()


class Squares:
    """G = s²: its derivative 2 s is largest at the edge of the box of states, which has to hold the set."""

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        return latent.scaled(Ball.exact(0.0)), state * state

    def logits(self, latent: Dual) -> Dual:
        return latent.mapped(Ball.exact(np.zeros((2, 1)))).shifted(Ball.exact([1.0, 0.0]))


def test_the_box_of_states_holds_the_whole_set() -> None:
    """|s² − c²| ≤ 2 (|c| + δ) δ on the set, δ = ρ / W; the derivative is taken at |c| + δ, and not beyond."""
    _, cover = drawn(3)
    cover = replace(cover, latents=np.zeros_like(cover.latents))
    bounds = bounds_of(Squares(), cover)
    assert bounds.exists.all()
    assert not bounds.latent_radius.max() > 1e-11
    for i in range(COUNT):
        target = (i + 1) % COUNT
        radius = Fraction(float(cover.radii[i])) / Fraction(float(cover.metrics[i, 0, 0]))
        centre, end = (Fraction(float(cover.centres[j, 0])) for j in (i, target))
        metric = Fraction(float(cover.metrics[target, 0, 0]))
        image = metric * (abs(centre**2 - end) + 2 * (abs(centre) + radius) * radius)
        assert image <= Fraction(float(bounds.image[i])) <= image * (1 + Fraction(1, 10**10))


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
