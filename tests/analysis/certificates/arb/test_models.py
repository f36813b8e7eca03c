"""The checker's evaluations against the float64 models, and its bound of rounding against float64 itself."""

import copy
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from flint import arb, arb_mat, ctx
from torch import Tensor

from analysis.certificates.arb.linear import exact_vector, norm_bound, precision
from analysis.certificates.arb.models import ArbModel, State, entries_of
from analysis.certificates.arb.rounding import ArbRounding, Computed
from analysis.certificates.certificate import MOST_ULPS
from analysis.certificates.claims.theorem1 import EVALUATIONS
from automata.tasks import make_task
from implicit.enclosed.closed_loop import ExecutedClosedLoop, flatten_state, unflatten_state
from implicit.models.registry import ImplicitMamba2, build_model
from tests.analysis.lines import weights_of
from tests.small_models import rounding_model
from theory import latent_jacobian
from theory.blocks import BlockMap
from theory.forward_mode import directional
from theory.rigorous.balls import Ball
from theory.rigorous.rounded import FLOAT64, FloatFormat, Rounded

SIZES: dict[str, Any] = {"d_model": 6, "head_size": 4, "d_state": 3}
GROUPS: dict[str, Any] = {**SIZES, "d_model": 8, "groups": 2, "d_conv": 2, "residual": False}
DELTA: dict[str, Any] = {"d_model": 6, "heads": 2, "key_size": 3, "value_size": 4}
PLACES = {"implicit-mamba2": (7, 5), "implicit-deltanet": (17, 13)}
"""Entries of ∂h'/∂h that are not zero: of DeltaNet's (1, 1, 1) and (1, 0, 1) of [heads, key, value]."""
ONE_LAYER = {"plain": SIZES, "groups": GROUPS, "no window": {**SIZES, "d_conv": 1}}
MAMBA = {
    **ONE_LAYER,
    "layers": {**GROUPS, "layers": 2},
    "three wide layers": {**GROUPS, "d_model": 4, "layers": 3, "expand": 4, "d_state": 5, "residual": True},
}
DELTANETS = {
    "DeltaNet": DELTA,
    "two layers of DeltaNet": {**DELTA, "layers": 2, "residual": False, "d_conv": 2},
    "reflections": {**DELTA, "d_conv": 1, "negative_eigenvalues": True},
}
TOKEN = 2
ROUNDING = 1e-12
"""128 bits against float64 and its rounding."""


class Case:
    """A model with random weights, its evaluation in balls, a latent and a state."""

    def __init__(self, name: str) -> None:
        self.kind = "implicit-deltanet" if name in DELTANETS else "implicit-mamba2"
        torch.manual_seed(0)
        model: Any = build_model(self.kind, {**MAMBA, **DELTANETS}[name], make_task("S3"))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(0.3 * torch.randn_like(parameter))
        self.size, self.layers = model.config.d_model, model.config.layers
        with precision(128):
            self.checked: Any = EVALUATIONS[self.kind](weights_of(model), model.config.model_dump())
        self.zeros = {key: entry[0].double() for key, entry in model.init_state(1).items()}
        self.z, self.vector = self.random(self.size), self.random(sum(map(Tensor.numel, self.zeros.values())))
        self.transition = model.double().transition(TOKEN)

    def random(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)

    def parts(self, vector: Tensor) -> dict[str, Tensor]:
        """A state from its entries, in the order of the checker."""
        sizes = [self.zeros[key].numel() for key in self.checked.shapes]
        pieces = zip(self.checked.shapes, vector.split(sizes), strict=True)
        return {key: piece.view(self.zeros[key].shape) for key, piece in pieces}

    def balls(self) -> tuple[Any, Any]:
        """The latent and the state for the checker."""
        return exact_vector(self.z.numpy()), self.checked.state(exact_vector(self.vector.numpy()))


def numbers(rows: Any) -> Any:
    return np.array([[float(entry) for entry in row] for row in rows])


