from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from tests.theory.transitions import explicit, implicit, make_ssm, make_states, self_map_only, states_of
from theory import State, Transition, TransitionKind, solve_fixed_point
from theory.testing import (
    NotApplicableError,
    assert_contractive,
    assert_fixed_point,
    assert_kind,
    assert_modes_agree,
    assert_theorem1,
)

STATES = states_of(*torch.tensor([[1.0, 0.5], [0.0, 0.0]], dtype=torch.float64))


def test_fixed_point_names_the_worst_state() -> None:
    transition, states = make_ssm(), make_states(6, 3)
    latents = [solve_fixed_point(transition, state).latent for state in states]
    assert_fixed_point(transition, states)
    assert_fixed_point(transition, states, latents)
    latents[1] = latents[1] + 1e-3
    latents[2] = latents[2] + 1e-6
    pattern = (
        r"C1 .* does not hold at 2 of 3 states; worst is state 1: value 0\.0\d+, threshold \S+: the residual"
    )
    with pytest.raises(AssertionError, match=pattern):
        assert_fixed_point(transition, states, latents)
    assert_fixed_point(transition, states, latents, tolerance=0.1)


@pytest.mark.parametrize(
    ("assertion", "sentence"),
    [
        (assert_fixed_point, "the iteration limit was reached first.* raise max_iterations"),
        (assert_contractive, "not measured, since no fixed point was reached"),
    ],
)
def test_an_iteration_that_does_not_converge_fails(assertion: Callable[..., None], sentence: str) -> None:
    with pytest.raises(AssertionError, match=sentence):
        assertion(make_ssm(), make_states(6, 2), max_iterations=2)


def test_contraction_names_radius_and_norm() -> None:
    slope = torch.tensor([[0.5, 3.0], [0.0, -0.25]], dtype=torch.float64)
    shear = self_map_only(lambda z, s: slope @ z, 2)
    assert_contractive(shear, STATES)
    with pytest.raises(
        AssertionError, match=r"C3 .* worst is state 0: value 3\.\d+, threshold .*: the 2-norm"
    ):
        assert_contractive(shear, STATES, norm=True)
    with pytest.raises(AssertionError, match=r"value 2, threshold 1: the spectral radius"):
        assert_contractive(self_map_only(lambda z, s: 4 * slope @ z, 2), STATES)


def test_a_norm_that_its_error_cannot_tell_from_one_is_no_contraction() -> None:
    """Differences of a cubic map leave its derivative open by 1e-11: a norm of 1 − 1e-14 may be above 1."""
    angle = torch.tensor(0.7, dtype=torch.float64)
    turn = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).reshape(2, 2)
    assert_contractive(self_map_only(lambda z, s: (1 - 1e-6) * turn @ z + z**3, 2), STATES, norm=True)
    almost = self_map_only(lambda z, s: (1 - 1e-14) * turn @ z + z**3, 2)
    with pytest.raises(AssertionError, match=r"value 1, threshold 1: the 2-norm"):
        assert_contractive(almost, STATES, norm=True)


def test_theorem1_tells_value_and_threshold_of_the_worst_state() -> None:
    states = make_states(6, 2)
    assert len(assert_theorem1(make_ssm(), states).checks) == 2
    control = make_ssm(latent_to_update=False)
    assert_theorem1(control, states[:1], expected="fails")
    pattern = (
        r"the verdict is not 'holds' at 2 of 2 states; the worst is token 1\[0\]: fails: the transition is "
        r"diagonal and linear.*C2 value 0\.\d+, threshold .*; "
        r"off-diagonal mass of h value 0, threshold \d.*e-\d+"
    )
    with pytest.raises(AssertionError, match=pattern):
        assert_theorem1(control, states, label="token 1")


def test_a_state_that_contradicts_is_worse_than_one_that_decides_nothing() -> None:
    """At the first state Φ has no fixed point; at the others the transition is linear."""
    control = implicit(lambda z, h: torch.where(h[:1] > 1, z + 1, z / 2), lambda z, h: h / 2, 1)
    states = states_of(*torch.tensor([[2.0, 0.5], [0.0, 0.5], [0.5, 0.5]], dtype=torch.float64))
    with pytest.raises(AssertionError, match=r"at 3 of 3 states; the worst is \[1\]: fails: "):
        assert_theorem1(control, states)


@pytest.mark.parametrize(
    "jumping",
    [lambda z, s: z.round() / 2 + 0.25, lambda z, s: (z > 0.5).to(z), lambda z, s: (4 * z).floor() / 8],
)
def test_beside_a_jump_a_latent_is_no_fixed_point(jumping: Callable[..., Tensor]) -> None:
    """Φ(½) is ¼ or 0; one unit in the last place away it is another number, which is no rounding."""
    with pytest.raises(AssertionError, match=r"the residual is [25]\.[05]e-01"):
        assert_fixed_point(self_map_only(jumping), STATES[:1], [torch.tensor([0.5]).double()])


@dataclass
class Solved:
    latents: Tensor
    status: Tensor


@dataclass
class Answered:
    logits: Tensor
    solution: Solved | None


@dataclass
class TwoModes:
    """A model whose sequential solution differs from the simultaneous one by ``shift``."""

    shift: Tensor
    statuses: tuple[int, int] = (0, 0)

    def run(self, tokens: Tensor, state: None = None, solve: str = "") -> Answered:
        latents = torch.stack([tokens, 1 - tokens], dim=-1).double()
        if solve == "sequential":
            latents = latents + self.shift
        status = torch.zeros_like(tokens)
        status[-1] = self.statuses[MODES.index(solve)]
        return Answered(latents, Solved(latents, status))


