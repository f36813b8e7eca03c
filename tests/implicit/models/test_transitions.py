"""Transitions of many tokens at once, of every model, and the batched Jacobians over them."""

import pytest
import torch

from implicit.models.interface import SequenceModel
from implicit.models.registry import MODELS
from tests.small_models import CONSTANT_STATE, small_sizes
from theory import State, batched_layer_jacobians, layer_jacobians

TOKENS = torch.tensor([[0, 2, 1], [1, 1, 0]])


@pytest.fixture(params=CONSTANT_STATE)
def model(request: pytest.FixtureRequest) -> SequenceModel:
    kind = MODELS[request.param]
    torch.manual_seed(0)
    config = kind.config_class.model_validate(
        {"vocabulary_size": 3, "output_size": 2, **small_sizes(request.param), "layers": 2}
    )
    return kind(config).double().eval()


def random_states(model: SequenceModel, positions: int) -> State:
    generator = torch.Generator().manual_seed(1)
    return {
        name: torch.randn(entry.shape, generator=generator, dtype=torch.float64)
        for name, entry in model.init_state(positions).items()
    }


def test_a_batch_of_transitions_is_the_transition_of_every_token(model: SequenceModel) -> None:
    batch = model.transitions(TOKENS)
    states = random_states(model, len(batch))
    latents = torch.randn(
        len(batch), batch.latent_size, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    assert len(batch) == TOKENS.numel()
    layers = batched_layer_jacobians(batch, states, latents)
    for position, token in enumerate(TOKENS.flatten().tolist()):
        state = {name: entry[position] for name, entry in states.items()}
        transition = model.transition(token)
        assert transition.layer_states == batch.layer_states
        assert transition.damping == batch.damping
        for batched, single in zip(
            layers, layer_jacobians(transition, state, latents[position]), strict=True
        ):
            assert batched.has_diagonal_direct_term == single.has_diagonal_direct_term
            expected = single.dense()
            # Both are accurate to rounding times the condition of I − ∂zΦ, here below 100.
            torch.testing.assert_close(
                batched[position].dense(), expected, rtol=0, atol=1e-12 * expected.abs().max().item()
            )
