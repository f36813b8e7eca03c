"""The checker's bound of rounding, against the producer's, and against float64 itself at 160 bits."""

from collections.abc import Iterator

import numpy as np
import pytest
import torch
from flint import arb

from analysis.certificates.arb.linear import exact_vector, norm_bound, precision
from analysis.certificates.arb.models import ArbModel, State, entries_of
from analysis.certificates.arb.rounding import ArbRounding, Computed
from analysis.certificates.certificate import MOST_ULPS
from implicit.enclosed.closed_loop import ExecutedClosedLoop, flatten_state, unflatten_state
from implicit.models.mamba2 import ImplicitMamba2
from tests.analysis.lines import weights_of
from tests.small_models import rounding_model
from theory.rigorous.balls import Ball
from theory.rigorous.rounded import FLOAT64, FloatFormat, Rounded

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
