"""The kind of hand-made transitions whose Jacobians are known in closed form."""

import json
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from theory import State, Theorem1Report, Transition, TransitionKind, Verdict, check_theorem1
from theory.theorem1.conditions import LayerConclusion

HEADS, D_K, D_V = 2, 3, 2
DIAGONAL_LINEAR = TransitionKind.DIAGONAL_LINEAR
NON_DIAGONAL_LINEAR = TransitionKind.NON_DIAGONAL_LINEAR
DIAGONAL_NON_LINEAR = TransitionKind.DIAGONAL_NON_LINEAR
NON_DIAGONAL_NON_LINEAR = TransitionKind.NON_DIAGONAL_NON_LINEAR
UNDETERMINED = TransitionKind.UNDETERMINED


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_states(*shape: int, count: int = 4, name: str = "h") -> list[State]:
    return [{name: random(*shape, seed=seed)} for seed in range(count)]


def explicit(update: Callable[[State], State], *layers: tuple[str, ...]) -> Transition:
    """A transition without a latent."""
    return Transition(lambda z, s: z, lambda z, s: update(s), 0, layers or (("h",),))


def unit_keys(seed: int = 5) -> Tensor:
    return torch.nn.functional.normalize(random(HEADS, D_K, seed=seed), dim=-1)


def delta_rule(keys: Tensor, beta: float, decay: float = 1.0, gate: Tensor | None = None) -> Transition:
    """S ← α (S − β k (kᵀ S)) + k vᵀ per head, the state ``[heads, d_k, d_v]``, all but S from the token."""
    values = random(HEADS, D_V, seed=6)

    def update(state: State) -> State:
        S = state["S"]
        read = torch.einsum("hk,hkv->hv", keys, S)
        forgotten = S - beta * torch.einsum("hk,hv->hkv", keys, read)
        if gate is not None:
            forgotten = gate[:, :, None] * forgotten
        return {"S": decay * forgotten + torch.einsum("hk,hv->hkv", keys, values)}

    return explicit(update, ("S",))


def delta_jacobian(keys: Tensor, beta: float, decay: float = 1.0) -> Tensor:
    """∂vec(S')/∂vec(S): per head α (I − β k kᵀ) on d_k, the identity on d_v."""
    over_keys, over_values = torch.eye(D_K, dtype=torch.float64), torch.eye(D_V, dtype=torch.float64)
    return torch.block_diag(
        *(decay * torch.kron(over_keys - beta * torch.outer(k, k), over_values) for k in keys)
    )


def matrix_states(count: int = 4) -> list[State]:
    return random_states(HEADS, D_K, D_V, count=count, name="S")


def tanh_rnn(weights: Tensor) -> Transition:
    return explicit(lambda s: {"h": torch.tanh(weights @ s["h"])})


W = random(4, 4, seed=9)
DECAY = torch.linspace(0.1, 0.9, 4, dtype=torch.float64)

CASES = {
    "Mamba-2": (explicit(lambda s: {"h": DECAY * s["h"] + 1.0}), random_states(4), DIAGONAL_LINEAR),
    "constant": (explicit(lambda s: {"h": torch.ones_like(s["h"])}), random_states(4), DIAGONAL_LINEAR),
    "affine": (explicit(lambda s: {"h": W @ s["h"] + W[0]}), random_states(4), NON_DIAGONAL_LINEAR),
    "delta rule": (delta_rule(unit_keys(), 0.7), matrix_states(), NON_DIAGONAL_LINEAR),
    "delta rule, reflecting": (delta_rule(unit_keys(), 1.9), matrix_states(), NON_DIAGONAL_LINEAR),
    "gated delta rule": (delta_rule(unit_keys(), 0.7, decay=0.9), matrix_states(), NON_DIAGONAL_LINEAR),
    "delta rule, a gate per key": (
        delta_rule(unit_keys(), 0.7, gate=torch.sigmoid(random(HEADS, D_K, seed=7))),
        matrix_states(),
        NON_DIAGONAL_LINEAR,
    ),
    "delta rule, beta 0": (delta_rule(unit_keys(), 0.0), matrix_states(), DIAGONAL_LINEAR),
    "delta rule along the axes": (
        delta_rule(torch.eye(3, dtype=torch.float64)[[0, 2]], 0.7, decay=0.9),
        matrix_states(),
        DIAGONAL_LINEAR,
    ),
    "Hadamard tanh": (
        explicit(lambda s: {"h": torch.tanh(DECAY * s["h"] + 0.5)}),
        random_states(4),
        DIAGONAL_NON_LINEAR,
    ),
    "tanh RNN": (tanh_rnn(W), random_states(4), NON_DIAGONAL_NON_LINEAR),
}


