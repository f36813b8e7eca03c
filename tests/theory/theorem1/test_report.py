import math

import pytest

from theory import Condition, LayerConclusion, StateCheck, Status, Theorem1Report, Verdict

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
    check = state_check(CONCLUSIVE, DIAGONAL)
    assert check.verdict is Verdict.FAILS
    assert check.reason == "the transition is diagonal in at least one layer, to within the measured error"
    assert (check.off_diagonal_mass, check.nonlinearity) == (0.0, 0.125)


def test_undecided_quantity_is_named() -> None:
    check = state_check(UNDECIDED)
    assert check.verdict is Verdict.INCONCLUSIVE
    assert "is non-linear: what was measured is below ten times its error" in check.reason


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
