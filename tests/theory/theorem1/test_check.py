import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.refusals import refusals
from tests.theory.transitions import implicit, make_ssm, make_states
from theory import State, Status, Theorem1Report, Transition, Verdict, check, check_theorem1
from theory.theorem1.report import QUANTITIES


def random_initialisations(states: list[State], gain: float, seeds: range) -> Theorem1Report:
    models = (make_ssm(seed, gain=gain, damping=0.8) for seed in seeds)
    return Theorem1Report.merge(check_theorem1(model, states, max_iterations=500) for model in models)


def test_holds_at_random_initialisations_that_contract() -> None:
    merged = random_initialisations(make_states(6, 2), 0.5, range(6))
    assert merged.reasons == {"holds: the transition is non-diagonal and non-linear": 12}
    conditions = [condition.verdict for one in merged.checks for condition in one.conditions]
    assert conditions == [Verdict.HOLDS] * 4 * 12


def test_wild_initialisations_hold_where_a_fixed_point_is_reached_and_are_open_elsewhere() -> None:
    merged = random_initialisations(make_states(6, 2), 3.0, range(100, 116))
    without = [check for check in merged.checks if check.status is not Status.CONVERGED]
    assert 4 < len(without) < 28  # both cases occur often at this gain
    for found in merged.checks:
        if found.status is not Status.CONVERGED:
            assert found.verdict is Verdict.INCONCLUSIVE
            assert "no fixed point was reached (C1): the iteration limit was reached first" in found.reason
        elif found.verdict is not Verdict.HOLDS:  # the state to compare with has none
            assert found.verdict is Verdict.INCONCLUSIVE
            assert "C1 to C3 are not established with the block of another visited state" in found.reason
            assert found.layers[0].non_diagonal is Verdict.HOLDS
    assert merged.counts["fails"] == 0
    assert merged.counts["holds"] > 4


@pytest.mark.parametrize("ignored", ["latent_to_update", "state_to_latent"])
def test_implicit_negative_controls_fail(ignored: str) -> None:
    report = check_theorem1(make_ssm(**{ignored: False}), make_states(6, 2))
    assert report.verdict is Verdict.FAILS
    assert report.reasons == {"fails: the transition is diagonal and linear, to within the measured error": 2}
    verdicts = [condition.verdict.value for condition in report.checks[0].conditions]
    assert verdicts == ["holds", "holds", "holds", "fails"]


def test_explicit_selective_ssm_fails() -> None:
    """Its decay depends on the window alone: J changes between the states, but not with h."""
    decay = torch.linspace(0.1, 0.9, 6, dtype=torch.float64)
    explicit = Transition(
        lambda z, s: z,
        lambda z, s: {**s, "h": decay * s["window"].exp().sum() * s["h"] + s["window"].sin().sum()},
        0,
        (("h",),),
    )
    report = check_theorem1(explicit, make_states(6, 4))
    assert report.conclusions is Verdict.FAILS
    summary = report.summary()
    assert summary["off_diagonal_mass"]["max"] == summary["nonlinearity"]["max"] == 0
    assert summary["conditions"] == dict.fromkeys(("C1", "C2", "C3", "C4"), "does not apply")


def test_scalar_case_is_non_linear_but_diagonal() -> None:
    """One state is always diagonal: h' = tanh(2 h) in implicit form."""
    rnn = implicit(lambda z, h: h, lambda z, h: h / 2 + torch.tanh(2 * z) - z / 2, 1)
    report = check_theorem1(rnn, [{"h": torch.tensor([value]).double()} for value in (0.0, 1.0)])
    layer = report.checks[0].layers[0]
    assert (layer.non_diagonal, layer.non_linear) == (Verdict.FAILS, Verdict.HOLDS)
    # J(0) = 2 and J(1) = 2 (1 − tanh² 2): the change relative to J(0) is tanh² 2.
    assert layer.nonlinearity == pytest.approx(np.tanh(2.0) ** 2, abs=1e-14)


def test_singular_system_is_inconclusive_by_c2() -> None:
    report = check_theorem1(implicit(lambda z, h: z, lambda z, h: h + z.sum(), 2), make_states(3, 2))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "(C2)" in report.checks[0].reason


