"""Cells of latents in FLINT: what is shown of them against sampled latents, and what must not be shown."""

from typing import Any

import numpy as np
import pytest
import torch
from flint import arb

from analysis.certificates.arb.latent_cells import MARGIN, ArbLatentCells, Region
from analysis.certificates.arb.linear import precision
from analysis.certificates.arb.mamba2 import exact_matrix, exact_vector
from analysis.certificates.arb.model import ArbModel
from implicit.enclosed.closed_loop import unflatten_state
from implicit.fixed_point import Stopping
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.modes import Solve
from implicit.runs.loading import load_run
from theory.rigorous.balls.ball import Array

ROUNDING = 1e-12
"""Of the sampled values, computed in float64 from numbers of order 1."""
PLAIN = {"d_model": 2, "expand": 2, "head_size": 4, "d_state": 1, "d_conv": 2}
WIDE = {"d_model": 3, "expand": 2, "head_size": 3, "d_state": 2, "d_conv": 1}
EPSILON = 1e-5
TIGHT = Solve("sequential", stopping=Stopping(rtol=1e-13))
WIDTH = 0.01
"""Half-width of the box of states."""


def model_of(sizes: dict[str, Any], skip: float = 1.0, coupling: float = 0.2) -> ImplicitMamba2:
    torch.manual_seed(0)
    model = ImplicitMamba2(ImplicitMamba2Config(vocabulary_size=2, output_size=2, **sizes)).double()
    weights = dict(model.named_parameters())
    with torch.no_grad():
        weights["mixers.0.in_proj.weight"].mul_(coupling)
        weights["mixers.0.out_proj.weight"].mul_(4.0)
        weights["mixers.0.D"].fill_(skip)
        weights["latent_norm.weight"].copy_(torch.linspace(0.7, -1.3, len(weights["latent_norm.weight"])))
    return model


def a_state(model: ImplicitMamba2) -> Array:
    size = sum(part[0].numel() for part in model.init_state(1).values())
    return np.asarray(np.random.default_rng(0).standard_normal(size) * 0.3)


def images_of(model: ImplicitMamba2, states: Array, latents: Array) -> Array:
    """Φ at token 1 by the model's own code, a state for every latent."""
    batched = unflatten_state(model, torch.from_numpy(states))
    transition = model.transition(1)
    with torch.no_grad():
        images = torch.func.vmap(transition.self_map)(torch.from_numpy(latents), batched)
    return np.asarray(images.numpy())


def limits_of(model: ImplicitMamba2, starts: Array) -> Array:
    z, states = starts, np.broadcast_to(a_state(model), (len(starts), len(a_state(model)))).copy()
    for _ in range(300):
        z = 0.2 * z + 0.8 * images_of(model, states, z)
    return z


def fixed_point_of(model: ImplicitMamba2) -> Array:
    return np.asarray(limits_of(model, np.zeros((1, model.latent_size)))[0])


def cells_of(
    model: ImplicitMamba2, centre: Array, norm: Array, width: float = WIDTH, radius: float = 0.1
) -> ArbLatentCells:
    weights = {name: value.numpy() for name, value in model.state_dict().items()}
    found, d = ArbModel(weights, model.config.model_dump()), model.latent_size
    state = found.state([arb(float(entry), width) for entry in a_state(model)])
    region = Region(exact_vector(centre), exact_matrix(np.eye(d)), arb(radius))
    return ArbLatentCells(found, 1, state, exact_vector(centre), exact_matrix(norm), region)


@pytest.mark.parametrize("skip", [1.0, -1.5])
@pytest.mark.parametrize("sizes", [PLAIN, WIDE], ids=["one-head", "two-heads"])
def test_what_is_shown_of_cells_holds_at_latents_and_states_in_them(
    sizes: dict[str, Any], skip: float
) -> None:
    model, rng = model_of(sizes, skip), np.random.default_rng(1)
    d, weight = model.latent_size, model.latent_norm.weight.detach().numpy()
    norm = np.eye(d) + 0.2 * np.triu(rng.standard_normal((d, d)))
    fixed, state = fixed_point_of(model), a_state(model)
    shown = 0
    with precision(128):
        for centre in (fixed, -fixed):
            cells = cells_of(model, centre, norm)
            for _ in range(30):
                y = rng.standard_normal(d)
                z = y / np.linalg.norm(y) * np.sqrt(d) * rng.random() * weight
                length = np.sqrt(np.square(z).mean() + EPSILON)
                own = np.append(z / length, length)
                half = np.append(np.full(d, 0.02), 0.02 * length)
                if not cells._falls(((own - half).tolist(), (own + half).tolist()))[0]:
                    continue
                shown += 1
                near = z + rng.standard_normal((200, d)) * length * 0.01
                lengths = np.sqrt(np.square(near).mean(1, keepdims=True) + EPSILON)
                points = np.column_stack([near / lengths, lengths])
                near = near[(np.abs(points - own) <= half).all(1)]
                assert len(near) > 20
                states = state + rng.uniform(-WIDTH, WIDTH, (len(near), len(state)))
                before, after = (
                    np.linalg.norm(((found - centre) / weight) @ norm.T, axis=1)
                    for found in (near, images_of(model, states, near))
                )
                left_out = np.linalg.norm(near - centre, axis=1) <= 0.1
                assert ((after < before + ROUNDING) | left_out).all()
    assert shown >= 10  # of 60, of which half are around the wrong centre


