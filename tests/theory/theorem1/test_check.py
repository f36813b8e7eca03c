"""The check on hand-made transitions, whose conclusions and kinds are known in closed form."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from tests.refusals import refusals
from tests.theory.transitions import (
    BOTH,
    MIXED,
    OPEN,
    OWN,
    PLAIN,
    W,
    along,
    explicit,
    implicit,
    make_ssm,
    make_states,
    random,
    random_states,
)
from theory import State, Status, Theorem1Report, Transition, TransitionKind, Verdict, check, check_theorem1
from theory.theorem1.conditions import LayerConclusion
from theory.theorem1.report import QUANTITIES


def random_initialisations(states: list[State], gain: float, seeds: range) -> Theorem1Report:
    models = (make_ssm(seed, gain=gain, damping=0.8) for seed in seeds)
    return Theorem1Report.merge(check_theorem1(model, states, max_iterations=500) for model in models)


def test_holds_at_random_initialisations_that_contract() -> None:
    merged = random_initialisations(make_states(6, 2), 0.5, range(4))
    assert merged.reasons == {"holds: the transition is non-diagonal and non-linear": 8}
    conditions = [condition.verdict for one in merged.checks for condition in one.conditions]
    assert conditions == [Verdict.HOLDS] * 4 * 8


def test_wild_initialisations_hold_where_a_fixed_point_is_reached_and_are_open_elsewhere() -> None:
    merged = random_initialisations(make_states(6, 2), 3.0, range(100, 110))
    without = [check for check in merged.checks if check.status is not Status.CONVERGED]
    assert 3 < len(without) < 17  # both cases occur often at this gain
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
    states = make_states(6, 2)
    report = check_theorem1(make_ssm(**{ignored: False}), states[:1], alternatives=states)
    assert report.verdict is Verdict.FAILS
    assert report.reasons == {"fails: the transition is diagonal and linear, to within the measured error": 1}
    verdicts = [condition.verdict.value for condition in report.checks[0].conditions]
    assert verdicts == ["holds", "holds", "holds", "fails"]


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


def test_a_report_says_what_the_fixed_point_mixes_in_each_layer() -> None:
    """All of the first layer's J comes through z, and nothing of the second one's."""
    drawn = torch.randn(3, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    states = [{"a": a, "b": 1e6 * b} for a, b in drawn]
    transition = Transition(
        lambda z, s: torch.tanh(WEIGHT @ s["a"]), lambda z, s: {"a": z, "b": s["b"] / 2}, 2, (("a",), ("b",))
    )
    found = check_theorem1(transition, states, seed=0)
    masses = sorted(check.layers[0].off_diagonal_mass for check in found.checks)
    sizes = " to ".join(dict.fromkeys(f"{mass:.2g}" for mass in (masses[0], masses[-1])))
    assert repr(found).endswith(f"that of the fixed point, has {sizes} of ‖J‖ in a, 0 of ‖J‖ in b.")
    assert "I − ∂zΦ at least 1 (C2), spectral radius at most 0 (C3)" in repr(found)


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


def test_a_token_that_is_read_first_only_is_checked_too() -> None:
    class Mixing(TanhRNN):
        def after(self, h: Tensor, token: int) -> Tensor:
            return self.weight.detach() @ h if token == 0 else h / 2

    found = [check(Mixing(implicit=False), tokens).headline for tokens in ([0, 1, 2], [1, 0, 2], [1, 1, 2])]
    assert [one.split(";")[0] for one in found] == [*2 * ["non-diagonal and linear"], "diagonal and linear"]


def test_states_behind_a_token_without_a_fixed_point_are_counted() -> None:
    class Odd(TanhRNN):
        def transition(self, token: int) -> Transition:
            return implicit(lambda z, h: z + 1, lambda z, h: h / 2, 2) if token else super().transition(0)

    assert check(Odd(implicit=True), [1, 0, 0]).behind == 2
    assert check(Odd(implicit=True), [0, 0, 1]).behind == 0


def test_a_model_without_a_fixed_point_gets_the_words_that_all_pages_use() -> None:
    model = TanhRNN(implicit=False)
    found = check(model, torch.tensor([[1, 0, 1], [0, 0, 1]]), states=3)
    assert found.headline == "non-diagonal and non-linear; Theorem 1 does not apply (no fixed point)"
    assert len(found.checks) == 3
    assert model.weight.dtype == torch.float32  # a copy was asked
    assert len(check(model, [1]).checks) == 1
    for tokens in (torch.tensor([1, 0, 1]), torch.tensor([[1, 0, 1], [0, 0, 1]])):  # as features of a layer
        features = tokens[..., None].expand(*tokens.shape, 2).float()
        of_features, of_tokens = (check(model, given).values("nonlinearity") for given in (features, tokens))
        assert of_features.tolist() == of_tokens.tolist()


test_what_is_wrong_is_said_in_one_sentence = refusals(
    (lambda: check(nn.Linear(1, 1), [0]), "model is .*; give a layer or a model"),  # type: ignore[arg-type]
    (lambda: check(3, [0]), "model is 3; give a layer"),  # type: ignore[arg-type]
    (lambda: check(nn.Sequential(TanhRNN(implicit=False)), [0]), "model is [^;]*; give a layer"),  # type: ignore[arg-type]
    (
        lambda: check(TanhRNN(implicit=True), [0.5]),  # type: ignore[arg-type]
        r"tokens is torch.float32 of shape \[1\]; give whole numbers",
    ),
    (lambda: check(TanhRNN(implicit=True), []), "give whole numbers"),
    (
        lambda: check(TanhRNN(implicit=True), [[0, 1], [0]]),
        "tokens is list .* give whole numbers, .* of one length",
    ),
    (lambda: check(TanhRNN(implicit=True), "0101"), "tokens is str of what is no number"),  # type: ignore[arg-type]
)


HEADS, D_K, D_V = 2, 3, 2
KEYS = normalize(random(HEADS, D_K, seed=5), dim=-1)
GATE = torch.sigmoid(random(HEADS, D_K, seed=7))[:, :, None]
MATRICES = random_states(HEADS, D_K, D_V)
DECAY = torch.linspace(0.1, 0.9, 4, dtype=torch.float64)


def delta_rule(keys: Tensor, beta: float, decay: float | Tensor = 1.0) -> Transition:
    """S ← α (S − β k (kᵀ S)) + k vᵀ per head, the state ``[heads, d_k, d_v]``, all but S from the token."""
    values = random(HEADS, D_V, seed=6)

    def update(S: Tensor) -> Tensor:
        forgotten = S - beta * torch.einsum("hk,hj,hjv->hkv", keys, keys, S)
        return decay * forgotten + torch.einsum("hk,hv->hkv", keys, values)

    return explicit(update)


CASES = {
    "Mamba-2": (explicit(lambda h: DECAY * h + 1.0), random_states(), PLAIN),
    "constant": (explicit(torch.ones_like), random_states(), PLAIN),
    "affine": (explicit(lambda h: W @ h + W[0]), random_states(), MIXED),
    "a coupling in a small row": (  # which is not the rounding of a large one
        explicit(lambda h: torch.stack([1e12 * h[0], h[1] + 1e-4 * h[2], h[2]])),
        random_states(3),
        MIXED,
    ),
    "delta rule": (delta_rule(KEYS, 0.7), MATRICES, MIXED),
    "delta rule, reflecting": (delta_rule(KEYS, 1.9), MATRICES, MIXED),
    "gated delta rule": (delta_rule(KEYS, 0.7, decay=0.9), MATRICES, MIXED),
    "delta rule, a gate per key": (delta_rule(KEYS, 0.7, decay=GATE), MATRICES, MIXED),
    "delta rule, beta 0": (delta_rule(KEYS, 0.0), MATRICES, PLAIN),
    "delta rule along the axes": (
        delta_rule(torch.eye(3, dtype=torch.float64)[[0, 2]], 0.7, decay=0.9),
        MATRICES,
        PLAIN,
    ),
    "Hadamard tanh": (explicit(lambda h: torch.tanh(DECAY * h + 0.5)), random_states(), OWN),
    "tanh RNN": (explicit(lambda h: torch.tanh(W @ h)), random_states(), BOTH),
    # J = diag λ + C (I − A)^{-1} B at every state
    "affine fixed point": (
        implicit(
            lambda z, h: 0.3 * W[:3, :3] @ z + W[:3] @ h + 1, lambda z, h: DECAY * h + W[:, :3] @ z, size=3
        ),
        random_states(),
        MIXED,
    ),
    # each block is diagonal, the whole Jacobian is not
    "a layer that reads another": (
        Transition(
            lambda z, s: z,
            lambda z, s: {"h": s["h"] / 2, "g": s["g"] / 3 + s["h"].flip(0)},
            0,
            (("h",), ("g",)),
        ),
        [{"h": state["h"], "g": state["h"].exp()} for state in random_states()],
        PLAIN,
    ),
}


@pytest.mark.parametrize(("transition", "states", "kind"), CASES.values(), ids=CASES)
def test_the_kind_of_a_transition(transition: Transition, states: list[State], kind: str) -> None:
    report = check_theorem1(transition, states[:2], alternatives=states)
    assert report.kind.value == kind
    assert report.conclusions.value == ("holds" if kind == BOTH else "fails")
    assert f" is {kind}: {report.kind.meaning}. " in report.kind_sentence
    assert ("each layer's own block" in report.kind_sentence) == (len(transition.layer_states) > 1)


def test_the_mass_of_the_delta_rule_is_that_of_its_closed_form() -> None:
    """∂vec(S')/∂vec(S) is per head α (I − β k kᵀ) on d_k, the identity on d_v."""
    report = check_theorem1(delta_rule(KEYS, 0.7, decay=0.9), MATRICES)
    over_keys, over_values = torch.eye(D_K, dtype=torch.float64), torch.eye(D_V, dtype=torch.float64)
    exact = torch.block_diag(
        *(0.9 * torch.kron(over_keys - 0.7 * torch.outer(k, k), over_values) for k in KEYS)
    )
    mass = (exact - exact.diagonal().diag()).norm() / exact.norm()
    for state in report.checks:
        assert state.off_diagonal_mass == pytest.approx(mass.item(), rel=1e-14)  # a dozen roundings
        assert state.nonlinearity == 0
        assert state.layers[0].secant_defect < 1e-14  # rounding of sums of a few numbers of order one
    assert report.verdict is Verdict.DOES_NOT_APPLY
    assert "does not apply: the transition is linear, to within the measured error" in report.reasons


def test_layers_have_kinds_of_their_own_and_the_stack_has_what_one_of_them_has() -> None:
    """The second layer's drive and keys come from the first one's state: block lower triangular."""

    def update(z: Tensor, state: State) -> State:
        h, S = DECAY * state["h"], state["S"]
        k = normalize(KEYS[0] + h[:D_K].tanh(), dim=0)
        return {"h": h, "S": S - 0.5 * torch.outer(k, k @ S) + torch.outer(k, h[:2])}

    states = [{"h": random(4, seed=s), "S": random(D_K, D_V, seed=s + 10)} for s in range(4)]
    report = check_theorem1(Transition(lambda z, s: z, update, 0, (("h",), ("S",))), states)
    assert [layer.kind.value for layer in report.layer_kinds] == [PLAIN, MIXED]
    summary = json.loads(json.dumps(report.summary(), allow_nan=False))
    assert (summary["kind"], summary["kind_sentence"]) == (report.kind.value, report.kind_sentence)
    assert [(kind["names"], kind["kind"]) for kind in summary["layer_kinds"]] == [
        (["h"], PLAIN),
        (["S"], MIXED),
    ]
    assert report.kind.value == MIXED
    assert "h is diagonal and linear; S is non-diagonal and linear" in report.kind_sentence
    # As one block the keys, which depend on h, make it non-linear.
    assert check_theorem1(Transition(lambda z, s: z, update, 0, (("h", "S"),)), states).kind.value == BOTH


def test_a_farthest_state_that_shows_nothing_is_followed_by_nearer_ones() -> None:
    """h/2 + 1 − cos h: 0 and 2π have the same J, and the secant between them follows it; π shows more."""
    wave = explicit(lambda h: h / 2 + 1 - h.cos())
    states = along(torch.full((4,), math.pi, dtype=torch.float64), 0.0, 2.0, 1.0)
    found = [state.layers[0] for state in check_theorem1(wave, states).checks]
    assert [layer.non_linear for layer in found] == [Verdict.HOLDS] * 3
    # |h' − J h| is 2 in each of four entries, between states 2π apart in the 2-norm, and ‖J‖_F is ½ √4.
    assert [layer.secant_defect for layer in found] == pytest.approx([4 / (2 * math.pi)] * 3, rel=1e-12)
    for state in check_theorem1(wave, states[:2]).checks:
        layer = state.layers[0]  # nothing else was visited: random states between and beside them show it
        assert (layer.non_linear, layer.unvisited) == (Verdict.HOLDS, True)


def test_the_secant_defect_of_tanh_is_its_closed_form() -> None:
    """At ±1: |2 tanh 1 − 2 tanh' 1| / (tanh' 1 · 2)."""
    report = check_theorem1(explicit(torch.tanh), along(torch.ones(1).double(), 1, -1))
    slope = 1 - math.tanh(1) ** 2
    for state in report.checks:
        assert state.nonlinearity == 0
        assert state.layers[0].secant_defect == pytest.approx(math.tanh(1) / slope - 1, rel=1e-14)
        assert state.layers[0].rounding == 0  # nothing is small
        assert state.conclusions is Verdict.FAILS  # one state is always diagonal
        assert state.reason == "the transition is diagonal, to within the measured error"


@pytest.mark.parametrize("coupling", [1.0, 1e-2, 1e-5, 0.0])
def test_what_float32_noise_hides_is_undetermined_and_never_wrong(coupling: float) -> None:
    """Executed in float32: finite differences see its rounding, 6e-8 over a step of 6e-6."""
    matrix = DECAY.diag() + coupling * (W - W.diagonal().diag())
    report = check_theorem1(
        explicit(lambda h: (matrix.float() @ h.float()).double()), random_states(4, count=6)
    )
    errors = [state.layers[0].off_diagonal_error for state in report.checks]
    assert 1e-5 < max(errors) < 0.1  # the noise is there: float64 gives 1e-10
    # Differences over a short way do not resolve 1e-5; moves of single entries over a whole one do.
    expected = {1.0: [MIXED], 1e-2: [MIXED, OPEN], 1e-5: [MIXED], 0.0: [PLAIN]}
    assert report.kind.value in expected[coupling]


def test_one_state_decides_the_diagonal_but_not_the_linear() -> None:
    report = check_theorem1(delta_rule(KEYS, 0.7), MATRICES[:1])
    assert report.kind is TransitionKind.UNDETERMINED
    assert "it is non-diagonal, whether it is linear is not " in report.kind_sentence


def test_states_without_a_fixed_point_leave_the_negative_claims_open() -> None:
    states = make_states(6, 2)
    control = make_ssm(latent_to_update=False)
    unreached = check_theorem1(control, states, max_iterations=1)
    assert (unreached.kind.value, unreached.layer_kinds) == (OPEN, ())
    reached = check_theorem1(control, states[:1], alternatives=states)
    assert reached.kind.value == PLAIN
    merged = Theorem1Report.merge([reached, unreached])
    assert merged.kind.value == OPEN
    assert "nothing measured at 2: no fixed point was reached" in merged.kind_sentence
    # What is seen once is seen.
    positive = [check_theorem1(make_ssm(), states), check_theorem1(make_ssm(), states, max_iterations=1)]
    assert Theorem1Report.merge(positive).kind.value == BOTH


@pytest.mark.parametrize(
    ("change", "defect", "verdict"),
    [
        (0.0, math.nan, Verdict.FAILS),  # no secant was measured
        (0.0, 0.0, Verdict.FAILS),
        (0.0, 0.5, Verdict.HOLDS),
        (0.5, 0.0, Verdict.HOLDS),
        (0.0, 5e-9, Verdict.INCONCLUSIVE),
        (5e-9, 0.0, Verdict.INCONCLUSIVE),
        (5e-9, 0.5, Verdict.HOLDS),
        (math.nan, math.nan, Verdict.INCONCLUSIVE),
    ],
)
def test_either_measurement_shows_nonlinearity_and_both_are_needed_against_it(
    change: float, defect: float, verdict: Verdict
) -> None:
    layer = LayerConclusion(("h",), 0.0, 1e-9, change, 1e-9, defect, 1e-9)
    assert layer.non_linear is verdict


def test_a_change_of_a_small_row_is_not_the_rounding_of_a_large_one() -> None:
    """J = diag(1e8, 1 + 2e-7 h₂): its change is 1e-15 of its norm, and 1e-7 of the row where it is."""
    steep = explicit(lambda h: torch.stack([1e8 * h[0], h[1] + 1e-7 * h[1] ** 2]))
    for state in check_theorem1(steep, random_states(2)).checks:
        assert 0 < state.layers[0].nonlinearity < 1e-14
        assert state.layers[0].change_rounding == 0
        assert state.layers[0].non_linear is not Verdict.FAILS