@pytest.mark.parametrize("name", [*MAMBA, *DELTANETS])
def test_values_and_derivatives(name: str) -> None:
    case = Case(name)
    row, column = PLACES[case.kind]
    with precision(128):
        z, entries = case.balls()
        values, slopes, found = case.checked.evaluate(TOKEN, z, entries, [column] * case.layers)
        rates, same = (
            [case.checked.entry_rates(found, layer, (place, column), entries) for layer in range(case.layers)]
            for place in (row, column)
        )
    state, size = case.parts(case.vector), case.size
    expected = case.transition.self_map(case.z, state).detach()
    np.testing.assert_allclose(numbers([values])[0], expected, atol=ROUNDING)
    A = latent_jacobian(case.transition, state, case.z)
    np.testing.assert_allclose(numbers(slopes)[:, :size], A, atol=ROUNDING)
    for layer in range(case.layers):
        block = BlockMap(case.transition, state, (f"{case.checked.block}.{layer}",))
        unit = torch.zeros_like(block.vector)
        unit[column] = 1.0
        along = directional(partial(block.self_map, case.z), block.vector, unit[None])[0]
        np.testing.assert_allclose(numbers(slopes)[:, size + layer], along, atol=ROUNDING)
        direct = directional(partial(block.state_update, case.z), block.vector, unit[None])[0]
        assert float(rates[layer][size + layer]) == pytest.approx(direct[row].item(), abs=ROUNDING)
        assert float(same[layer][size + layer]) == pytest.approx(direct[column].item(), abs=ROUNDING)
        through = torch.func.jacrev(lambda z, block=block: block.state_update(z, block.vector)[row])(case.z)
        np.testing.assert_allclose(numbers(rates)[layer, :size], through.detach(), atol=ROUNDING)


@pytest.mark.parametrize("name", ONE_LAYER)
def test_derivatives_along_directions_of_the_state(name: str) -> None:
    case = Case(name)
    directions = case.random(len(case.vector), 2)

    def both(latent: Tensor, along: Tensor) -> tuple[Tensor, Tensor]:
        here = case.parts(case.vector + directions @ along)
        after = case.transition.state_update(latent, here)
        return case.transition.self_map(latent, here), torch.cat([after[key].flatten() for key in here])

    at = case.z, torch.zeros(2, dtype=torch.float64)
    expected = torch.autograd.functional.jacobian(both, at)
    with precision(128):
        rows = [[arb(float(entry)) for entry in row] for row in directions]
        image, rates, following = case.checked.evaluate_along(TOKEN, *case.balls(), rows)
    np.testing.assert_allclose(numbers([image])[0], both(*at)[0].detach(), atol=ROUNDING)
    for found, jacobians in ((rates, expected[0]), (following, expected[1])):
        np.testing.assert_allclose(numbers(found), torch.cat(jacobians, dim=1), atol=ROUNDING)


@pytest.mark.parametrize("name", MAMBA)
def test_the_next_state_has_the_parts_of_every_layer(name: str) -> None:
    case = Case(name)
    with precision(128):
        z, state = case.balls()
        _, _, found = case.checked.evaluate(TOKEN, z, state, None)
        after = case.checked.following(found, state)
    expected = case.transition.state_update(case.z, case.parts(case.vector))
    assert set(after) == set(expected) == set(case.zeros)
    for key, part in expected.items():
        np.testing.assert_allclose(numbers(after[key]).ravel(), part.detach().flatten(), atol=ROUNDING)


@pytest.mark.parametrize("name", MAMBA)
def test_states_have_the_entries_of_the_model_in_its_order(name: str) -> None:
    case = Case(name)
    sizes = {key: rows * columns for key, (rows, columns) in case.checked.shapes.items()}
    assert sizes == {key: zero.numel() for key, zero in case.zeros.items()}
    entries = [arb(index) for index in range(len(case.vector))]
    assert entries_of(case.checked.state(entries)) == entries
    with pytest.raises(AssertionError):
        case.checked.state([*entries, arb(0)])