def test_tightened_cells_hold_the_same_latents() -> None:
    model, rng = model_of(WIDE), np.random.default_rng(2)
    weight = model.latent_norm.weight.detach().numpy()
    cells = cells_of(model, np.zeros(3), np.eye(3))
    y = rng.standard_normal((20_000, 3))
    y *= np.sqrt(3) * 10 ** rng.uniform(-4, 0, (len(y), 1)) / np.linalg.norm(y, axis=1, keepdims=True)
    z = y * weight
    lengths = np.sqrt(np.square(z).mean(1, keepdims=True) + EPSILON)
    points = np.column_stack([z / lengths, lengths])
    whole = cells._whole()
    assert ((points >= whole[0]) & (points <= whole[1])).all()
    narrower = dropped = 0
    for _ in range(400):
        own = points[rng.integers(len(points))] + rng.standard_normal(4) * [0.5, 0.5, 0.5, 0.2]
        half = rng.uniform(0.05, 0.6, 4)
        lower, upper = own - half, own + half
        lower[3] = max(lower[3], whole[0][3])
        upper[3] = max(upper[3], lower[3])
        inside = points[((points >= lower) & (points <= upper)).all(1)]
        tightened = cells._tightened((lower.tolist(), upper.tolist()))
        if tightened is None:
            assert not len(inside)
            dropped += 1
            continue
        assert (
            (inside >= np.array(tightened[0]) - ROUNDING) & (inside <= np.array(tightened[1]) + ROUNDING)
        ).all()
        narrower += bool(np.subtract(*tightened[::-1]).sum() < 0.9 * (upper - lower).sum())
    assert narrower > 100
    assert dropped > 20


def on_the_edge_of_k(model: ImplicitMamba2) -> Array:
    y = np.random.default_rng(4).standard_normal((20, model.latent_size))
    y *= np.sqrt(model.latent_size) / np.linalg.norm(y, axis=1, keepdims=True)
    return np.asarray(y * model.latent_norm.weight.detach().numpy())


def test_one_attractor_is_shown() -> None:
    """Of a stored run at its first state and token; what contracts around the fixed point is left out."""
    run = load_run("parity-tiny")
    weights = {name: value.numpy() for name, value in run.model.state_dict().items()}
    fixed = run.model.double().run(torch.tensor([[0]]), solve=TIGHT).solution
    assert fixed is not None
    centre = fixed.latents[0, 0].detach().numpy()
    with precision(64):
        model, unit = ArbModel(weights, run.config.sizes), exact_matrix(np.eye(2))
        state = model.state([arb(0)] * (model.shapes["conv.0"][0] + model.shapes["ssm.0"][0]))
        made = (model, 0, state, exact_vector(centre), unit)
        for radius, limit, expected in ((0.02, 1000, True), (0.02, 50, False), (0.0, 1000, False)):
            cells = ArbLatentCells(*made, Region(exact_vector(centre), unit, arb(radius)))
            assert cells.all_fall(limit) is expected
            assert cells.examined > 20


def test_two_attractors_are_not_shown() -> None:
    """With the block's output small beside the latent that it is added to, latents stay where they are."""
    model = model_of(PLAIN, coupling=3.0)
    with torch.no_grad():
        model.get_parameter("mixers.0.out_proj.weight").mul_(0.05)
    ends = limits_of(model, on_the_edge_of_k(model))
    assert np.abs(ends - ends[0]).max() > 0.5
    with precision(64):
        assert not cells_of(model, ends[0], np.eye(2)).all_fall(limit=400)


def test_nothing_is_shown_of_models_whose_formulas_are_others() -> None:
    model = model_of(PLAIN)
    fixed = fixed_point_of(model)
    with torch.no_grad():
        model.latent_norm.weight[1] = 0.0
    assert not cells_of(model, fixed, np.eye(2), radius=100.0).all_fall(limit=10)
    without = model_of({**PLAIN, "residual": False})
    assert not cells_of(without, fixed, np.eye(2), radius=100.0).all_fall(limit=10)
    grouped = model_of({**WIDE, "groups": 2})  # its gated norm has a length for each group
    assert not cells_of(grouped, np.zeros(3), np.eye(3), radius=100.0).all_fall(limit=10)
    assert cells_of(model_of(WIDE), np.zeros(3), np.eye(3), radius=100.0).all_fall(limit=10)


def test_all_of_k_is_covered() -> None:
    """The first cell holds the longest latents and the shortest."""
    model = model_of(PLAIN)
    lower, upper = cells_of(model, np.zeros(2), np.eye(2))._whole()
    weight = np.abs(model.latent_norm.weight.detach().numpy())
    assert upper[2] >= np.sqrt(weight.max() ** 2 + EPSILON)  # of the latent along the longest axis
    assert lower[2] <= np.sqrt(EPSILON)
    assert upper[0] >= np.sqrt(2) + MARGIN / 2
