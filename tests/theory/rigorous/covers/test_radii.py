"""Radii that are found against those in closed form; and sets that cannot be closed."""

import numpy as np
from numpy.typing import NDArray

from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers.invariant_cover import Cover, bound_all, close_cover

IntArray = NDArray[np.int64]


class Shrinking:
    """s' = rate · s + x / 10 on numbers, the logits (1, s)."""

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        shift = Ball.exact(np.asarray(tokens)[:, None] / 10)
        return state, state.scaled(Ball.exact(self.rate)).shifted(shift)

    def logits(self, latent: Dual) -> Dual:
        return latent.mapped(Ball.exact([[0.0], [1.0]])).shifted(Ball.exact([1.0, 0.0]))


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
    found = close_cover(Shrinking(0.5), chain([[0, 0]], [0.1]))
    assert found.closed.all()
    assert 0.1 <= found.cover.radii[0] < 0.1 * 1.25
    # the answer is right by 1 − s at least
    assert 1 - 0.1 - 0.1 * 1.25 < found.bounds.margin.min() <= 0.8


def test_two_sets_that_lead_into_each_other() -> None:
    # [0, 0.2] as halves around 0.05 and 0.15; token 0 leads from both into the first, token 1 into the second
    cover = chain([[0, 1], [0, 1]], [0.05, 0.15])
    found = close_cover(Shrinking(0.5), cover)
    assert found.closed.all()
    assert (found.cover.radii >= 0.05).all()
    again = bound_all(Shrinking(0.5), found.cover)
    np.testing.assert_array_equal(again.image, found.bounds.image)
    some = bound_all(Shrinking(0.5), found.cover, np.array([3, 0]))
    np.testing.assert_array_equal(some.image, found.bounds.image[[3, 0]])


def test_what_does_not_contract_is_not_closed() -> None:
    found = close_cover(Shrinking(1.01), chain([[0, 0]], [0.1]), attempts=3)
    assert not found.closed.any()


def test_sets_are_not_closed_where_the_answer_changes() -> None:
    # s/2 + x/10 + … stays near 1.9 only in a loop that adds: here the set around 2 answers 1, not 0
    found = close_cover(Shrinking(0.5), chain([[0, 0]], [2.0]))
    assert not found.closed.any()


def test_radii_that_suffice_are_not_grown() -> None:
    """s' = s/2: the first radii are 5% above what is needed, more than the slack of 1%."""
    cover = chain([[0, 0]], [0.1])
    found, first = (close_cover(Shrinking(0.5), cover, attempts=count) for count in (40, 0))
    assert first.closed.all()
    np.testing.assert_array_equal(found.cover.radii, first.cover.radii)


def test_images_leave_a_slack_in_their_targets() -> None:
    """For a checker in other arithmetic: one part in a hundred."""
    cover = chain([[0, 1], [0, 1]], [0.05, 0.15])
    found = close_cover(Shrinking(0.5), cover)
    targets = found.cover.radii[cover.targets.ravel()]
    assert (found.bounds.image <= 0.99 * targets).all()


class Curved(Shrinking):
    """s' = s² + s/2 on numbers, both tokens alike: the gain over a set grows with its radius."""

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        shift = Ball.exact(np.full((len(tokens), 1), 0.01))
        return state, (state * state + state.scaled(Ball.exact(self.rate))).shifted(shift)


def test_radii_that_curvature_makes_too_small_are_grown_until_images_leave_the_slack() -> None:
    """Around 0 with radius r the image is r² + r/2 + 0.01; the first radius is 1.05 times that for r² = 0."""
    cover = chain([[0, 0]], [0.0])
    first, found = (close_cover(Curved(0.5), cover, attempts=count) for count in (0, 40))
    assert first.bounds.image[0] > 0.99 * first.cover.radii[0]
    assert found.closed.all()
    assert (found.bounds.image <= 0.99 * found.cover.radii[0]).all()


class Lost(Shrinking):
    """`Shrinking` that knows nothing of what token 1 does."""

    def advance(self, latent: Dual, state: Dual, tokens: IntArray) -> tuple[Dual, Dual]:
        unknown = np.where(np.asarray(tokens)[:, None] == 1, np.nan, 0.0)
        fixed, following = super().advance(latent, state, tokens)
        return fixed.shifted(Ball.exact(unknown)), following.shifted(Ball.exact(unknown))


def test_a_step_of_which_nothing_is_known_does_not_spoil_others() -> None:
    """Token 1 leads from both sets into the second, whose own steps with token 0 close all the same."""
    found = close_cover(Lost(0.5), chain([[0, 1], [0, 1]], [0.05, 0.15]))
    assert np.isfinite(found.cover.radii).all()
    assert found.closed.reshape(2, 2).tolist() == [[True, False], [True, False]]
