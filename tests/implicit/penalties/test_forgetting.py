"""The forgetting penalty against a disturbance followed by hand, and its place in training."""

from functools import partial
from typing import Any

import pytest
import torch

from implicit.fixed_point import Stopping
from implicit.gradients import Phantom
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve
from implicit.penalties import Solved
from implicit.penalties.forgetting import LARGEST_GROWTH, SCALE, Forgetting
from implicit.runs.loading import load_run
from tests.solving import solved

TIGHT = Stopping(rtol=1e-11, max_iterations=3000)
TOKENS = torch.tensor([[0, 1, 1, 0, 1], [1, 1, 0, 0, 0]])


def small_model() -> ImplicitModel:
    run: Any = load_run("parity-small")
    return run.model.double()


@torch.no_grad()
def test_penalty_is_what_is_left_of_the_disturbance_after_each_token() -> None:
    model = small_model()
    state = solved(model, TOKENS, "sequential", stopping=TIGHT).state
    solution = solved(model, TOKENS, "sequential", state=state, stopping=TIGHT)
    generator = torch.Generator().manual_seed(3)
    found = Forgetting().measure(Solved(model, TOKENS, state, solution, Phantom(), TIGHT, noise=generator))
    generator = torch.Generator().manual_seed(3)
    units = {name: part.square().mean().sqrt() for name, part in solution.state.items()}
    one, other, distances = dict(state), {}, []
    for name, part in state.items():
        noise = torch.randn(part.shape, dtype=part.dtype, generator=generator)
        other[name] = part + SCALE * units[name] * noise
    for token in (None, *TOKENS.split(1, dim=1)):
        if token is not None:
            solve = partial(solved, model, token, "sequential", stopping=TIGHT)
            one, other = solve(state=one).state, solve(state=other).state
        apart = [((one[name] - other[name]) / units[name]).flatten(1).square().sum(1) for name in one]
        distances.append(torch.stack(apart).sum(0))
    expected = torch.stack([later / distances[0] for later in distances[1:]]).sum(0).mean()
    # the fixed points are found to 1e-11, the disturbance is of order 0.1: 1e-10 relative, with a margin
    assert found.item() == pytest.approx(expected.item(), rel=1e-6)
    assert 0 < found.item() < LARGEST_GROWTH


def test_the_gradient_is_that_of_finite_differences() -> None:
    model = small_model()
    with torch.no_grad():
        solution = solved(model, TOKENS, stopping=TIGHT)
    state = model.init_state(2)

    def penalty() -> torch.Tensor:
        noise = torch.Generator().manual_seed(0)
        # unrolled far enough, phantom steps give the implicit gradient
        given = Solved(model, TOKENS, state, solution, Phantom(60, 0.8), TIGHT, noise=noise)
        return Forgetting().measure(given)

    weight: torch.Tensor = model.get_parameter("mixers.0.dt_bias")
    (slope,) = torch.autograd.grad(penalty(), weight)
    step, found, plain = 1e-5, [], model.states_at
    with torch.no_grad():
        # the undisturbed states follow the weight too, but carry no gradient: keep them as they were
        undisturbed = plain(TOKENS, solution.latents, state)
        for sign in (1, -1):
            weight += sign * step
            calls = iter([undisturbed])
            model.states_at = lambda *given, calls=calls: next(calls, None) or plain(*given)  # type: ignore[method-assign]
            found.append(penalty().item())
            weight -= sign * step
    # central differences: an error of order step² beside solves to 1e-11 / step
    assert slope.item() == pytest.approx((found[0] - found[1]) / (2 * step), rel=1e-3)


@torch.no_grad()
def test_padding_counts_for_nothing() -> None:
    model, lengths = small_model(), torch.tensor([3, 3])
    state = model.init_state(2)

    def penalty(tokens: torch.Tensor, lengths: torch.Tensor | None) -> float:
        run: Any = model.run(tokens, solve=Solve("simultaneous", stopping=TIGHT), lengths=lengths)
        noise = torch.Generator().manual_seed(1)
        given = Solved(model, tokens, state, run.solution, Phantom(), TIGHT, lengths, noise)
        return Forgetting().measure(given).item()

    # two solves to 1e-11
    assert penalty(TOKENS, lengths) == pytest.approx(penalty(TOKENS[:, :3], None), rel=1e-6)
    assert penalty(TOKENS, lengths) != pytest.approx(penalty(TOKENS, None), rel=1e-6)
