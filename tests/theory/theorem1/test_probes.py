"""The bound on the probability that an error hides from the directions along which it is measured."""

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

from tests.theory.theorem1.adversarial import WIDE, WIDE_W, W, claiming, explicit, hidden_from, random_states
from theory import Verdict, check_theorem1
from theory.theorem1.cross_checks import PROBES, Probes, miss_probability, root_mean_square

SIZE = 30


def matrix(name: str) -> Tensor:
    zero = torch.zeros(SIZE, SIZE, dtype=torch.float64)
    if name == "one entry":
        zero[3, 4] = 1.0
    elif name == "a difference of two":
        zero[3, 4], zero[3, 5] = 1.0, -1.0
    elif name == "full rank":
        zero = torch.eye(SIZE, dtype=torch.float64)
    else:
        zero[0] = torch.linspace(-1, 1, SIZE)
    return zero


@pytest.mark.parametrize("name", ["one entry", "a difference of two", "one row", "full rank"])
def test_no_error_hides_more_often_than_the_bound_says(name: str) -> None:
    error, ratio, draws = matrix(name), 0.5, 1000
    estimates = [root_mean_square(Probes(seed).directions(SIZE, error) @ error.mT) for seed in range(draws)]
    small = sum(estimate <= ratio * error.norm().item() for estimate in estimates)
    bound = miss_probability(ratio)
    # Five standard deviations of a count with that probability above its mean.
    assert small <= draws * bound + 5 * math.sqrt(draws * bound)
    # Of rank one the squared ratio is χ²_k / k exactly.
    if name != "full rank":
        exact = draws * scipy.stats.chi2.cdf(PROBES * ratio**2, PROBES)
        assert abs(small - exact) <= 5 * math.sqrt(exact)


@pytest.mark.parametrize("ratio", [0.01, 0.1, 0.3, 0.9])
@pytest.mark.parametrize("probes", [1, 4, 8])
def test_the_bound_is_above_the_exact_probability_of_rank_one(ratio: float, probes: int) -> None:
    assert scipy.stats.chi2.cdf(probes * ratio**2, probes) <= miss_probability(ratio, probes) <= 1


@pytest.mark.parametrize("size", range(1, PROBES + 1))
def test_a_small_matrix_is_measured_exactly(size: int) -> None:
    error = torch.randn(size, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    estimate = root_mean_square(Probes().directions(size, error) @ error.mT)
    assert estimate == pytest.approx(error.norm().item(), rel=1e-14)  # a dozen roundings


def test_purposes_and_seeds_give_other_directions() -> None:
    like = torch.zeros(1, dtype=torch.float64)
    drawn = [Probes(seed).directions(SIZE, like, purpose) for seed in (0, 1, 2**62) for purpose in (0, 1)]
    assert all(not one.equal(other) for i, one in enumerate(drawn) for other in drawn[:i])
    assert drawn[0].equal(Probes(0).directions(SIZE, like, 0))


def test_who_knows_the_seed_can_hide_a_wrong_derivative() -> None:
    """The reason why the operating system draws it: nothing else stands between this map and "holds"."""
    directions = Probes(seed=7).directions(WIDE, W, purpose=1)
    wrong = claiming(lambda v: 0 * v, hidden_from(directions))
    transition = explicit(lambda h: h.tanh() / 2 + wrong(h))
    states = random_states(WIDE)
    fooled = check_theorem1(transition, states[:1], alternatives=states, seed=7)
    assert fooled.conclusions is Verdict.HOLDS
    assert fooled.checks[0].layers[0].off_diagonal_error < 1e-9
    for _ in range(5):
        report = check_theorem1(transition, states[:1], alternatives=states)
        assert report.conclusions is Verdict.INCONCLUSIVE
        assert report.checks[0].layers[0].off_diagonal_error > 0.1


def test_a_report_can_be_repeated_from_its_seed() -> None:
    transition, states = explicit(lambda h: torch.tanh(WIDE_W @ h)), random_states(WIDE)
    first = check_theorem1(transition, states)
    again = check_theorem1(transition, states[2:3], alternatives=states, seed=first.checks[2].seed)
    assert again.checks[0].layers == first.checks[2].layers
    assert len({check.seed for check in first.checks}) == len(states)


def test_every_state_is_compared_where_nothing_contradicts() -> None:
    states = random_states(count=40)
    (first, *_) = check_theorem1(explicit(lambda h: W @ h), states[:1], alternatives=states).checks
    assert first.layers[0].compared == 39 + 16  # and as many again between and beside them
