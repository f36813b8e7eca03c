"""The kind that `check_theorem1` names for every registered model whose state does not grow."""

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, visited_states
from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS
from tests.small_models import CONSTANT_STATE, small_sizes
from theory import check_theorem1
from theory.theorem1.kinds import TransitionKind

VOCABULARY = 3
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
CASES = [(name, 1) for name in CONSTANT_STATE] + [
    ("mamba2", 2),
    ("mamba3", 2),
    ("gated-deltanet", 2),
    ("pd-ssm", 2),
]


def build(name: str, layers: int) -> SequenceModel:
    """A model with random weights; one that is implicit so that the tokens have fixed points."""
    torch.manual_seed(0)
    sizes = {**small_sizes(name), "layers": layers}
    model = MODELS[name](MODELS[name].config_class(vocabulary_size=VOCABULARY, output_size=2, **sizes))
    if model.implicit is not None:
        with torch.no_grad():
            for parameter_name, parameter in model.named_parameters():
                if parameter_name.startswith("mixers") and parameter_name.endswith("in_proj.weight"):
                    parameter.mul_(0.25)
    return in_double_precision(model)


@pytest.mark.parametrize(("name", "layers"), CASES)
def test_theorem1_names_the_kind_of_every_layer(name: str, layers: int) -> None:
    model = build(name, layers)
    tokens = torch.randint(VOCABULARY, (1, 6), generator=torch.Generator().manual_seed(1))
    states = [visited.state for visited in visited_states(model, tokens, 3)]
    report = check_theorem1(model.transition(1), states)
    expected = TransitionKind.NON_DIAGONAL_NON_LINEAR if model.implicit is not None else EXPLICIT[name]
    assert report.kind is expected, report.reasons
    assert len(report.layer_kinds) == layers
    for layer in report.layer_kinds:
        assert layer.kind is expected, layer.reason