TOKENS = torch.tensor([[0, 1, 1], [1, 0, 1]])
MODES = ("simultaneous", "sequential")


def test_modes_that_differ_name_the_worst_token() -> None:
    shift = torch.zeros(2, 3, 2, dtype=torch.float64)
    shift[1, 2, 1] = 3.0  # token 1 decodes to 0; now to 1
    shift[0, 0, 0] = 1e-3
    pattern = (
        r"agree on 4 of 6 fixed points and 5 outputs, a share of 1 is asked; 0 tokens did "
        r"not .*worst is sequence 1, token 2: relative distance 3, threshold 0\.0001"
    )
    with pytest.raises(AssertionError, match=pattern):
        assert_modes_agree(TwoModes(shift), TOKENS, *MODES)
    assert assert_modes_agree(TwoModes(shift), TOKENS, *MODES, share=0.6).tokens == pytest.approx(5 / 6)


@pytest.mark.parametrize("statuses", [(1, 1), (1, 0), (0, 1), (2, 0), (0, 2)], ids=str)
def test_tokens_that_did_not_converge_in_either_mode_do_not_count_as_agreeing(
    statuses: tuple[int, int],
) -> None:
    """The same latents in both modes: the status alone decides."""
    model = TwoModes(torch.zeros(2, 3, 2, dtype=torch.float64), statuses)
    pattern = r"agree on 3 of 6 .* 3 tokens did not converge in both; the worst is sequence 1, token 0"
    with pytest.raises(AssertionError, match=pattern):
        assert_modes_agree(model, TOKENS, *MODES)
    assert assert_modes_agree(model, TOKENS, *MODES, share=0.5).fixed_points == 0.5


@pytest.mark.parametrize(("size", "scale"), [(0.5, 1.0), (10.0, 10.0)], ids=["small", "large"])
def test_latents_are_compared_relative_to_their_norm_above_one(size: float, scale: float) -> None:
    """One feature, so that the norm of a latent is its size."""

    def run(tokens: Tensor, state: None = None, solve: float = 0.0) -> Answered:
        latents = torch.full((1, 1, 1), size, dtype=torch.float64) + solve
        return Answered(torch.ones(1, 1, 1), Solved(latents, torch.zeros(1, 1)))

    model = SimpleNamespace(run=run)
    tokens = torch.zeros(1, 1, dtype=torch.long)
    bound = 1e-3 * scale
    assert assert_modes_agree(model, tokens, 0.0, 0.99 * bound, tolerance=1e-3).fixed_points == 1.0
    with pytest.raises(AssertionError):
        assert_modes_agree(model, tokens, 0.0, 1.01 * bound, tolerance=1e-3)


WEIGHTS = torch.tensor([[0.5, 1.0], [-1.0, 0.5]], dtype=torch.float64)
RNN = explicit(lambda h: torch.tanh(WEIGHTS @ h))
"""Without a latent, non-diagonal and non-linear: a model of which Theorem 1 does not speak."""


@pytest.mark.parametrize("assertion", [assert_fixed_point, assert_contractive, assert_theorem1])
def test_states_and_a_latent_are_required(assertion: Callable[[Transition, list[State]], object]) -> None:
    with pytest.raises(InputError, match="states is empty"):
        assertion(make_ssm(), [])
    with pytest.raises(NotApplicableError, match=r"^not applicable: .*latent_size is 0.*; use assert_kind$"):
        assertion(RNN, STATES)
    assert issubclass(NotApplicableError, InputError)


def test_a_negative_control_may_have_no_latent() -> None:
    linear = explicit(lambda h: h / 2)
    assert_theorem1(linear, STATES, expected="fails")
    for transition, expected in ((linear, "holds"), (RNN, "fails"), (RNN, "holds")):
        with pytest.raises(NotApplicableError, match="no fixed point that Theorem 1 could speak of"):
            assert_theorem1(transition, STATES, expected=expected)


def test_conclusions_that_do_not_come_from_the_fixed_point_do_not_pass() -> None:
    """A latent that nothing reads: the RNN alone is non-diagonal and non-linear."""
    idle = Transition(lambda z, s: z / 2 + s["h"], RNN.state_update, 2, (("h",),))
    with pytest.raises(
        AssertionError, match=r"at 2 of 2 states.*holds: .*not by a fixed point \(C4 does not"
    ):
        assert_theorem1(idle, STATES)


def test_kind_is_asserted_of_every_model() -> None:
    assert_kind(RNN, STATES, "non-diagonal and non-linear")
    assert_kind(make_ssm(), make_states(6, 2), TransitionKind.NON_DIAGONAL_NON_LINEAR)
    sentence = "^expected 'diagonal and linear': The transition is non-diagonal and non-linear: "
    with pytest.raises(AssertionError, match=sentence):
        assert_kind(RNN, STATES, "diagonal and linear")
    with pytest.raises(InputError, match="expected 'diagonal' is unknown; known: diagonal and linear, "):
        assert_kind(RNN, STATES, "diagonal")


def test_a_model_with_one_mode_of_evaluation_has_no_modes_that_agree() -> None:
    with pytest.raises(NotApplicableError, match=r"^not applicable: GRU offers no run"):
        assert_modes_agree(torch.nn.GRU(2, 2), TOKENS, *MODES)
    explicit = SimpleNamespace(run=lambda tokens, state=None, solve="": Answered(tokens[..., None], None))
    with pytest.raises(NotApplicableError, match=r"^not applicable: SimpleNamespace seeks no fixed points"):
        assert_modes_agree(explicit, TOKENS, *MODES)
