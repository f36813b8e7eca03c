"""The conditions and their verdicts, and the errors that the Jacobians of a report are measured with."""

import math

import pytest
import scipy.stats
import torch
from torch import Tensor

from tests.theory.transitions import (
    WIDE,
    WIDE_W,
    W,
    claiming,
    entry,
    explicit,
    hidden_from,
    make_ssm,
    make_states,
    random,
    random_states,
)
from theory import (
    BlockMap,
    Condition,
    FactoredJacobian,
    FixedPoint,
    LayerConclusion,
    State,
    StateCheck,
    Status,
    Theorem1Report,
    Transition,
    Verdict,
    check_theorem1,
    latent_jacobian,
    layer_jacobians,
    solve_fixed_point,
)
from theory.fixed_point import EPSILON
from theory.theorem1.conditions import (
    combine,
    convergence_condition,
    coupling_condition,
    fixed_point_condition,
    invertibility_condition,
    judge,
    spectral_radius,
)
from theory.theorem1.cross_checks import (
    PROBES,
    Probes,
    central_differences,
    jacobian_errors,
    jacobian_rounding,
    latent_jacobian_error,
    miss_probability,
    resolved_differences,
    root_mean_square,
)


@pytest.mark.parametrize(
    ("value", "error", "rounding", "verdict"),
    [
        (1.0, 0.09, 0.0, Verdict.HOLDS),
        (1.0, 0.1, 0.0, Verdict.INCONCLUSIVE),  # exactly ten times the error is not more than ten times
        (1.0, 1.0, 0.0, Verdict.INCONCLUSIVE),  # a large error shows nothing at all
        (0.0, 0.0, 0.0, Verdict.FAILS),
        (-1.0, 0.01, 0.0, Verdict.FAILS),
        (1.0, math.nan, 0.0, Verdict.INCONCLUSIVE),
        (0.0, math.nan, 0.0, Verdict.INCONCLUSIVE),
        (math.nan, 0.1, 0.0, Verdict.INCONCLUSIVE),
        (1.0, math.inf, 0.0, Verdict.INCONCLUSIVE),
        (math.inf, math.inf, 0.0, Verdict.INCONCLUSIVE),
        (1e-12, 1e-10, 1e-16, Verdict.INCONCLUSIVE),  # neither seen nor rounding
        (1e-15, 1e-10, 1e-16, Verdict.FAILS),  # ten times the rounding: a decade, as everywhere
        (1.1e-15, 1e-10, 1e-16, Verdict.INCONCLUSIVE),
        (0.0, 0.09, 0.0, Verdict.FAILS),
        (0.0, 0.1, 0.0, Verdict.INCONCLUSIVE),  # not even a quantity of 1 would have been established
    ],
)
def test_judge(value: float, error: float, rounding: float, verdict: Verdict) -> None:
    assert judge(value, error, rounding) is verdict


def test_combine_is_conjunction_in_kleene_logic() -> None:
    holds, fails, open_ = Verdict.HOLDS, Verdict.FAILS, Verdict.INCONCLUSIVE
    assert combine([holds, holds]) is holds
    assert combine([holds, open_]) is open_
    assert combine([open_, fails]) is fails


def test_fixed_point_condition_follows_the_measured_rounding_level() -> None:
    good = fixed_point_condition(FixedPoint(torch.zeros(1), 5e-16, 1e-16, 7, 0.0, Status.CONVERGED))
    assert (good.verdict, good.threshold) == (Verdict.HOLDS, 1e-15)
    bad = fixed_point_condition(FixedPoint(torch.zeros(1), 0.5, math.nan, 7, 0.0, Status.MAX_ITERATIONS))
    assert bad.verdict is Verdict.FAILS
    assert "after 7 iterations the residual is 5.0e-01" in bad.reason


def test_invertibility_of_a_matrix_with_known_singular_values() -> None:
    left, right = (torch.linalg.qr(random(3, 3, seed=seed))[0] for seed in range(2))

    def condition(least: float, error: float) -> Condition:
        matrix = left @ torch.tensor([2.0, 1.0, least], dtype=torch.float64).diag() @ right
        return invertibility_condition(torch.eye(3).double() - matrix, error=error)

    found = condition(1e-3, 1e-6)
    assert found.value == pytest.approx(1e-3, abs=1e-14)  # Weyl: rounding of the product
    assert found.margin == pytest.approx(1e-3 - 1e-5, abs=1e-14)
    assert found.verdict is Verdict.HOLDS
    assert condition(1e-3, 5e-4).verdict is condition(1e-3, 2e-3).verdict is Verdict.INCONCLUSIVE
    assert condition(0.0, 1e-10).verdict is Verdict.FAILS