@pytest.mark.parametrize(("transition", "states", "kind"), CASES.values(), ids=CASES.keys())
def test_the_kind_of_a_transition_without_a_latent(
    transition: Transition, states: list[State], kind: TransitionKind
) -> None:
    report = check_theorem1(transition, states)
    assert report.kind is kind
    assert report.kind_sentence.startswith(f"The transition is {kind}: ")
    assert kind.meaning in report.kind_sentence


def test_the_mass_of_the_delta_rule_is_that_of_its_closed_form() -> None:
    keys = unit_keys()
    report = check_theorem1(delta_rule(keys, 0.7, decay=0.9), matrix_states())
    exact = delta_jacobian(keys, 0.7, decay=0.9)
    mass = (exact - exact.diagonal().diag()).norm() / exact.norm()
    for check in report.checks:
        assert check.off_diagonal_mass == pytest.approx(mass.item(), rel=1e-14)  # a dozen roundings
        assert check.nonlinearity == 0
        assert check.layers[0].secant_defect < 1e-14  # rounding of sums of a few numbers of order one
    assert report.verdict is Verdict.DOES_NOT_APPLY
    assert "does not apply: the transition is linear, to within the measured error" in report.reasons


def test_an_affine_fixed_point_is_non_diagonal_and_linear() -> None:
    """Φ = A z + B h and G = λ ⊙ h + C z: J = diag λ + C (I − A)^{-1} B at every state."""
    A, B, C = 0.3 * W[:3, :3], W[:3], W[:, :3]
    affine = Transition(
        lambda z, s: A @ z + B @ s["h"] + 1, lambda z, s: {"h": DECAY * s["h"] + C @ z}, 3, (("h",),)
    )
    report = check_theorem1(affine, random_states(4))
    assert report.kind is NON_DIAGONAL_LINEAR, report.kind_sentence
    assert report.reasons == {"fails: the transition is linear, to within the measured error": 4}


def test_layers_have_kinds_of_their_own_and_the_stack_has_what_one_of_them_has() -> None:
    """The second layer's drive and keys come from the first one's state: block lower triangular."""
    keys = unit_keys()[0]

    def update(state: State) -> State:
        h, S = DECAY * state["h"], state["S"]
        k = torch.nn.functional.normalize(keys + h[:D_K].tanh(), dim=0)
        return {"h": h, "S": S - 0.5 * torch.outer(k, k @ S) + torch.outer(k, h[:2])}

    states = [{"h": random(4, seed=s), "S": random(D_K, D_V, seed=s + 10)} for s in range(4)]
    report = check_theorem1(explicit(update, ("h",), ("S",)), states)
    assert [layer.kind for layer in report.layer_kinds] == [DIAGONAL_LINEAR, NON_DIAGONAL_LINEAR]
    assert report.kind is NON_DIAGONAL_LINEAR
    assert "h is diagonal and linear; S is non-diagonal and linear" in report.kind_sentence
    # As one block the keys, which depend on h, make it non-linear.
    assert check_theorem1(explicit(update, ("h", "S")), states).kind is NON_DIAGONAL_NON_LINEAR


def test_summary_holds_the_kinds_for_json() -> None:
    report = check_theorem1(delta_rule(unit_keys(), 0.7), matrix_states(2))
    summary = json.loads(json.dumps(report.summary(), allow_nan=False))
    assert summary["kind"] == "non-diagonal and linear"
    assert summary["kind_sentence"] == report.kind_sentence
    (layer,) = summary["layer_kinds"]
    assert layer["reason"] in report.kind_sentence
    assert {name: layer[name] for name in ("names", "kind", "non_diagonal", "non_linear")} == {
        "names": ["S"],
        "kind": "non-diagonal and linear",
        "non_diagonal": "holds",
        "non_linear": "fails",
    }
    none = json.loads(json.dumps(Theorem1Report(()).summary(), allow_nan=False))
    assert (none["kind"], none["layer_kinds"]) == ("undetermined", [])


def along(direction: Tensor, *factors: float) -> list[State]:
    return [{"h": factor * direction} for factor in factors]


def test_a_farthest_state_that_shows_nothing_is_followed_by_nearer_ones() -> None:
    """h/2 + 1 − cos h: 0 and 2π have the same J, and the secant between them follows it; π shows more."""
    wave = explicit(lambda s: {"h": s["h"] / 2 + 1 - s["h"].cos()})
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
    report = check_theorem1(explicit(lambda s: {"h": s["h"].tanh()}), along(torch.ones(1).double(), 1, -1))
    slope = 1 - math.tanh(1) ** 2
    for check in report.checks:
        assert check.nonlinearity == 0
        assert check.layers[0].secant_defect == pytest.approx(math.tanh(1) / slope - 1, rel=1e-14)
        assert check.conclusions is Verdict.FAILS  # one state is always diagonal
        assert check.reason == "the transition is diagonal, to within the measured error"


