"""A token's step on balls against the float64 model, and the bound of its rounding against programs."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.certificate_mutations.misrounding import Misrounding
from implicit.enclosed.closed_loop import (
    EnclosedClosedLoop,
    ExecutedClosedLoop,
    flatten_state,
    unflatten_state,
)
from implicit.fixed_point import DampedPicard
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from tests.refusals import refusals
from tests.small_models import rounding_model
from theory import Transition
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.covers.invariant_cover import StepRounding
from theory.rigorous.rounded import FLOAT32, FLOAT64, Rounded

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


test_several_layers_are_refused = refusals(
    (lambda: EnclosedClosedLoop(model_of(0, **SIZES[0], layers=2)), "the model has 2 layers"),
    (
        lambda: ExecutedClosedLoop(model_of(0, **SIZES[0], layers=2), FLOAT64),
        "layers; give one with a single",
    ),
)


POSITIONS = 12


def parts(model: ImplicitMamba2, latent: Tensor, state: Tensor, tokens: Tensor) -> tuple[Tensor, ...]:
    """The next iterate, the residual's norm, the next state and the logits, as the sequential mode does."""
    recurrence = model._recurrence(tokens[:, None], model.init_state(len(tokens)))
    inputs = [part[:, 0] for part in recurrence.inputs]
    image, after = recurrence.advance(latent, inputs, unflatten_state(model, state))
    step, _ = DampedPicard(model.config.damping).step(latent, image - latent)
    return step, (image - latent).norm(dim=-1), flatten_state(after), model.head(latent)


def positions(model: ImplicitMamba2, size: float) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    numbers = sum(part[0].numel() for part in model.init_state(1).values())
    latent = torch.randn(POSITIONS, model.latent_size, generator=generator) * size
    state = torch.randn(POSITIONS, numbers, generator=generator) * size
    return latent.double(), state.double(), torch.arange(POSITIONS) % 2


def off(found: tuple[Tensor, ...], exact: tuple[Tensor, ...], damping: float) -> StepRounding:
    away = [(a.double() - b).reshape(POSITIONS, -1) for a, b in zip(found, exact, strict=True)]
    step, residual, state, logits = away
    return StepRounding(
        np.maximum(step.norm(dim=1).numpy(), damping * residual.abs()[:, 0].numpy()),
        state.norm(dim=1).numpy(),
        logits.abs().amax(1).numpy(),
    )


def shares_of(seen: StepRounding, bound: StepRounding) -> list[float]:
    """The largest share that was seen of each bound."""
    return [float((getattr(seen, n) / getattr(bound, n)).max()) for n in ("step", "state", "logits")]


@pytest.mark.parametrize("kind", ["stored", "random", "plain"])
@pytest.mark.parametrize("size", [0.2, 1.0])
@torch.no_grad()
def test_the_worst_rounding_that_is_allowed_is_within_the_bound(kind: str, size: float) -> None:
    """Float64 with errors as large as float32 may have, all of one sign or random, against float64."""
    model = copy.deepcopy(rounding_model(kind)).double()
    latent, state, tokens = positions(model, size)
    bound = ExecutedClosedLoop(model, FLOAT32).rounding(
        Ball.exact(latent.numpy()), Ball.exact(state.numpy()), tokens.numpy()
    )
    exact, shares = parts(model, latent, state, tokens), []
    for sign in (1.0, -1.0, None):
        with Misrounding(sign):
            found = parts(model, latent, state, tokens)
        shares.append(shares_of(off(found, exact, model.config.damping), bound))
    assert np.max(shares) <= 1
    assert np.max(shares, axis=0).min() > 1e-2  # none of the three is so large that all would be within it
    with Misrounding(None, times=300.0):
        found = parts(model, latent, state, tokens)
    assert max(shares_of(off(found, exact, model.config.damping), bound)) > 1


@pytest.mark.parametrize("kind", ["stored", "random", "plain"])
def test_the_operations_that_are_counted_make_the_model(kind: str) -> None:
    model = rounding_model(kind)
    latent, state, tokens = (part.numpy() for part in positions(model, 1.0))
    counted = ExecutedClosedLoop(model, FLOAT64)._advance(
        Rounded.given(Ball.exact(latent), FLOAT64), Rounded.given(Ball.exact(state), FLOAT64), tokens
    )
    still = Dual.constant(Ball.exact(latent), 0), Dual.constant(Ball.exact(state), 0)
    for ours, theirs in zip(counted, EnclosedClosedLoop(model).advance(*still, tokens), strict=True):
        apart = np.abs(ours.exact.midpoint - theirs.value.midpoint)
        assert (apart <= ours.exact.radius + theirs.value.radius).all()
        assert (ours.exact.radius <= 1e-9).all()


@pytest.mark.parametrize("kind", ["stored", "random", "plain"])
@torch.no_grad()
def test_float32_is_within_its_bound(kind: str) -> None:
    model = rounding_model(kind)
    latent, state, tokens = positions(model, 1.0)
    latent, state = latent.float().double(), state.float().double()
    bound = ExecutedClosedLoop(model, FLOAT32).rounding(
        Ball.exact(latent.numpy()), Ball.exact(state.numpy()), tokens.numpy()
    )
    found = parts(model, latent.float(), state.float(), tokens)
    exact = parts(copy.deepcopy(model).double(), latent, state, tokens)
    share = max(shares_of(off(found, exact, model.config.damping), bound))
    assert 1e-4 < share <= 1


def test_the_bound_of_a_box_holds_for_the_points_in_it() -> None:
    """Most of it: what rounding adds is largest where numbers are."""
    model = rounding_model("stored")
    program = ExecutedClosedLoop(model, FLOAT64)
    latent, state, tokens = (part.numpy() for part in positions(model, 1.0))
    near = 1e-3
    whole = program.rounding(Ball.around(latent, near), Ball.around(state, near), tokens)
    rng = np.random.default_rng(0)
    for _ in range(4):
        z, s = (part + near * rng.uniform(-1, 1, part.shape) for part in (latent, state))
        assert max(shares_of(program.rounding(Ball.exact(z), Ball.exact(s), tokens), whole)) <= 1 + 1e-12


def test_coarser_functions_and_formats_have_larger_bounds() -> None:
    model = rounding_model("stored")
    latent, state, tokens = (part.numpy() for part in positions(model, 1.0))
    boxes = Ball.exact(latent), Ball.exact(state), tokens
    fine, coarse = (ExecutedClosedLoop(model, form).rounding(*boxes) for form in (FLOAT64, FLOAT32))
    # every term is a share of u, but for underflow: the ratio is that of the formats
    np.testing.assert_allclose(coarse.step / fine.step, 2.0**29, rtol=1e-2)


def test_a_softplus_that_is_cut_off_is_allowed_for() -> None:
    """PyTorch returns x above 20: in float64 that is further off than any rounding."""
    model = copy.deepcopy(rounding_model("stored")).double()
    latent, state, tokens = (part.numpy() for part in positions(model, 1.0))
    with torch.no_grad():
        model.get_parameter("mixers.0.dt_bias").add_(40.0)
    program = ExecutedClosedLoop(model, FLOAT64)
    assert program.rounding(Ball.exact(latent), Ball.exact(state), tokens).state.max() > 1e-9