def test_summary_is_json_and_ignores_what_was_not_measured() -> None:
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


def test_damping_belongs_to_the_iteration_and_not_to_the_jacobian() -> None:
    states = make_states(6, 2)
    plain, damped = (check_theorem1(replace(make_ssm(0), damping=damping), states) for damping in (1.0, 0.5))
    # The same fixed point, reached to rounding level over 1 − rate.
    np.testing.assert_allclose(damped.values("nonlinearity"), plain.values("nonlinearity"), rtol=1e-12)
    assert not np.allclose(damped.values("spectral_radius"), plain.values("spectral_radius"), rtol=1e-2)


WEIGHT = torch.tensor([[0.5, 1.0], [-1.0, 0.5]], dtype=torch.float64)


class TanhRNN(nn.Module):
    """h' = tanh(W h + token), with a fixed point z = h or without one; the state starts at (1, 0)."""

    def __init__(self, *, implicit: bool) -> None:
        super().__init__()
        self.weight, self.implicit = nn.Parameter(WEIGHT.float()), implicit

    def init_state(self, batch_size: int) -> State:
        return {"h": self.weight.new_tensor([[1.0, 0.0]]).expand(batch_size, -1)}

    def after(self, h: Tensor, token: int) -> Tensor:
        return torch.tanh(self.weight.detach() @ h + token)

    def transition(self, token: int) -> Transition:
        if not self.implicit:
            return Transition(lambda z, s: z, lambda z, s: {"h": self.after(s["h"], token)}, 0, (("h",),))
        return implicit(lambda z, h: h, lambda z, h: h / 2 + self.after(z, token) - z / 2, 2)


def test_the_states_are_those_that_the_tokens_lead_to_and_the_words_say_what_holds() -> None:
    tokens = [1, 0, 1, 1]
    found = check(TanhRNN(implicit=True), tokens, seed=0)
    assert found.headline == "non-diagonal and non-linear; the conclusions of Theorem 1 hold"
    assert repr(found).startswith(f"N{found.headline[1:]}: of 3 visited")
    assert "Conditions: C1 holds, C2 holds, C3 holds, C4 holds." in repr(found)
    # by hand: the states before the second, the third and the fourth token, in float64 as the weights are
    h, states = torch.tensor([1.0, 0.0], dtype=torch.float64), []
    for token in tokens:
        states.append({"h": h})
        h = torch.tanh(WEIGHT @ h + token)
    model = TanhRNN(implicit=True).double()
    for token, at in ((0, [1]), (1, [2, 3])):
        several = [states[place] for place in at]
        by_hand = check_theorem1(model.transition(token), several, alternatives=states[1:], seed=0)
        masses = {check.off_diagonal_mass for check in by_hand.checks}
        # rounding of the states, which come about by other operations
        assert all(any(abs(m - f) < 1e-12 for f in found.values("off_diagonal_mass")) for m in masses)


def test_a_model_without_a_fixed_point_gets_the_words_that_all_pages_use() -> None:
    model = TanhRNN(implicit=False)
    found = check(model, torch.tensor([[1, 0, 1], [0, 0, 1]]), states=3)
    assert found.headline == "non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)"
    assert len(found.checks) == 3
    assert model.weight.dtype == torch.float32  # a copy was asked
    assert len(check(model, [1]).checks) == 1


test_what_is_wrong_is_said_in_one_sentence = refusals(
    (lambda: check(nn.Linear(1, 1), [0]), "model is .*; give a model with init_state and transition"),  # type: ignore[arg-type]
    (
        lambda: check(TanhRNN(implicit=True), [0.5]),  # type: ignore[arg-type]
        r"tokens is torch.float32 of shape \[1\]; give whole numbers",
    ),
    (lambda: check(TanhRNN(implicit=True), []), "give whole numbers"),
    (lambda: check(TanhRNN(implicit=True), [[0, 1], [0]]), "tokens is list; give whole numbers"),
    (lambda: check(TanhRNN(implicit=True), "0101"), "tokens is str; give whole numbers"),  # type: ignore[arg-type]
)
