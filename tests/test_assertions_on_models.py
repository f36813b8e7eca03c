"""Every assertion of `theory.testing` on every registered model: it passes, fails, or is not applicable."""

from collections.abc import Callable

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, visited_states
from automata import InputError, make_task
from implicit import SequenceModel, Solve, build_model
from implicit.models.registry import MODELS
from tests.small_models import small_sizes
from theory import State, Transition
from theory.testing import (
    NotApplicableError,
    assert_contractive,
    assert_fixed_point,
    assert_kind,
    assert_modes_agree,
    assert_theorem1,
)

TOKENS = torch.tensor([[0, 1, 1], [1, 0, 1]])
OF_FIXED_POINTS: dict[str, Callable[[Transition, list[State]], object]] = {
    "fixed point": assert_fixed_point,
    "contraction": assert_contractive,
    "Theorem 1": assert_theorem1,
}
GROWING = {name for name, model in MODELS.items() if model.state_grows}


def model_of(name: str) -> SequenceModel:
    """One with random weights, and a self-map so flat that a token takes some 20 iterations."""
    torch.manual_seed(0)
    model = build_model(name, small_sizes(name), make_task("parity"))
    if model.implicit is not None:
        with torch.no_grad():
            for weight, parameter in model.named_parameters():
                if weight.startswith("mixers") and weight.endswith("in_proj.weight"):
                    parameter.mul_(0.1)
                elif weight.startswith("mixers") and weight.endswith("out_proj.weight"):
                    parameter.mul_(20)
    return in_double_precision(model)


def outcome(assertion: Callable[[], object]) -> str:
    try:
        assertion()
    except NotApplicableError:
        return "not applicable"
    except AssertionError:
        return "fails"
    return "passes"


@pytest.mark.parametrize("name", sorted(set(MODELS) - GROWING))
def test_what_speaks_of_fixed_points_is_not_applicable_to_a_model_without(name: str) -> None:
    model = model_of(name)
    transition = model.transition(1)
    states = [visited.state for visited in visited_states(model, TOKENS, 2)]
    for what, assertion in OF_FIXED_POINTS.items():
        found = outcome(lambda assertion=assertion: assertion(transition, states))  # type: ignore[misc]
        assert (found == "not applicable") == (model.implicit is None), (what, found)
    assert outcome(lambda: assert_kind(transition, states, "diagonal and linear")) != "not applicable"


@pytest.mark.parametrize("name", MODELS)
def test_modes_are_compared_of_models_that_have_them(name: str) -> None:
    model = model_of(name)
    found = outcome(lambda: assert_modes_agree(model, TOKENS, Solve("simultaneous"), Solve("sequential")))
    assert (found == "not applicable") == (model.implicit is None)


@pytest.mark.parametrize("name", sorted(GROWING))
def test_a_state_that_grows_has_no_transition(name: str) -> None:
    with pytest.raises(InputError, match="whose state grows with every token; give a model whose state has"):
        model_of(name).transition(1)
