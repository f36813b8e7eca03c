"""Bounds over cells of latents against sampled latents, and the proof that all latents are attracted."""

import copy
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb

from analysis.certificates.arb.latent_cells import ArbLatentCells, Region
from analysis.certificates.arb.linear import precision
from analysis.certificates.arb.mamba2 import exact_matrix, exact_vector
from analysis.certificates.arb.model import ArbModel
from automata.errors import InputError
from implicit.cells import Mamba2Cell
from implicit.enclosed import affine, latent_cells
from implicit.enclosed.attraction import _neighbourhood, prove_all_latents
from implicit.enclosed.latent_cells import LatentCells
from implicit.models.mamba2 import ImplicitMamba2, ImplicitMamba2Config
from implicit.runs.loading import load_run
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array

ROUNDING = 1e-12
"""Of the sampled values, computed in float64 from numbers of order 1."""


def untrained(d: int, seed: int, coupling: float, output: float) -> ImplicitMamba2:
    """A model of which the latent is read with the one factor, and the block's output weighs the other."""
    torch.manual_seed(seed)
    config = ImplicitMamba2Config(
        vocabulary_size=2, output_size=2, d_model=d, head_size=d, d_state=1, d_conv=2, expand=1
    )
    model = ImplicitMamba2(config).double()
    (cell,) = model.cells
    assert isinstance(cell, Mamba2Cell)
    with torch.no_grad():
        cell.in_proj.weight.mul_(coupling)
        cell.out_proj.weight.mul_(output)
    return model