def test_convergence_depends_on_the_damping() -> None:
    slope = torch.diag(torch.tensor([-1.5, 0.2], dtype=torch.float64))
    undamped = convergence_condition(slope, 1.0, 1e-9)
    damped = convergence_condition(slope, 0.5, 1e-9)
    assert (undamped.value, undamped.verdict) == (1.5, Verdict.FAILS)
    assert (damped.value, damped.verdict) == (0.6, Verdict.HOLDS)  # max(|0.5 − 0.75|, 0.5 + 0.1)
    # It fails only where it is known to.
    beyond = torch.diag(torch.tensor([1.0 + 1e-10, 0.2], dtype=torch.float64))
    assert convergence_condition(beyond, 1.0, 1e-9).verdict is Verdict.INCONCLUSIVE
    assert convergence_condition(beyond, 1.0, 1e-14).verdict is Verdict.FAILS


def test_convergence_knows_how_far_a_defective_eigenvalue_moves() -> None:
    # A Jordan block of order 8 at 0.9: an error of 1e-9 moves its eigenvalue by up to 1e-9^(1/8) = 0.075.
    slope = 0.9 * torch.eye(8, dtype=torch.float64) + torch.diag(torch.ones(7, dtype=torch.float64), 1)
    normal = 0.9 * torch.eye(8, dtype=torch.float64)
    assert convergence_condition(normal, 1.0, 1e-9).verdict is Verdict.HOLDS
    assert convergence_condition(slope, 1.0, 1e-9).verdict is not Verdict.HOLDS


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_rounding_of_the_derivative_is_an_error_of_its_radius(size: float) -> None:
    """ε ‖A‖, even where none was measured; of four perturbations of a number the largest moves it most."""
    condition = convergence_condition(torch.full((1, 1), size, dtype=torch.float64), 1.0, 0.0)
    found = float(condition.reason.rpartition(" ")[2])
    assert 0.99 < found / (EPSILON * size) < 6  # printed with two digits; six standard deviations


def test_spectral_radius_of_a_rotation() -> None:
    rotation = torch.tensor([[0.0, -3.0], [3.0, 0.0]], dtype=torch.float64)
    assert spectral_radius(rotation) == pytest.approx(3, rel=1e-15)


def test_coupling_is_that_of_the_weakest_layer() -> None:
    zeros, unit = torch.zeros(2, dtype=torch.float64), torch.eye(2, dtype=torch.float64)
    across, within = (FactoredJacobian(zeros, unit[:, :1], unit[row : row + 1]) for row in (1, 0))
    assert coupling_condition([across], [1e-9]).verdict is Verdict.HOLDS
    condition = coupling_condition([across, within], [1e-9, 1e-9])
    assert (condition.value, condition.verdict) == (0.0, Verdict.FAILS)


CONCLUSIVE = LayerConclusion(("h",), 0.5, 1e-9, 0.25, 1e-9)
DIAGONAL = LayerConclusion(("g",), 0.0, 1e-9, 0.125, 1e-9)
UNDECIDED = LayerConclusion(("h",), 0.5, 1e-9, 5e-9, 1e-9)


def state_check(*layers: LayerConclusion, **verdicts: Verdict) -> StateCheck:
    conditions = tuple(
        Condition(name, 0.5, 0.1, 0.4, verdicts.get(name, Verdict.HOLDS), "as given")
        for name in ("C1", "C2", "C3", "C4")
    )
    return StateCheck(Status.CONVERGED, conditions, layers)


@pytest.mark.parametrize("name", ["C1", "C2", "C3"])
@pytest.mark.parametrize("verdict", [Verdict.FAILS, Verdict.INCONCLUSIVE])
def test_conclusions_do_not_count_without_their_conditions(name: str, verdict: Verdict) -> None:
    check = state_check(CONCLUSIVE, **{name: verdict})
    assert check.verdict is Verdict.INCONCLUSIVE
    assert f"({name})" in check.reason


def test_every_layer_must_hold() -> None:
    assert state_check(CONCLUSIVE).verdict is Verdict.HOLDS
    undecided = state_check(UNDECIDED)
    assert undecided.verdict is Verdict.INCONCLUSIVE
    assert "is non-linear: what was measured is below ten times its error" in undecided.reason
    check = state_check(CONCLUSIVE, DIAGONAL)
    assert check.verdict is Verdict.FAILS
    assert check.reason == "the transition is diagonal in at least one layer, to within the measured error"
    assert (check.off_diagonal_mass, check.nonlinearity) == (0.0, 0.125)


def test_one_failing_state_decides_over_holding_and_open_ones() -> None:
    holds, open_, fails = state_check(CONCLUSIVE), state_check(UNDECIDED), state_check(DIAGONAL)
    assert Theorem1Report((holds, open_)).verdict is Verdict.INCONCLUSIVE
    report = Theorem1Report((holds, holds, open_, fails))
    assert report.verdict is Verdict.FAILS
    assert report.counts == {"holds": 2, "fails": 1, "inconclusive": 1, "does not apply": 0}
    assert next(iter(report.reasons)) == "holds: the transition is non-diagonal and non-linear"