@pytest.mark.parametrize("name", MAMBA)
def test_phi_alone_is_phi_with_derivatives(name: str) -> None:
    case = Case(name)
    with precision(128):
        latent, state = case.balls()
        for token, scale in ((0, 0.0), (1, 1.0), (2, 30.0)):
            z = [scale * entry for entry in latent]
            expected, _, _ = case.checked.evaluate(token, z, state, [0] * case.layers)
            found = case.checked.image(token, z, state)
            assert len(found) == case.size
            for ours, other in zip(found, expected, strict=True):
                assert ours.overlaps(other)
                # both are sharp: a few hundred operations at 128 bits, in a model of moderate slopes
                assert max(ours.rad(), other.rad()) < arb(2) ** -90


def test_the_precision_is_put_back() -> None:
    before = ctx.prec
    with pytest.raises(ZeroDivisionError), precision(200):
        arb_mat([[0]]).inv()
    assert ctx.prec == before
    with precision(200):
        assert ctx.prec == 200
    assert ctx.prec == before


def test_a_model_keeps_its_residual_unless_its_sizes_say_otherwise() -> None:
    """Configurations of the first format do not name it."""
    model: Any = build_model("implicit-mamba2", SIZES, make_task("S3"))
    weights, sizes = weights_of(model), model.config.model_dump()
    assert ArbModel(weights, sizes).residual is True
    assert ArbModel(weights, {**sizes, "residual": False}).residual is False
    del sizes["residual"]
    assert ArbModel(weights, sizes).residual is True


BITS = 160
POSITIONS = 8
NEAR = 0.02
"""Size of other roundings beside those of functions that are 1,024 ulps off."""


@pytest.fixture(params=["stored", "random", "plain"])
def model(request: pytest.FixtureRequest) -> ImplicitMamba2:
    return rounding_model(request.param)


def checker_of(model: ImplicitMamba2, ulps: int = 4) -> ArbRounding:
    weights = weights_of(model)
    return ArbRounding(weights, ArbModel(weights, model.config.model_dump()), ulps)


