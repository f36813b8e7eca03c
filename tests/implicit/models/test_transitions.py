"""Transitions of many tokens at once, of every model, and the batched Jacobians over them."""

import pytest
import torch
from torch import Tensor

from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.models.registry import MODELS
from tests.small_models import CONSTANT_STATE, small_sizes
from tests.solving import solved
from theory import State, Transition, batched_layer_jacobians, layer_jacobians

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


def test_jacobians_along_a_sequence_equal_jacrev_through_the_solver() -> None:
    torch.manual_seed(0)
    config = ImplicitMamba2Config(vocabulary_size=3, output_size=2, d_model=8, head_size=4, d_state=3)
    model = ImplicitMamba2(config).double().eval()
    tokens = TOKENS[0]
    stopping = Stopping(rtol=1e-12, max_iterations=2000)
    with torch.no_grad():
        solution = solved(model, tokens[None], "sequential", stopping=stopping)
    assert solution.share_converged == 1
    transitions = model.transitions(tokens)
    start = {name: entry[0] for name, entry in model.init_state(1).items()}
    states = transitions.states_along(start, solution.latents[0])
    (jacobian,) = batched_layer_jacobians(transitions, states, solution.latents[0])
    iterations = int(solution.iterations.max())
    for position in range(len(transitions)):
        transition = transitions[position]
        state = {name: entry[position] for name, entry in states.items()}

        def following(ssm: Tensor, transition: Transition = transition, state: State = state) -> Tensor:
            here = {**state, "ssm.0": ssm.reshape(state["ssm.0"].shape)}
            latent = torch.zeros(8, dtype=torch.float64)
            for _ in range(iterations):
                latent = latent + config.damping * (transition.self_map(latent, here) - latent)
            return transition.state_update(latent, here)["ssm.0"].flatten()

        expected = torch.func.jacrev(following)(state["ssm.0"].flatten())
        # The tangent settles at the rate of the iteration, which is stopped at 1e-12.
        torch.testing.assert_close(jacobian[position].dense(), expected, rtol=0, atol=1e-10)
