"""The ball of all images, and the contraction in it, against latents from all over and derivatives."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from automata.errors import InputError
from implicit.enclosed.closed_loop import EnclosedClosedLoop, unflatten_state
from implicit.enclosed.image_ball import ImageBalls, image_balls
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array

Tokens = NDArray[np.int64]

ROUNDING = 1e-9
"""Tolerance of sampled values and derivatives, computed in float64 from numbers of order 1."""
SIZES: dict[str, dict[str, Any]] = {
    "one head": {"d_model": 4, "head_size": 4, "d_state": 1, "d_conv": 2, "expand": 1},
    "heads and a long window": {"d_model": 6, "head_size": 3, "d_state": 3, "d_conv": 4, "groups": 2},
    "no residual stream": {"d_model": 5, "head_size": 5, "d_state": 2, "d_conv": 1, "residual": False},
}


def untrained(
    sizes: dict[str, Any], seed: int, reading: float = 0.001, adding: float = 32.0
) -> ImplicitMamba2:
    """A model that reads little of the latent and adds much to its stream, with uneven norms."""
    torch.manual_seed(seed)
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=3, output_size=2, **sizes)).double()
    with torch.no_grad():
        model.get_parameter("mixers.0.in_proj.weight").mul_(reading)
        model.get_parameter("mixers.0.out_proj.weight").mul_(adding)
        for name in ("mixer_norms.0.weight", "latent_norm.weight", "mixers.0.norm.weight"):
            model.get_parameter(name).mul_(0.5 + torch.rand(model.get_parameter(name).shape).double())
    return model


def setting(model: ImplicitMamba2, seed: int, width: float) -> tuple[Tokens, Ball, Array]:
    """Tokens, boxes of states and centres near the fixed points of their middles."""
    rng, loop = np.random.default_rng(seed), EnclosedClosedLoop(model)
    tokens = np.array([0, 1, 2, 1])
    middles = rng.standard_normal((4, loop.state_size))
    z = np.zeros((4, loop.latent_size))
    for _ in range(60):
        z = 0.2 * z + 0.8 * images(model, tokens, middles, z)
    return tokens, Ball.around(middles, width), z


def images(model: ImplicitMamba2, tokens: Tokens, states: Array, latents: Array) -> Array:
    parts = unflatten_state(model, torch.from_numpy(states))
    with torch.no_grad():
        rows = [
            model.transition(int(token)).self_map(
                torch.from_numpy(z), {name: part[row] for name, part in parts.items()}
            )
            for row, (token, z) in enumerate(zip(tokens, latents, strict=True))
        ]
    return np.asarray(torch.stack(rows).numpy())


def found_of(model: ImplicitMamba2, seed: int, width: float) -> tuple[ImageBalls, Tokens, Ball, Array]:
    tokens, states, latents = setting(model, seed, width)
    return image_balls(EnclosedClosedLoop(model), tokens, states, latents), tokens, states, latents


@pytest.mark.parametrize(("seed", "sizes"), list(enumerate(SIZES.values())), ids=SIZES)
def test_no_latent_and_no_state_leaves_the_ball_and_derivatives_are_below_the_constant(
    seed: int, sizes: dict[str, Any]
) -> None:
    model = untrained(sizes, seed)
    found, tokens, states, latents = found_of(model, seed, width=0.001)
    assert found.attracts.all()
    weight = model.latent_norm.weight.detach().numpy()
    rng, d = np.random.default_rng(9), len(weight)

    def drawn(length: float | Array) -> tuple[Array, Array]:
        """Vectors of a length, and corners of the boxes of states."""
        y = rng.standard_normal((4, d))
        corner = states.midpoint + states.radius * rng.choice((-1.0, 1.0), states.shape)
        return y * length / np.linalg.norm(y, axis=1, keepdims=True), corner

    farthest, steepest = np.zeros(4), np.zeros(4)
    for length in (1.0, 1.0, 1.0, 0.5, 1e-2, 1e-3, 1e-6, 0.0):
        for _ in range(10):
            y, corner = drawn(length * np.sqrt(d))
            after = images(model, tokens, corner, y * weight)
            farthest = np.maximum(farthest, np.linalg.norm((after - latents) / weight, axis=1))
    for _ in range(10):
        y, corner = drawn(found.radius[:, None])
        parts = unflatten_state(model, torch.from_numpy(corner))
        for row, token in enumerate(tokens):
            own = {name: part[row] for name, part in parts.items()}
            transition, at = model.transition(int(token)), torch.from_numpy(latents[row] + y[row] * weight)
            slopes = torch.func.jacrev(lambda z, t=transition, s=own: t.self_map(z, s))(at).detach().numpy()
            steepest[row] = max(steepest[row], np.linalg.norm(slopes * weight / weight[:, None], 2))
    for largest, bound in ((farthest, found.radius), (steepest, found.lipschitz)):
        assert (largest <= bound + ROUNDING).all()
        assert (largest > bound / 20).all()  # and it is no bound that holds of anything


def test_larger_balls_may_be_asked_for_and_smaller_ones_are_refused() -> None:
    model = untrained(SIZES["one head"], 0)
    loop = EnclosedClosedLoop(model)
    tokens, states, latents = setting(model, 0, 0.001)
    least = image_balls(loop, tokens, states, latents)
    larger = image_balls(loop, tokens, states, latents, 1.2)
    assert larger.radius == pytest.approx(1.2 * least.radius, rel=1e-9)
    assert (larger.radius >= 1.2 * least.radius).all()
    assert (larger.lipschitz > least.lipschitz).all()
    for factor in (0.99, float("nan")):
        with pytest.raises(InputError, match=f"factor is {factor}; give at least 1"):
            image_balls(loop, tokens, states, latents, factor)


@pytest.mark.parametrize(("reading", "adding"), [(1.0, 1.0), (0.001, 0.5), (1.0, 32.0)])
def test_a_block_that_reads_much_or_adds_little_proves_nothing(reading: float, adding: float) -> None:
    model = untrained(SIZES["one head"], 0, reading, adding)
    assert not found_of(model, 0, 0.0)[0].attracts.any()


@pytest.mark.parametrize("size", [1e-165, 1e-150, 1e-10, 1.0])
def test_two_attractors_prove_nothing(size: float) -> None:
    """One row reads the latent, and its tap makes up for its size, be the squares too small for a float."""
    sizes = {"d_model": 2, "head_size": 2, "d_state": 1, "d_conv": 1, "expand": 1}
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)).double()
    weights = dict(model.named_parameters())
    with torch.no_grad():
        zero = ("mixers.0.in_proj.weight", "injections.0.weight", "mixers.0.conv1d.weight")
        for name in (*zero, "mixers.0.conv1d.bias"):
            weights[name].zero_()
        weights["embedding.weight"].fill_(1.0)
        weights["injections.0.weight"][:2] = 2.0  # gates of 4
        weights["mixers.0.conv1d.bias"][:2] = torch.tensor([1.0, -20.0])
        weights["mixers.0.in_proj.weight"][3, 1] = size
        weights["mixers.0.conv1d.weight"][1, 0, -1] = 40.0 / size
        weights["mixers.0.out_proj.weight"].copy_(torch.tensor([[50.0, 0.0], [-50.0, 100.0]]))
    loop, token = EnclosedClosedLoop(model), np.array([0])
    state = np.zeros((1, loop.state_size))
    ends = []
    for start in ([1.0, -1.0], [1.0, 1.0]):
        z = np.array([start])
        for _ in range(100):
            z = 0.2 * z + 0.8 * images(model, token, state, z)
        ends.append(z)
    assert np.abs(ends[0] - ends[1]).max() > 0.5
    for end in ends:
        assert not image_balls(loop, token, Ball.exact(state), end).attracts.any()


def test_a_weight_of_zero_in_the_last_norm_proves_nothing() -> None:
    model = untrained(SIZES["one head"], 0)
    with torch.no_grad():
        model.latent_norm.weight[1] = 0.0
    assert not found_of(model, 0, 0.0)[0].attracts.any()
