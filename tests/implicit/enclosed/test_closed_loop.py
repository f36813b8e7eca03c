"""One token's step on balls against the float64 model, its derivatives against autograd."""

from functools import partial

import numpy as np
import pytest
import torch

from automata.errors import InputError
from implicit.enclosed.closed_loop import EnclosedClosedLoop, flatten_state, unflatten_state
from implicit.models.implicit_model import ImplicitModel
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from theory import Transition
from theory.rigorous.balls import Ball, Dual

SIZES = [
    {"d_model": 4, "head_size": 4, "d_state": 2, "d_conv": 1, "expand": 1},
    {"d_model": 4, "head_size": 2, "d_state": 1, "d_conv": 2, "expand": 1},
    {"d_model": 4, "head_size": 2, "d_state": 3, "d_conv": 4, "expand": 2, "groups": 2, "residual": False},
]


def model_of(seed: int, **sizes: int) -> ImplicitModel:
    torch.manual_seed(seed)
    config = {"vocabulary_size": 3, "output_size": 2, **sizes}
    return ImplicitMamba2(ImplicitMamba2Config(**config)).double()


def joined_step(model: ImplicitModel, transition: Transition, joined: torch.Tensor) -> torch.Tensor:
    """Φ and G as one function of latent and state side by side."""
    size = model.config.d_model
    state = {name: part[0] for name, part in unflatten_state(model, joined[None, size:]).items()}
    after = transition.state_update(joined[:size], state)
    flat = flatten_state({name: part[None] for name, part in after.items()})[0]
    return torch.cat([transition.self_map(joined[:size], state), flat])


@pytest.mark.parametrize("sizes", SIZES, ids=lambda sizes: f"d_conv={sizes['d_conv']}")
def test_values_and_derivatives_enclose_those_of_the_model(sizes: dict[str, int]) -> None:
    model = model_of(0, **sizes)
    loop = EnclosedClosedLoop(model)
    generator = torch.Generator().manual_seed(1)
    size, states = model.config.d_model, loop.state_size
    latents = torch.randn(3, size, generator=generator, dtype=torch.float64)
    vectors = torch.randn(3, states, generator=generator, dtype=torch.float64)
    tokens = [2, 0, 1]
    seed = np.broadcast_to(np.eye(states, size + states, k=size), (3, states, size + states))
    image, following = loop.advance(
        Dual.variable(Ball.exact(latents.numpy()), size + states),
        Dual(Ball.exact(vectors.numpy()), Ball.exact(seed.copy())),
        tokens,
    )
    logits = loop.logits(Dual.constant(Ball.exact(latents.numpy()), 0)).value
    np.testing.assert_allclose(logits.midpoint, model.head(latents).detach(), rtol=1e-13, atol=1e-14)
    for position, token in enumerate(tokens):
        step = partial(joined_step, model, model.transition(token))
        joined = torch.cat([latents[position], vectors[position]])
        expected = step(joined).detach().numpy()
        jacobian = torch.autograd.functional.jacobian(step, joined).numpy()
        for rows, found in ((slice(0, size), image), (slice(size, None), following)):
            # both are within a few hundred roundings of the exact values, which are of order 1 to 10
            values, slopes = found.value[position], found.tangent[position]
            np.testing.assert_allclose(values.midpoint, expected[rows], rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(slopes.midpoint, jacobian[rows], rtol=1e-10, atol=1e-11)
            assert values.radius.max() < 1e-9
            assert slopes.radius.max() < 1e-8


def test_states_near_by_stay_in_the_enclosure_of_a_box() -> None:
    model = model_of(3, **SIZES[1])
    loop = EnclosedClosedLoop(model)
    generator = torch.Generator().manual_seed(0)
    centre = torch.randn(1, loop.state_size, generator=generator, dtype=torch.float64)
    latent = torch.randn(1, 4, generator=generator, dtype=torch.float64)
    image, following = loop.advance(
        Dual.constant(Ball.around(latent.numpy(), 0.01), 0),
        Dual.constant(Ball.around(centre.numpy(), 0.01), 0),
        [1],
    )
    transition = model.transition(1)
    for _ in range(50):
        moved = centre + 0.02 * torch.rand(centre.shape, generator=generator, dtype=torch.float64) - 0.01
        z = latent[0] + 0.02 * torch.rand(4, generator=generator, dtype=torch.float64) - 0.01
        state = {name: part[0] for name, part in unflatten_state(model, moved).items()}
        assert image.value[0].contains(transition.self_map(z, state).detach().numpy())
        after = {name: part[None] for name, part in transition.state_update(z, state).items()}
        assert following.value[0].contains(flatten_state(after)[0].detach().numpy())


def test_several_layers_are_refused() -> None:
    with pytest.raises(InputError, match="the model has 2 layers"):
        EnclosedClosedLoop(model_of(0, **{**SIZES[0], "layers": 2}))
