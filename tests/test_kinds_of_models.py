"""The assertions of `theory.testing` on every registered model, random weights and negative controls."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, visited_states
from automata import InputError, make_task
from implicit import ImplicitMamba2, SequenceModel, Solve, build_model
from implicit.fixed_point import Stopping
from implicit.models.registry import MODELS
from tests.small_models import CONSTANT_STATE, small_sizes
from tests.solving import solved
from theory import State, Transition, check_theorem1
from theory.testing import (
    NotApplicableError,
    assert_contractive,
    assert_fixed_point,
    assert_modes_agree,
    assert_theorem1,
)
from theory.theorem1.kinds import TransitionKind

EXPLICIT = {
    "mamba2": TransitionKind.DIAGONAL_LINEAR,
    "mamba3": TransitionKind.NON_DIAGONAL_LINEAR,  # it turns pairs of entries
    "deltanet": TransitionKind.NON_DIAGONAL_LINEAR,
    "gated-deltanet": TransitionKind.NON_DIAGONAL_LINEAR,
    "gated-deltaproduct": TransitionKind.NON_DIAGONAL_LINEAR,
    "pd-ssm": TransitionKind.NON_DIAGONAL_LINEAR,
    "lstm": TransitionKind.NON_DIAGONAL_NON_LINEAR,
    "slstm": TransitionKind.NON_DIAGONAL_NON_LINEAR,
    "gru": TransitionKind.NON_DIAGONAL_NON_LINEAR,
    "elman": TransitionKind.NON_DIAGONAL_NON_LINEAR,
}
"""A new explicit model is one row here; every implicit model is non-diagonal and non-linear."""
TWO_LAYERS = ("mamba2", "gated-deltanet")
OF_FIXED_POINTS: tuple[Callable[[Transition, list[State]], object], ...] = (
    assert_fixed_point,
    assert_contractive,
    assert_theorem1,
)


def model_of(name: str, layers: int = 1) -> SequenceModel:
    """One with random weights, and a self-map so flat that a token takes some 20 iterations."""
    torch.manual_seed(0)
    model = build_model(name, {**small_sizes(name), "layers": layers}, make_task("parity"))
    if model.implicit is not None:
        with torch.no_grad():
            for weight, parameter in model.named_parameters():
                if weight.startswith("mixers") and weight.endswith("in_proj.weight"):
                    parameter.mul_(0.1)
                elif weight.startswith("mixers") and weight.endswith("out_proj.weight"):
                    parameter.mul_(20)
    return in_double_precision(model)


def is_applicable(assertion: Callable[..., object], *arguments: object) -> bool:
    try:
        assertion(*arguments)
    except NotApplicableError:
        return False
    except AssertionError:
        return True
    return True


@pytest.mark.parametrize(
    ("name", "layers"), [(name, 1) for name in CONSTANT_STATE] + [(name, 2) for name in TWO_LAYERS]
)
def test_the_kind_of_layers_is_named_and_only_implicit_models_have_fixed_points(
    name: str, layers: int
) -> None:
    model = model_of(name, layers)
    transition, tokens = model.transition(1), torch.tensor([[0, 1, 1], [1, 0, 1]])
    states = [visited.state for visited in visited_states(model, tokens, 2)]
    report = check_theorem1(transition, states)
    expected = TransitionKind.NON_DIAGONAL_NON_LINEAR if model.implicit is not None else EXPLICIT[name]
    assert report.kind is expected, report.reasons
    assert [layer.kind for layer in report.layer_kinds] == [expected] * layers
    for assertion in OF_FIXED_POINTS:
        assert is_applicable(assertion, transition, states[:1]) == (model.implicit is not None), assertion


@pytest.mark.parametrize("name", MODELS)
def test_modes_are_compared_of_models_that_have_them(name: str) -> None:
    model, modes = model_of(name), (Solve("simultaneous"), Solve("sequential"))
    tokens = torch.tensor([[0, 1, 1], [1, 0, 1]])
    assert is_applicable(assert_modes_agree, model, tokens, *modes) == (model.implicit is not None)


@pytest.mark.parametrize("name", sorted(set(MODELS) - set(CONSTANT_STATE)))
def test_a_state_that_grows_has_no_transition(name: str) -> None:
    with pytest.raises(InputError, match="whose state grows with every token; give a model whose state has"):
        model_of(name).transition(1)


TOKENS = 3
SIZES = {"vocabulary_size": TOKENS, "output_size": 2, "d_model": 8, "head_size": 4, "d_state": 3, "d_conv": 2}
FEW: dict[str, Any] = {
    "d_model": 2,
    "head_size": 2,
    "d_state": 1,
    "damping": 1.0,
}  # every entry of a state is looked at


def _random(kind: Any, seed: int, **sizes: int) -> Any:
    torch.manual_seed(seed)
    return kind(kind.config_class(**{**SIZES, **sizes})).double()


@torch.no_grad()
def _visited(model: SequenceModel, count: int) -> list[State]:
    """States along one sequence; those of an implicit model as its sequential mode leaves them."""
    tokens = torch.randint(TOKENS, (1, count), generator=torch.Generator().manual_seed(1))
    state, visited = model.init_state(1), []
    for token in tokens[0]:
        if model.implicit is not None:
            few = Stopping(rtol=1e-8, max_iterations=60)  # a visited state need not be that of a fixed point
            state = solved(model, token.view(1, 1), mode="sequential", state=state, stopping=few).state
        else:
            state, _ = model.step(state, token[None])
        visited.append({name: part[0] for name, part in state.items()})
    return visited


def test_two_layers_hold_at_random_initialisation() -> None:
    model = _random(ImplicitMamba2, 3, layers=2)
    assert_theorem1(model.transition(1), _visited(model, 2))


@torch.no_grad()
def _silence(model: Any, part: slice, injected: bool) -> None:
    """Let a part of the input projection ignore the latent, and the token too unless it is injected."""
    projection = model.mixers[0].in_proj.weight
    projection *= 0.05  # so that every token has a fixed point that is soon found
    for weight in [projection] + ([] if injected else [model.injections[0].weight]):
        weight[part] = 0


def test_implicit_model_whose_decay_and_input_ignore_the_latent_fails() -> None:
    model = _random(ImplicitMamba2, 2, **FEW)
    d_inner = 2 * FEW["d_model"]
    _silence(model, slice(d_inner, None), injected=True)  # x, B, C and Δ: all but the gate
    report = assert_theorem1(model.transition(0), _visited(model, 1), expected="fails")
    assert max(report.values("off_diagonal_mass")) == 0
