"""The kind of hand-made transitions whose Jacobians are known in closed form."""

import json
import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

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
from theory import State, Theorem1Report, Transition, TransitionKind, Verdict, check_theorem1
from theory.theorem1.conditions import LayerConclusion

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
    report = check_theorem1(transition, states)
    assert report.kind.value == kind
    assert report.conclusions.value == ("holds" if kind == BOTH else "fails")
    assert f" is {kind}: {report.kind.meaning} (" in report.kind_sentence
    assert ("each layer's own block" in report.kind_sentence) == (len(transition.layer_states) > 1)


def test_the_mass_of_the_delta_rule_is_that_of_its_closed_form() -> None:
    """∂vec(S')/∂vec(S) is per head α (I − β k kᵀ) on d_k, the identity on d_v."""
    report = check_theorem1(delta_rule(KEYS, 0.7, decay=0.9), MATRICES)
    over_keys, over_values = torch.eye(D_K, dtype=torch.float64), torch.eye(D_V, dtype=torch.float64)
    exact = torch.block_diag(
        *(0.9 * torch.kron(over_keys - 0.7 * torch.outer(k, k), over_values) for k in KEYS)
    )
    mass = (exact - exact.diagonal().diag()).norm() / exact.norm()
    for check in report.checks:
        assert check.off_diagonal_mass == pytest.approx(mass.item(), rel=1e-14)  # a dozen roundings
        assert check.nonlinearity == 0
        assert check.layers[0].secant_defect < 1e-14  # rounding of sums of a few numbers of order one
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
    assert report.kind.value == MIXED
    assert "h is diagonal and linear; S is non-diagonal and linear" in report.kind_sentence
    # As one block the keys, which depend on h, make it non-linear.
    assert check_theorem1(Transition(lambda z, s: z, update, 0, (("h", "S"),)), states).kind.value == BOTH


def test_summary_holds_the_kinds_for_json() -> None:
    report = check_theorem1(delta_rule(KEYS, 0.7), MATRICES[:2])
    summary = json.loads(json.dumps(report.summary(), allow_nan=False))
    assert (summary["kind"], summary["kind_sentence"]) == (MIXED, report.kind_sentence)
    (layer,) = summary["layer_kinds"]
    assert layer.pop("reason") in report.kind_sentence
    assert layer == {"names": ["h"], "kind": MIXED, "non_diagonal": "holds", "non_linear": "fails"}
    none = json.loads(json.dumps(Theorem1Report(()).summary(), allow_nan=False))
    assert (none["kind"], none["layer_kinds"]) == (OPEN, [])


def test_a_farthest_state_that_shows_nothing_is_followed_by_nearer_ones() -> None:
    """h/2 + 1 − cos h: 0 and 2π have the same J, and the secant between them follows it; π shows more."""
    wave = explicit(lambda h: h / 2 + 1 - h.cos())
    states = along(torch.full((4,), math.pi, dtype=torch.float64), 0.0, 2.0, 1.0)
    found = [check.layers[0] for check in check_theorem1(wave, states).checks]
    assert [layer.non_linear for layer in found] == [Verdict.HOLDS] * 3
    # |h' − J h| is 2 in each of four entries, between states 2π apart in the 2-norm, and ‖J‖_F is ½ √4.
    assert [layer.secant_defect for layer in found] == pytest.approx([4 / (2 * math.pi)] * 3, rel=1e-12)
    for check in check_theorem1(wave, states[:2]).checks:
        layer = check.layers[0]  # nothing else was visited: random states between and beside them show it
        assert (layer.non_linear, layer.unvisited) == (Verdict.HOLDS, True)


def test_the_secant_defect_of_tanh_is_its_closed_form() -> None:
    """At ±1: |2 tanh 1 − 2 tanh' 1| / (tanh' 1 · 2)."""
    report = check_theorem1(explicit(torch.tanh), along(torch.ones(1).double(), 1, -1))
    slope = 1 - math.tanh(1) ** 2
    for check in report.checks:
        assert check.nonlinearity == 0
        assert check.layers[0].secant_defect == pytest.approx(math.tanh(1) / slope - 1, rel=1e-14)
        assert check.conclusions is Verdict.FAILS  # one state is always diagonal
        assert check.reason == "the transition is diagonal, to within the measured error"


@pytest.mark.parametrize("coupling", [1.0, 1e-2, 1e-5, 0.0])
def test_what_float32_noise_hides_is_undetermined_and_never_wrong(coupling: float) -> None:
    """Executed in float32: finite differences see its rounding, 6e-8 over a step of 6e-6."""
    matrix = DECAY.diag() + coupling * (W - W.diagonal().diag())
    report = check_theorem1(
        explicit(lambda h: (matrix.float() @ h.float()).double()), random_states(4, count=6)
    )
    errors = [check.layers[0].off_diagonal_error for check in report.checks]
    assert 1e-5 < max(errors) < 0.1  # the noise is there: float64 gives 1e-10
    # Differences over a short way do not resolve 1e-5; moves of single entries over a whole one do.
    expected = {1.0: [MIXED], 1e-2: [MIXED, OPEN], 1e-5: [MIXED], 0.0: [PLAIN]}
    assert report.kind.value in expected[coupling]


@pytest.mark.parametrize("size", [1e-3, 1e-9, 1e-11])
def test_a_tiny_nonlinearity_is_seen_or_undetermined(size: float) -> None:
    """h/2 + size · tanh(W h): finite differences resolve about 1e-10, moves of single entries 1e-15."""
    report = check_theorem1(explicit(lambda h: h / 2 + size * torch.tanh(W @ h)), random_states())
    assert report.kind.value == (BOTH if size >= 1e-9 else OPEN), report.kind_sentence
    if size < 1e-9:
        assert "it is non-diagonal, whether it is linear is not decided" in report.kind_sentence


def test_one_state_decides_the_diagonal_but_not_the_linear() -> None:
    report = check_theorem1(delta_rule(KEYS, 0.7), MATRICES[:1])
    assert report.kind is TransitionKind.UNDETERMINED
    assert "is undetermined: it is non-diagonal, whether it is linear is not " in report.kind_sentence
    assert "give more states" in report.kind_sentence
    assert report.headline.startswith("of undetermined kind (it is non-diagonal, whether it is linear")


def test_states_without_a_fixed_point_leave_the_negative_claims_open() -> None:
    states = make_states(6, 2)
    control = make_ssm(latent_to_update=False)
    unreached = check_theorem1(control, states, max_iterations=1)
    assert (unreached.kind.value, unreached.layer_kinds) == (OPEN, ())
    merged = Theorem1Report.merge([check_theorem1(control, states), unreached])
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
    for check in check_theorem1(steep, random_states(2)).checks:
        assert 0 < check.layers[0].nonlinearity < 1e-14
        assert check.layers[0].change_rounding == 0
        assert check.layers[0].non_linear is not Verdict.FAILS