def noisy_affine(matrix: Tensor) -> Transition:
    """A linear map executed in float32: finite differences see its rounding, 6e-8 over a step of 6e-6."""
    return explicit(lambda s: {"h": (matrix.float() @ s["h"].float()).double()})


@pytest.mark.parametrize("coupling", [1.0, 1e-2, 1e-5, 0.0])
def test_what_float32_noise_hides_is_undetermined_and_never_wrong(coupling: float) -> None:
    matrix = DECAY.diag() + coupling * (W - W.diagonal().diag())
    report = check_theorem1(noisy_affine(matrix), random_states(4, count=6))
    errors = [check.layers[0].off_diagonal_error for check in report.checks]
    assert 1e-5 < max(errors) < 0.1  # the noise is there: float64 gives 1e-10
    # Differences over a short way do not resolve 1e-5; moves of single entries over a whole one do.
    expected = {1.0: NON_DIAGONAL_LINEAR, 1e-5: NON_DIAGONAL_LINEAR, 0.0: DIAGONAL_LINEAR}
    assert report.kind is expected.get(coupling, report.kind)
    assert report.kind in (NON_DIAGONAL_LINEAR, UNDETERMINED if coupling else DIAGONAL_LINEAR)


@pytest.mark.parametrize("size", [1e-3, 1e-9, 1e-11])
def test_a_tiny_nonlinearity_is_seen_or_undetermined(size: float) -> None:
    """h/2 + size · tanh(W h): finite differences resolve about 1e-10, moves of single entries 1e-15."""
    weak = explicit(lambda s: {"h": s["h"] / 2 + size * torch.tanh(W @ s["h"])})
    report = check_theorem1(weak, random_states(4))
    assert report.kind is (NON_DIAGONAL_NON_LINEAR if size >= 1e-9 else UNDETERMINED), report.kind_sentence
    if size < 1e-9:
        assert "it is non-diagonal, whether it is linear is not decided" in report.kind_sentence


def test_one_state_decides_the_diagonal_but_not_the_linear() -> None:
    report = check_theorem1(delta_rule(unit_keys(), 0.7), matrix_states(1))
    assert report.kind is UNDETERMINED
    start = "The kind of the transition is undetermined: it is non-diagonal, whether it is linear is not "
    assert report.kind_sentence.startswith(start)
    assert "give more states" in report.kind_sentence
    assert report.headline == (
        "of undetermined kind (it is non-diagonal, whether it is linear is not decided); "
        "Theorem 1 does not apply (no fixed point)"
    )


def test_states_without_a_fixed_point_leave_the_negative_claims_open(
    make_ssm: Callable[..., Transition], make_states: Callable[[int, int], list[State]]
) -> None:
    states = make_states(6, 2)
    control = make_ssm(latent_to_update=False)
    unreached = check_theorem1(control, states, max_iterations=1)
    assert (unreached.kind, unreached.layer_kinds) == (UNDETERMINED, ())
    merged = Theorem1Report.merge([check_theorem1(control, states), unreached])
    assert merged.kind is UNDETERMINED
    assert "nothing measured at 2: no fixed point was reached" in merged.kind_sentence
    # What is seen once is seen.
    positive = [check_theorem1(make_ssm(), states), check_theorem1(make_ssm(), states, max_iterations=1)]
    assert Theorem1Report.merge(positive).kind is NON_DIAGONAL_NON_LINEAR


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

    def update(state: State) -> State:
        h = state["h"]
        return {"h": torch.stack([1e8 * h[0], h[1] + 1e-7 * h[1] ** 2])}

    for layer in (check.layers[0] for check in check_theorem1(explicit(update), random_states(2)).checks):
        assert 0 < layer.nonlinearity < 1e-14
        assert layer.change_rounding == 0
        assert layer.non_linear is not Verdict.FAILS


def test_the_kind_of_several_layers_is_that_within_them() -> None:
    """The second layer reads the first one's h: each block is diagonal, the whole Jacobian is not."""
    stack = Transition(
        lambda z, s: z, lambda z, s: {"h": s["h"] / 2, "g": s["g"] / 3 + s["h"].flip(0)}, 0, (("h",), ("g",))
    )
    states = [{"h": state["h"], "g": state["h"].exp()} for state in random_states(4)]
    report = check_theorem1(stack, states)
    assert report.kind is DIAGONAL_LINEAR
    assert "each layer's own block" in report.kind_sentence