def a_state(d: int, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(2 * d + 2) * 0.3


def self_map(model: ImplicitMamba2, token: int, state: Array, latents: Array) -> Array:
    """Φ by the model's own code."""
    d = model.latent_size
    parts = {"conv.0": state[: d + 2].reshape(d + 2, 1), "ssm.0": state[d + 2 :].reshape(1, d, 1)}
    tensors = {name: torch.from_numpy(part.copy()) for name, part in parts.items()}
    transition = model.transition(token)
    with torch.no_grad():
        images = torch.func.vmap(lambda z: transition.self_map(z, tensors))(torch.from_numpy(latents))
    return np.asarray(images.numpy())


def ends(model: ImplicitMamba2, state: Array, starts: int = 40, steps: int = 200) -> Array:
    """Where latents from all over K are after many damped steps, in units of the last norm's weights."""
    d, rng = model.latent_size, np.random.default_rng(3)
    weight = model.latent_norm.weight.detach().numpy()
    y = rng.standard_normal((starts, d))
    z = y / np.linalg.norm(y, axis=1, keepdims=True) * np.sqrt(d) * rng.random((starts, 1)) * weight
    damping = model.solver.damping
    for _ in range(steps):
        z = (1 - damping) * z + damping * self_map(model, 1, state, z)
    return z / weight


@pytest.fixture(scope="module")
def cells() -> LatentCells:
    """Of `parity-small`, around a fixed point of the state zero, in a norm that is not Euclidean."""
    model = load_run("parity-small").model.double()
    assert isinstance(model, ImplicitMamba2)
    z = np.zeros((1, 8))
    for _ in range(300):
        z = 0.2 * z + 0.8 * self_map(model, 0, np.zeros(18), z)
    norm = np.eye(8) + 0.2 * np.triu(np.random.default_rng(0).standard_normal((8, 8)))
    return LatentCells(model, 0, Ball.exact(np.zeros(18)), z[0], norm, 0.0)


def in_cells(cells: LatentCells, widths: tuple[float, ...]) -> tuple[Array, Array, Array]:
    """Cells around random latents of K, and latents in each that are in K too, ``[N, samples, d]``."""
    rng, d = np.random.default_rng(1), cells.size
    lower, upper, inside = [], [], []
    for _, half in itertools.product(range(25), widths):
        y = rng.standard_normal(d)
        z = y / np.linalg.norm(y) * np.sqrt(d) * rng.random() * cells.weight
        near = z + rng.standard_normal((400, d)) * np.linalg.norm(z) * half / 3
        length = np.sqrt(np.square(near).mean(1, keepdims=True) + cells.epsilon)
        points = np.column_stack([near / length, length])
        own = np.append(z, 0) / np.sqrt(np.square(z).mean() + cells.epsilon)
        own[d] = np.sqrt(np.square(z).mean() + cells.epsilon)
        widths_here = np.append(np.full(d, half), half * own[d])
        fits = (np.abs(points - own) <= widths_here).all(1)
        fits &= np.square(near / cells.weight).sum(1) <= d
        lower.append(own - widths_here)
        upper.append(own + widths_here)
        inside.append(np.where(fits[:, None], near, z))
    lower_ends = np.array(lower)
    lower_ends[:, d] = np.maximum(lower_ends[:, d], np.sqrt(cells.epsilon) * (1 - 1e-9))
    return lower_ends, np.array(upper), np.array(inside)


def test_tightened_cells_hold_the_same_latents(cells: LatentCells) -> None:
    lower, upper, inside = in_cells(cells, (0.02, 0.1, 0.4))
    outward, grown = lower + upper > 0, upper - lower  # far beyond the ball, where there is nothing
    upper, lower = np.where(outward, upper + grown, upper), np.where(outward, lower, lower - grown)
    lower[:, 8] = np.sqrt(cells.epsilon) * (1 - 1e-9)
    alive, tight_lower, tight_upper = cells.tighten(lower, upper)
    assert alive.all()
    assert (tight_upper - tight_lower).sum() < 0.95 * (upper - lower).sum()
    length = np.sqrt(np.square(inside).mean(2, keepdims=True) + cells.epsilon)
    points = np.concatenate([inside / length, length], axis=2)
    assert (points >= tight_lower[:, None] - ROUNDING).all()
    assert (points <= tight_upper[:, None] + ROUNDING).all()


def test_cells_of_no_latent_are_dropped(cells: LatentCells) -> None:
    beyond = np.full((1, 9), 2.0)
    alive, _, _ = cells.tighten(beyond, beyond + 0.1)  # |û|² ≥ 32 > 8
    assert not alive.any()


def test_where_a_distance_is_proved_to_fall_it_does(cells: LatentCells) -> None:
    model = load_run("parity-small").model.double()
    assert isinstance(model, ImplicitMamba2)
    lower, upper, inside = in_cells(cells, (0.01, 0.05, 0.15, 0.3))
    _, lower, upper = cells.tighten(lower, upper)
    proved, _ = cells.falls(lower, upper)
    counted = 0
    for latents, claimed in zip(inside[:, :60], proved, strict=True):
        images = self_map(model, 0, np.zeros(18), latents)
        before, after = (
            np.linalg.norm(((points - cells.centre) / cells.weight) @ cells.norm.T, axis=1)
            for points in (latents, images)
        )
        if claimed:
            assert (after < before + ROUNDING).all()
        counted += bool(claimed)
    assert counted >= 30  # of 100: the bounds are not empty
    assert not proved.all()


def test_a_skip_weight_below_zero_turns_the_output() -> None:
    """The gated norm forgets the size of y = β (…) and not the sign of β: about −c nothing falls."""
    model, state = untrained(2, 0, coupling=0.2, output=4.0), a_state(2, 0)
    (cell,) = model.cells
    assert isinstance(cell, Mamba2Cell)
    with torch.no_grad():
        cell.D.fill_(-1.5)
    weight = model.latent_norm.weight.detach().numpy()
    centre = ends(model, state, starts=1)[0] * weight
    for sign, expected in ((1, 50), (-1, 0)):
        cells = LatentCells(model, 1, Ball.exact(state), sign * centre, np.eye(2), 0.1)
        lower, upper, inside = in_cells(cells, (0.01, 0.05))
        _, lower, upper = cells.tighten(lower, upper)
        proved, _ = cells.falls(lower, upper)
        assert proved.sum() == expected
        for latents in inside[proved]:
            before, after = (
                np.linalg.norm((points - cells.centre) / weight, axis=1)
                for points in (latents, self_map(model, 1, state, latents))
            )
            assert (after < before + ROUNDING).all()
    assert prove_all_latents(model, 1, state).proved


def test_images_of_balls_are_as_near_as_is_proved(cells: LatentCells) -> None:
    model = load_run("parity-small").model.double()
    assert isinstance(model, ImplicitMamba2)
    rng = np.random.default_rng(2)
    for radius in (1e-4, 1e-3, 1e-2):
        around = rng.standard_normal((300, 8))
        around *= radius / np.linalg.norm(around, axis=1, keepdims=True)
        latents = cells.centre + (around @ np.linalg.inv(cells.norm).T) * cells.weight
        images = 0.2 * latents + 0.8 * self_map(model, 0, np.zeros(18), latents)
        found = np.linalg.norm(((images - cells.centre) / cells.weight) @ cells.norm.T, axis=1).max()
        bound = cells.image_radius(radius)
        assert found <= bound + ROUNDING
        assert bound < 5 * radius
    assert cells.image_radius(10.0) == np.inf


def test_the_step_contracts_as_is_proved(cells: LatentCells) -> None:
    model = load_run("parity-small").model.double()
    assert isinstance(model, ImplicitMamba2)
    q, distance, shift = cells.contraction(1e-4)
    assert 0 < distance <= 1e-4 * np.linalg.norm(cells.norm / cells.weight, 2)
    transition = model.transition(0)
    state = {name: part[0] for name, part in model.init_state(1).items()}
    scale = cells.norm / cells.weight
    rng = np.random.default_rng(4)
    for _ in range(20):
        z = torch.from_numpy(cells.centre + rng.uniform(-1e-4, 1e-4, 8))
        slope = torch.func.jacrev(lambda latent: transition.self_map(latent, state))(z).detach().numpy()
        step = 0.2 * np.eye(8) + 0.8 * slope
        assert np.linalg.norm(scale @ step @ np.linalg.inv(scale), 2) <= q
    assert q < 1.5 * np.linalg.norm(scale @ step @ np.linalg.inv(scale), 2)
    assert shift < 1e-9  # the centre was iterated to rounding
    off = copy.copy(cells)
    off.centre = cells.centre + 1e-3
    moved = 0.8 * (self_map(model, 0, np.zeros(18), off.centre[None])[0] - off.centre)
    assert off.contraction(1e-4)[2] == pytest.approx(np.linalg.norm(scale @ moved), rel=1e-9)


def test_a_ball_that_contracts_and_is_left_is_no_neighbourhood(cells: LatentCells) -> None:
    """Around a centre that is no fixed point: what contracts is too small to be mapped into itself."""
    assert _neighbourhood(cells) > 0
    off = copy.copy(cells)
    off.centre = cells.centre + 0.3
    assert off.contraction(1e-6)[0] < 1
    assert _neighbourhood(off) == 0


@pytest.mark.parametrize(("d", "seed"), [(2, 0), (3, 0), (4, 0)])
def test_one_attractor_is_proved_and_reached_from_everywhere(d: int, seed: int) -> None:
    model, state = untrained(d, seed, coupling=0.2, output=4.0), a_state(d, seed)
    found = prove_all_latents(model, 1, state, limit=50_000)
    assert found.proved
    assert found.examined is not None
    assert found.examined.left == 0
    everywhere = ends(model, state)
    assert np.abs(everywhere - everywhere[0]).max() < 1e-9


@pytest.mark.parametrize(("seed", "moves"), [(0, False), (5, True)])
def test_two_attractors_and_a_cycle_are_not_proved(seed: int, moves: bool) -> None:
    model, state = untrained(2, seed, coupling=3.0, output=0.7), a_state(2, seed)
    everywhere = ends(model, state)
    assert np.abs(everywhere - everywhere[0]).max() > 0.5
    weight = model.latent_norm.weight.detach().numpy()
    rest = np.abs(self_map(model, 1, state, everywhere * weight) / weight - everywhere).max()
    assert (rest > 1e-3) == moves
    found = prove_all_latents(model, 1, state, limit=30_000)
    assert not found.proved
    assert found.ratio > 1


def test_a_limit_on_cells_proves_nothing() -> None:
    model, state = untrained(4, 0, coupling=0.2, output=4.0), a_state(4, 0)
    found = prove_all_latents(model, 1, state, limit=100)
    assert not found.proved
    assert found.examined is not None
    assert found.examined.left > 0


def test_another_model_is_refused() -> None:
    with pytest.raises(InputError, match="4 heads and d_state 16; give one with a single head"):
        prove_all_latents(load_run("parity").model, 0, np.zeros(1312))


def test_a_latent_that_is_too_large_is_refused() -> None:
    model = untrained(latent_cells.LARGEST_SIZE + 1, 0, coupling=0.2, output=4.0)
    with pytest.raises(InputError, match="d_model is 61 and d_inner 61; give a model with at most 60"):
        prove_all_latents(model, 1, a_state(61, 0))


def test_more_channels_than_sums_may_have_are_refused() -> None:
    config = ImplicitMamba2Config(
        vocabulary_size=2, output_size=2, d_model=2, head_size=62, d_state=1, d_conv=1, expand=31
    )
    with pytest.raises(InputError, match="d_model is 2 and d_inner 62; give a model with at most 60 of each"):
        prove_all_latents(ImplicitMamba2(config).double(), 1, np.zeros(62))


def test_constants_of_silu_are_proved() -> None:
    """silu'' is even and silu''' odd; beyond 30 both are below 240 e^−30."""

    def parts(x: arb) -> tuple[arb, arb]:
        t = (x / 2).tanh()
        bell = (1 - t * t) / 4
        return bell * (2 - x * t), bell * (3 * t + x / 2 - x * t * t * arb(3) / 2)

    for k in range(1500):
        second, third = parts(arb((k + 0.5) / 50, 0.5 / 50))
        assert second > affine.SILU_BEND[0]
        assert second <= affine.SILU_BEND[1] + 0.02  # 1/2 is taken at 0, where the ball is wider
        assert abs(third) < affine.SILU_TURN
    for k in range(500):  # silu' > 0 from LEAST_AT to 0, and silu is nowhere below LEAST_SILU
        x = arb(affine.LEAST_AT) * (arb((k + 0.5) / 500, 0.5 / 500))
        sigma = 1 / (1 + (-x).exp())
        assert sigma * (1 + x * (1 - sigma)) > 0
    for k in range(4000):  # below −2 silu > −2 / (1 + e²) > −0.24, as it falls on the left of its minimum
        x = -arb((k + 0.5) / 2000, 0.5 / 2000)
        assert x / (1 + (-x).exp()) > affine.LEAST_SILU


@pytest.mark.parametrize(
    ("name", "skip"), [("parity-tiny", 1.0), ("parity-tiny", -2.0), ("parity-small", 1.0)]
)
def test_affine_forms_hold_what_flint_finds(name: str, skip: float) -> None:
    """v, ν, s and N at latents in cells and states in a box, by the checker's evaluation at 128 bits."""
    run = load_run(name)
    model, rng = run.model.double(), np.random.default_rng(5)
    assert isinstance(model, ImplicitMamba2)
    with torch.no_grad():
        model.get_parameter("mixers.0.D").mul_(skip)
    weights = {key: value.numpy() for key, value in model.state_dict().items()}
    d, width = model.latent_size, 0.01
    size = sum(part.numel() for part in model.init_state(1).values())
    middle = rng.standard_normal(size) * 0.2
    cells = LatentCells(model, 1, Ball.around(middle, width), np.zeros(d), np.eye(d), 0.0)
    found = 0
    for half in (1e-6, 0.01, 0.1, 0.3):
        centre = rng.standard_normal((20, d + 1)) * 0.8
        centre[:, d] = 0.1 + np.abs(centre[:, d])
        axes = np.eye(d + 1)[None] * half * np.abs(centre[:, :, None]).max(1, keepdims=True)
        direction = affine.Affine(centre[:, :d], axes[:, :d], np.zeros((20, d)))
        z = affine.times(direction, affine.Affine(centre[:, d:], axes[:, d:], np.zeros((20, 1))))
        _, _, beta, v, nu, stream = cells._stream(direction, z)
        norm, tangent = cells._norms(stream, nu)
        for row in np.flatnonzero(beta.mignitude > 0):
            place = rng.choice([-1.0, 1.0], d + 1) if row % 2 else rng.uniform(-1, 1, d + 1)
            state = middle + rng.uniform(-width, width, size)
            with precision(128):
                exact = _exactly(weights, run.config.sizes, state, centre[row] + axes[row] @ place)
            for form, numbers in zip((v, nu, stream, norm), exact, strict=True):
                off = np.abs(form.c[row] + form.a[row] @ place - numbers)
                assert (off <= form.e[row] * (1 + 1e-12)).all()
            assert tangent.c[row] + tangent.a[row] @ place - tangent.e[row] <= exact[3]
            found += 1
    assert found > 50


def _exactly(
    weights: dict[str, Any], sizes: dict[str, Any], state: Array, point: Array
) -> tuple[Array, Array, Array, Array]:
    """What the gated norm normalises, its length, the stream and its length, all over |β|; in FLINT."""
    model = ArbModel(weights, sizes)
    parts, d = model.state(exact_vector(state)), model.size
    unit, zero = exact_matrix(np.eye(d)), Region([arb(0)] * d, exact_matrix(np.eye(d)), arb(0))
    cells = ArbLatentCells(model, 1, parts, [arb(0)] * d, unit, zero)
    u, length = exact_vector(point[:d]), arb(float(point[d]))
    gated, _ = cells._gated(u, derive=False)
    stream, gamma = cells._stream(u, length, gated)
    inputs = [w * entry for w, entry in zip(model.layers[0].norm_before, u, strict=True)]
    read = model.layers[0].read(inputs, [[]] * d, model.injection(1), parts["conv.0"])
    beta = abs(read.inputs[0][0] / read.x[0][0] * read.B[0][0] * read.C[0][0] + model.layers[0].skip[0])
    more = arb(1e-5) * gamma * gamma
    norm = (sum((entry * entry for entry in stream), arb(0)) / d + more).sqrt()
    found = gated, [gamma], stream, [norm]
    v, nu, s, n = (np.array([float(entry / beta) for entry in part]) for part in found)
    return v, nu, s, n
