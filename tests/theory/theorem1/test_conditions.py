import math

import pytest
import torch

from tests.theory.transitions import random
from theory import (
    Condition,
    FactoredJacobian,
    FixedPoint,
    LayerConclusion,
    StateCheck,
    Status,
    Theorem1Report,
    Verdict,
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
