import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from theory import State, Status, Theorem1Report, Transition, Verdict, check_theorem1
from theory.theorem1.report import QUANTITIES

MakeSSM = Callable[..., Transition]
MakeStates = Callable[[int, int], list[State]]


def random_initialisations(
    make_ssm: MakeSSM, states: list[State], gain: float, seeds: range
) -> list[Theorem1Report]:
    return [
        check_theorem1(
            make_ssm(seed, gain=gain, damping=0.8), states, max_iterations=500, label=f"seed {seed}"
        )
        for seed in seeds
    ]


def test_holds_at_random_initialisations_that_contract(make_ssm: MakeSSM, make_states: MakeStates) -> None:
    reports = random_initialisations(make_ssm, make_states(6, 2), 0.5, range(6))
    assert [report.verdict for report in reports] == [Verdict.HOLDS] * 6
    merged = Theorem1Report.merge(reports)
    assert merged.reasons == {"holds: the transition is non-diagonal and non-linear": 12}
    assert all(
        condition.verdict is Verdict.HOLDS for check in merged.checks for condition in check.conditions
    )


def test_wild_initialisations_hold_where_a_fixed_point_is_reached_and_are_open_elsewhere(
    make_ssm: MakeSSM, make_states: MakeStates
) -> None:
    states = make_states(6, 2)
    merged = Theorem1Report.merge(random_initialisations(make_ssm, states, 3.0, range(100, 116)))
    without = [check for check in merged.checks if check.status is not Status.CONVERGED]
    assert 4 < len(without) < 28  # both cases occur often at this gain
    for check in merged.checks:
        if check.status is not Status.CONVERGED:
            assert check.verdict is Verdict.INCONCLUSIVE
            assert "no fixed point was reached (C1): the iteration limit was reached first" in check.reason
        elif check.verdict is not Verdict.HOLDS:  # the state to compare with has none
            assert check.verdict is Verdict.INCONCLUSIVE
            assert "C1 to C3 are not established with the block of another visited state" in check.reason
            assert check.layers[0].non_diagonal is Verdict.HOLDS
    assert merged.counts["fails"] == 0
    assert merged.counts["holds"] > 4


@pytest.mark.parametrize("ignored", ["latent_to_update", "state_to_latent"])
def test_implicit_negative_controls_fail(ignored: str, make_ssm: MakeSSM, make_states: MakeStates) -> None:
    report = check_theorem1(make_ssm(**{ignored: False}), make_states(6, 2))
    assert report.verdict is Verdict.FAILS
    assert report.reasons == {"fails: the transition is diagonal and linear, to within the measured error": 2}
    verdicts = [condition.verdict.value for condition in report.checks[0].conditions]
    assert verdicts == ["holds", "holds", "holds", "fails"]


def test_explicit_selective_ssm_fails(make_states: MakeStates) -> None:
    decay = torch.linspace(0.1, 0.9, 6, dtype=torch.float64)
    explicit = Transition(
        self_map=lambda z, s: z,
        state_update=lambda z, s: {
            "h": (decay * s["window"].exp().sum()) * s["h"] + s["window"].sin().sum(),
            "window": s["window"],
        },
        latent_size=0,
        layer_states=(("h",),),
    )
    report = check_theorem1(explicit, make_states(6, 4))
    assert report.conclusions is Verdict.FAILS
    summary = report.summary()
    assert summary["off_diagonal_mass"]["max"] == 0
    assert summary["nonlinearity"]["max"] == 0
    assert summary["conditions"] == dict.fromkeys(("C1", "C2", "C3", "C4"), "does not apply")


def test_scalar_case_is_non_linear_but_diagonal() -> None:
    """One state is always diagonal: h' = tanh(2 h) in implicit form."""
    rnn = Transition(
        self_map=lambda z, s: s["h"],
        state_update=lambda z, s: {"h": s["h"] / 2 + torch.tanh(2 * z) - z / 2},
        latent_size=1,
        layer_states=(("h",),),
    )
    report = check_theorem1(rnn, [{"h": torch.tensor([value]).double()} for value in (0.0, 1.0)])
    layer = report.checks[0].layers[0]
    assert (layer.non_diagonal, layer.non_linear) == (Verdict.FAILS, Verdict.HOLDS)
    # J(0) = 2 and J(1) = 2 (1 − tanh² 2): the change relative to J(0) is tanh² 2.
    assert layer.nonlinearity == pytest.approx(np.tanh(2.0) ** 2, abs=1e-14)


def test_singular_system_is_inconclusive_by_c2(make_states: MakeStates) -> None:
    neutral = Transition(
        lambda z, s: z, lambda z, s: {"h": s["h"] + z.sum(), "window": s["window"]}, 2, (("h",),)
    )
    report = check_theorem1(neutral, make_states(3, 2))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "(C2)" in report.checks[0].reason


def test_nonlinearity_compares_with_the_window_unchanged(make_states: MakeStates) -> None:
    """The decay depends on the window alone: J changes between the states, but not with h."""
    by_window = Transition(
        self_map=lambda z, s: z,
        state_update=lambda z, s: {"h": s["window"].sum() * s["h"], "window": s["window"]},
        latent_size=0,
        layer_states=(("h",),),
    )
    report = check_theorem1(by_window, make_states(3, 4))
    assert report.values("nonlinearity").max() == 0


def test_summary_is_json_and_ignores_what_was_not_measured(
    make_ssm: MakeSSM, make_states: MakeStates
) -> None:
    states = make_states(6, 3)
    good = check_theorem1(make_ssm(0), states, label="a")
    unreached = check_theorem1(make_ssm(0), states, max_iterations=1, label="b")
    merged = Theorem1Report.merge([good, unreached])
    summary = json.loads(json.dumps(merged.summary(), allow_nan=False))
    assert summary["states"] == 6
    assert summary["counts"] == {"holds": 3, "fails": 0, "inconclusive": 3, "does not apply": 0}
    assert summary["verdict"] == "inconclusive"
    for quantity in QUANTITIES[1:]:
        values = good.values(quantity)
        assert summary[quantity] == {"min": values.min(), "median": np.median(values), "max": values.max()}
    assert np.isnan(unreached.values("nonlinearity")).all()
    assert merged.checks[4].label == "b[1]"


def test_damping_belongs_to_the_iteration_and_not_to_the_jacobian(
    make_ssm: MakeSSM, make_states: MakeStates
) -> None:
    states = make_states(6, 2)
    plain = check_theorem1(make_ssm(0), states)
    damped = check_theorem1(replace(make_ssm(0), damping=0.5), states)
    # The same fixed point, reached to rounding level over 1 − rate.
    np.testing.assert_allclose(damped.values("nonlinearity"), plain.values("nonlinearity"), rtol=1e-12)
    assert not np.allclose(damped.values("spectral_radius"), plain.values("spectral_radius"), rtol=1e-2)