def test_quantity_without_any_value_is_none() -> None:
    report = Theorem1Report((state_check(),))
    assert math.isnan(report.values("nonlinearity")[0])
    assert report.summary()["nonlinearity"] == {"min": None, "median": None, "max": None}
    assert Theorem1Report(()).verdict is Verdict.INCONCLUSIVE


def solved(transition: Transition, state: State) -> tuple[BlockMap, Tensor, FactoredJacobian]:
    latent = solve_fixed_point(transition, state).latent
    block = BlockMap(transition, state, transition.layer_states[0])
    return block, latent, layer_jacobians(transition, state, latent)[0]


def test_central_differences_of_a_parabola_are_exact_up_to_rounding() -> None:
    point = torch.tensor([1.0, 2.0], dtype=torch.float64)
    directions = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    measured = central_differences(torch.square, point, directions)
    # No truncation error for a polynomial of degree 2; rounding ε/step is 4e-11 relative.
    torch.testing.assert_close(measured, directions * 2 * point, rtol=1e-9, atol=1e-9)


def test_error_of_a_right_jacobian_is_small_and_of_a_wrong_one_is_its_distance() -> None:
    block, latent, jacobian = solved(make_ssm(), make_states(6, 1)[0])
    assert jacobian_errors(jacobian, block, latent)[0] < 1e-9 * jacobian.frobenius_norm()  # ε^⅔ and a decade
    shift = torch.zeros_like(jacobian.direct)
    shift[2] = 0.25
    wrong = FactoredJacobian(jacobian.direct + shift, jacobian.left, jacobian.right)
    # A diagonal error maps every sign vector to the same norm, so that the estimate is exact here.
    assert jacobian_errors(wrong, block, latent)[0] == pytest.approx(0.25, abs=1e-8)


def test_error_shows_a_latent_that_is_no_fixed_point() -> None:
    block, latent, _ = solved(make_ssm(), make_states(6, 1)[0])
    elsewhere = latent + 0.1
    jacobian = layer_jacobians(block.transition, block.state, elsewhere)[0]
    # The derivative of the formula at a wrong latent differs at first order in the distance.
    assert jacobian_errors(jacobian, block, elsewhere)[0] > 1e-4 * jacobian.frobenius_norm()


def test_vanished_fixed_point_gives_no_number() -> None:
    # Φ(z) = z + h² has fixed points at h = 0 only.
    transition = Transition(lambda z, s: z + s["h"] ** 2, lambda z, s: {"h": z}, 1, (("h",),))
    zero = torch.zeros(1, dtype=torch.float64)
    block = BlockMap(transition, {"h": zero}, ("h",))
    assert resolved_differences(block, zero, torch.ones(1, 1, dtype=torch.float64)).isnan().all()


def test_error_of_the_latent_jacobian() -> None:
    block, latent, _ = solved(make_ssm(), make_states(6, 1)[0])
    slope = latent_jacobian(block.transition, block.state, latent)
    assert latent_jacobian_error(slope, block, latent) < 1e-9  # ε^⅔ and a decade
    wrong = slope + torch.diag(torch.full((4,), 0.5, dtype=torch.float64))
    assert latent_jacobian_error(wrong, block, latent) == pytest.approx(1.0, abs=1e-8)  # sqrt(4 · ½²)


@pytest.mark.parametrize("slope", [0.01, 1.0, 100.0])
def test_the_rounding_of_a_linear_map_is_relative_to_its_norm(slope: float) -> None:
    """J does not move, so that ε ‖J‖_F is left; ‖J‖_F is 2 times the slope in four entries."""
    linear = explicit(lambda h: slope * h)
    h = torch.ones(4, dtype=torch.float64)
    (jacobian,) = layer_jacobians(linear, {"h": h}, h[:0])
    rounding = jacobian_rounding(linear, {"h": h}, h[:0], 0, jacobian)
    assert rounding == pytest.approx(EPSILON * 2 * slope, rel=1e-12, abs=0)  # else 1e-12 would do


ERRORS = {
    "one entry": entry(3, 4, size=30),
    "a difference of two": entry(3, 4, 5, size=30),
    "one row": torch.eye(30, 1).double() * torch.linspace(-1, 1, 30).double(),
    "full rank": torch.eye(30, dtype=torch.float64),
}


@pytest.mark.parametrize("name", ERRORS)
def test_no_error_hides_more_often_than_the_bound_says(name: str) -> None:
    error, ratio, draws = ERRORS[name], 0.5, 1000
    estimates = [root_mean_square(Probes(seed).directions(30, error) @ error.mT) for seed in range(draws)]
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
    drawn = [Probes(seed).directions(30, like, purpose) for seed in (0, 1, 2**62) for purpose in (0, 1)]
    assert all(not one.equal(other) for i, one in enumerate(drawn) for other in drawn[:i])
    assert drawn[0].equal(Probes(0).directions(30, like, 0))


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
