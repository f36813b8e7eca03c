"""Means with intervals over sequences, and fitted rates, against closed forms and repeated draws."""

import math

import numpy as np
import pytest
import scipy.stats

from analysis.belief.statistics import binned, doubling_edges, estimate, fitted_rate


def test_with_one_place_in_each_sequence_it_is_students_interval() -> None:
    values = np.random.default_rng(0).normal(size=9)
    found = estimate(values, np.arange(9), 0.9)
    low, high = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
    # float64 sums of nine numbers
    assert (found.mean, found.low, found.high) == pytest.approx((values.mean(), low, high), rel=1e-12)


def test_places_of_a_sequence_do_not_count_as_independent() -> None:
    values = np.random.default_rng(0).normal(size=9)
    repeated = estimate(np.repeat(values, 50), np.repeat(np.arange(9), 50))
    alone = estimate(values, np.arange(9))
    assert (repeated.low, repeated.high) == pytest.approx((alone.low, alone.high), rel=1e-12)
    assert (repeated.sequences, repeated.places) == (9, 450)


def test_the_interval_holds_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(1000):
        counts = rng.integers(1, 6, 40)
        sequences = np.repeat(np.arange(40), counts)
        values = rng.normal(size=40)[sequences] + rng.normal(size=counts.sum())
        found = estimate(values, sequences, 0.9)
        held += found.low <= 0 <= found.high
    # a ratio over 40 sequences: nearly 90%; five deviations of 1,000 coins are 4.7%
    assert abs(held / 1000 - 0.9) < 0.047 + 0.01


def test_nothing_has_no_mean_and_one_sequence_no_interval() -> None:
    nothing = estimate(np.zeros(0), np.zeros(0, np.int64))
    assert math.isnan(nothing.mean)
    assert nothing.cell == "–"
    one = estimate(np.array([1.0, 2.0]), np.array([3, 3]))
    assert (one.mean, one.cell) == (1.5, "1.5")
    assert math.isnan(one.low)
    infinite = estimate(np.array([1.0, np.inf]), np.array([0, 1]))
    assert infinite.mean == np.inf
    assert math.isnan(infinite.low)


def test_bins_share_out_all_places() -> None:
    rng = np.random.default_rng(0)
    by = rng.integers(1, 100, 500)
    for per_doubling in (1, 2, 4):
        edges = doubling_edges(99, per_doubling)
        assert edges == sorted(set(edges))
        found = binned(by.astype(np.float64), rng.integers(0, 5, 500), by, edges)
        assert sum(entry.places for entry in found.found) == 500
        for low, high, entry in zip(found.low, found.high, found.found, strict=True):
            assert entry.places == ((by >= low) & (by <= high)).sum()
            assert not entry.places or low <= entry.mean <= high
        assert (found.middles >= found.low).all()


def test_rates_are_those_of_the_part_before_what_underflows() -> None:
    times = np.arange(40.0)
    logs = np.stack([-0.25 * times, -0.75 * times])
    logs[0, 20:] = -np.inf
    logs[:, :5] += np.linspace(50, 0, 5)  # a transient, in the first half of both
    found = fitted_rate(logs)
    assert found.per_token == pytest.approx(-0.5)
    assert found.sequences == 2
    half = 0.25 * scipy.stats.t.ppf(0.975, 1)  # of two values, 0.25 on both sides of their mean
    assert (found.low, found.high) == pytest.approx((-0.5 - half, -0.5 + half))
    assert math.isnan(fitted_rate(np.full((2, 8), -np.inf)).per_token)
