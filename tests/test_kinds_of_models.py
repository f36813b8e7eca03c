"""The assertions of `theory.testing` on every registered model, random weights and negative controls."""

from collections.abc import Callable

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, visited_states
from automata import make_task
from implicit import SequenceModel, build_model
from tests.small_models import CONSTANT_STATE, small_sizes, with_flat_self_map
from theory import State, Transition, check_theorem1
from theory.testing import (
    NotApplicableError,
    assert_contractive,
    assert_fixed_point,
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
TWO_LAYERS = ("mamba2", "gated-deltanet", "implicit-mamba2")
OF_FIXED_POINTS: tuple[Callable[[Transition, list[State]], object], ...] = (
    assert_fixed_point,
    assert_contractive,
)


def model_of(name: str, layers: int = 1) -> SequenceModel:
    """One with random weights, and a self-map so flat that a token takes some 20 iterations."""
    torch.manual_seed(0)
    model = build_model(name, {**small_sizes(name), "layers": layers}, make_task("parity"))
    return in_double_precision(with_flat_self_map(model, 0.1, 20))


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
    if model.implicit is not None:
        report = assert_theorem1(transition, states)
    else:
        report = check_theorem1(transition, states)
        assert not is_applicable(assert_theorem1, transition, states[:1])
    expected = TransitionKind.NON_DIAGONAL_NON_LINEAR if model.implicit is not None else EXPLICIT[name]
    assert report.kind is expected, report.reasons
    assert [layer.kind for layer in report.layer_kinds] == [expected] * layers
    assert (report.verdict.value == "holds") == (model.implicit is not None), report.reasons
    for assertion in OF_FIXED_POINTS:
        assert is_applicable(assertion, transition, states[:1]) == (model.implicit is not None), assertion