def positions(model: ImplicitMamba2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    numbers = sum(part[0].numel() for part in model.init_state(1).values())
    return rng.normal(size=(POSITIONS, model.latent_size)), rng.normal(size=(POSITIONS, numbers))


def in_balls(
    checker: ArbRounding, latents: np.ndarray, states: np.ndarray, near: float = 0.0
) -> Iterator[tuple[int, list[arb], State]]:
    """Yield tokens, latents and states as the checker takes them."""
    for row, parts in enumerate(zip(latents, states, strict=True)):
        z, s = ([entry + arb(0, near) for entry in exact_vector(part)] for part in parts)
        yield row % 2, z, checker.model.state(s)


@pytest.mark.parametrize(
    ("scale", "near", "ulps"), [(1.0, 0.0, 1), (1.0, 0.0, 4), (1.0, 1e-4, 1), (1.0, 1e-4, 4), (1e4, 0.0, 4)]
)
def test_the_two_bounds_are_about_the_same(
    model: ImplicitMamba2, scale: float, near: float, ulps: int
) -> None:
    """They share no code; what is small beside the rest would not show here, but below.

    The norms of long latents are off most: none is forgotten.
    """
    latents, states = positions(model)
    latents *= scale
    form = FloatFormat("float64", FLOAT64.unit_roundoff, ulps)
    boxes = Ball.around(latents, near), Ball.around(states, near)
    theirs = ExecutedClosedLoop(model, form).rounding(*boxes, np.arange(POSITIONS) % 2)
    with precision(BITS):
        checker = checker_of(model, ulps)
        for row, given in enumerate(in_balls(checker, latents, states, near)):
            off = checker.bound(*given)
            if scale > 1:
                assert 0.9 <= float(off.step) / float(theirs.step[row]) <= 1.2
                continue
            for name, found in (("step", off.step), ("state", off.state), ("logits", off.logit)):
                assert 0.85 <= float(found) / float(getattr(theirs, name)[row]) <= 1.35, name


def test_the_operations_that_are_counted_make_the_model(model: ImplicitMamba2) -> None:
    latents, states = positions(model)
    with precision(BITS):
        checker = checker_of(model)
        exact = checker.model
        for token, z, s in in_balls(checker, latents, states):
            image, after = checker._step(token, Computed(z, [arb(0)] * len(z)), s)
            phi, _, found = exact.evaluate(token, z, s, None)
            assert all(a.overlaps(b) for a, b in zip(image.exact, phi, strict=True))
            assert max(float(entry.rad()) for entry in image.exact) < 1e-40
            # of G the errors alone are kept, one for every entry
            assert len(after.error) == len(entries_of(exact.following(found, s)))


def test_nothing_is_known_where_a_number_may_overflow(model: ImplicitMamba2) -> None:
    """A large number that meets a weight of 0 is harmless in exact numbers; infinity times 0 is NaN."""
    wrong = copy.deepcopy(model).double()
    layer: Any = wrong.mixers[0]
    with torch.no_grad():
        layer.in_proj.weight[layer.d_inner] = 1.7e308
        layer.conv1d.weight[0] = 0
    latents, states = positions(model)
    with precision(BITS):
        weights = {own: weight.numpy() for own, weight in wrong.state_dict().items()}
        checker = ArbRounding(weights, ArbModel(weights, wrong.config.model_dump()), 4)
        token, z, s = next(in_balls(checker, latents, states))
        assert not checker.bound(token, z, s).step.is_finite()


@pytest.mark.parametrize("size", [0.1, 1.0, 10.0])
def test_no_function_is_forgotten(model: ImplicitMamba2, size: float) -> None:
    """Where functions are far off, the two bounds of each entry are the same up to other roundings."""
    latents, states = (size * part for part in positions(model))
    form = FloatFormat("float64", FLOAT64.unit_roundoff, MOST_ULPS)
    z_given, s_given = (Rounded.given(Ball.exact(part), form) for part in (latents, states))
    theirs = ExecutedClosedLoop(model, form)._advance(z_given, s_given, np.arange(POSITIONS) % 2)
    with precision(BITS):
        checker = checker_of(model, MOST_ULPS)
        for row, (token, z, s) in enumerate(in_balls(checker, latents, states)):
            step = checker._step(token, Computed(z, [arb(0)] * len(z)), s)
            for ours, other in zip(step, theirs, strict=True):
                found = np.array([float(abs(entry).upper()) for entry in ours.error])
                np.testing.assert_allclose(found, other.error[row], rtol=NEAR, atol=1e-20)


@torch.no_grad()
def test_float64_is_within_the_bound(model: ImplicitMamba2) -> None:
    latents, states = positions(model)
    checker = checker_of(model)
    executed = model.double()
    with precision(BITS):
        given = list(in_balls(checker, latents, states))
    for row, (token, exact_z, s) in enumerate(given):
        transition, z = executed.transition(token), torch.as_tensor(latents[row])
        state = unflatten_state(executed, torch.as_tensor(states[row : row + 1]))
        own = {name: part[0] for name, part in state.items()}
        image, after = transition.self_map(z, own), transition.state_update(z, own)
        following = flatten_state({name: part[None] for name, part in after.items()})[0]
        with precision(BITS):
            exact = checker.model
            phi, _, found = exact.evaluate(token, exact_z, s, None)
            off = checker.bound(token, exact_z, s)
            seen = [
                norm_bound([arb(a) - b for a, b in zip(ours.tolist(), theirs, strict=True)])
                for ours, theirs in ((image, phi), (following, entries_of(exact.following(found, s))))
            ]
            assert exact.damping * seen[0] <= off.step
            assert seen[1] <= off.state


def test_nothing_is_bounded_where_a_norm_may_have_no_root() -> None:
    """NaN fails every comparison, so that a checker refuses."""
    model = rounding_model("stored")
    latents, states = positions(model)
    with precision(BITS):
        checker = checker_of(model)
        (given,) = in_balls(checker, latents[:1], states[:1], near=1e3)
        assert not checker.bound(*given).step <= 1e300


def test_a_softplus_that_is_cut_off_is_allowed_for() -> None:
    model = rounding_model("stored")
    latents, states = positions(model)
    with torch.no_grad():
        model.get_parameter("mixers.0.dt_bias").add_(40.0)
    with precision(BITS):
        checker = checker_of(model)
        off = [checker.bound(0, z, s).state for _, z, s in in_balls(checker, latents, states)]
        assert max(map(float, off)) > 1e-9
