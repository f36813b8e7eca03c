"""The factored adjoint against dense linear algebra, finite differences, and the other gradient rules."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from automata.errors import InputError
from implicit import load_run
from implicit.fixed_point import DampedPicard, FixedPointProblem, NotConvergedWarning, Solution, Stopping
from implicit.gradients import GradientRule, Implicit, Unrolled, solve_with_gradient
from implicit.gradients.rules import FactoredImplicit
from implicit.modes import ModeResult, Recurrence, solve_sequentially, solve_simultaneously
from implicit.modes.adjoint import sequence_problem
from implicit.modes.recurrence import Inputs
from tests.implicit.gradients.test_rules import TIGHT, kept_for_backward, uneven
from tests.solving import solved
from theory.transition import State

BATCH, TOKENS, FEATURES, STATES = 2, 6, 3, 4


def parameters() -> list[Tensor]:
    """Draw W, U, V of spectral norm 0.6, 0.5 and 0.5, the tokens x and the first state, all with gradient."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    W, U, V = draw(FEATURES, FEATURES), draw(FEATURES, STATES), draw(STATES, FEATURES)
    scaled = [s * M / torch.linalg.matrix_norm(M, 2) for s, M in ((0.6, W), (0.5, U), (0.5, V))]
    return [leaf.requires_grad_() for leaf in (*scaled, draw(BATCH, TOKENS, FEATURES), draw(BATCH, STATES))]


def recurrent(
    W: Tensor,
    U: Tensor,
    V: Tensor,
    x: Tensor,
    h: Tensor,
    *,
    keep: float = 0.7,
    form: Callable[[Tensor], Tensor] = torch.tanh,
) -> Recurrence:
    """Build Φ(z; h, x) = tanh(W z + U h + x) and G(z; h) = 0.7 h + V z."""

    def advance(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
        return form(z @ W.T + state["h"] @ U.T + inputs[0]), {"h": keep * state["h"] + z @ V.T}

    def states(z: Tensor, inputs: Inputs, state: State) -> State:
        visited = [state["h"]]
        for t in range(z.shape[1]):
            visited.append(advance(z[:, t], [x[:, t] for x in inputs], {"h": visited[-1]})[1]["h"])
        return {"h": torch.stack(visited, 1)}

    def sweep(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
        h = states(z, inputs, state)["h"]
        return advance(z, inputs, {"h": h[:, :-1]})[0], {"h": h[:, -1]}

    return Recurrence([x], {"h": h}, sweep, advance, states)


@pytest.mark.parametrize("solve", [solve_simultaneously, solve_sequentially])
def test_equals_iterated_and_unrolled(solve: Callable[..., ModeResult]) -> None:
    def gradients(rule: GradientRule) -> list[Tensor]:
        leaves = parameters()
        arguments = DampedPicard(1.0), TIGHT, rule, torch.zeros_like(leaves[3])
        result = solve(recurrent(*leaves), *arguments)
        return list(torch.autograd.grad(uneven(result.solution.value) + uneven(result.state["h"]), leaves))

    exact = gradients(FactoredImplicit())
    for other in (Implicit(), Unrolled(150)):
        for one, another in zip(exact, gradients(other), strict=True):
            # Residuals of 1e-13 in solution and adjoint, amplified by the sequence; order of values 10.
            torch.testing.assert_close(one, another, rtol=1e-9, atol=1e-10)


def test_single_precision_of_a_trained_model_is_as_good_as_its_rounding() -> None:
    run: Any = load_run("parity")
    tokens = torch.randint(2, (4, 24), generator=torch.Generator().manual_seed(0))
    weight = run.model.get_parameter("mixers.0.in_proj.weight")
    results = []
    for dtype in (torch.float32, torch.float64):
        model = run.model.to(dtype)
        rtol = 1e-5 if dtype == torch.float32 else 1e-12
        solution = solved(model, tokens, stopping=Stopping(rtol, 0.0, 2000), gradient=FactoredImplicit())
        (gradient,) = torch.autograd.grad(uneven(solution.latents), weight)
        results.append(gradient.double())
    # The latents differ by their tolerance of 1e-5; the gradient carries that with its second derivatives.
    assert float((results[0] - results[1]).norm() / results[1].norm()) < 1e-3


def expanding(rate: float) -> tuple[FixedPointProblem, Solution, Tensor]:
    """Build z = rate · z + h + x over three tokens with h' = h / 2 + z, at its fixed point in closed form."""
    one = torch.ones(1, 1, dtype=torch.float64)
    x = torch.ones(1, 3, 1, dtype=torch.float64, requires_grad=True)
    recurrence = recurrent(rate * one, one, one, x, 0 * one, keep=0.5, form=lambda y: y)
    latent, carried = torch.zeros(1, 3, 1, dtype=torch.float64), 0.0
    for t in range(3):
        latent[0, t] = (carried + 1) / (1 - rate) if rate != 1 else 0  # then there is none
        carried = carried / 2 + latent[0, t].item()
    tokens = torch.zeros(1, 3)
    return sequence_problem(recurrence), Solution(latent, tokens.long(), tokens, tokens.to(torch.int8)), x


def test_it_is_exact_where_the_iteration_does_not_contract() -> None:
    """With Φ's own slope −3 the iterated adjoint diverges; dz_t/dx_s follows from (1 − slope) z = h + x."""
    problem, solution, x = expanding(-3.0)
    jacobian = np.eye(3) / 4
    for row in range(3):
        jacobian[row] += sum(0.5 ** (row - 1 - s) * jacobian[s] for s in range(row)) / 4
    value = FactoredImplicit().attach(problem, DampedPicard(), TIGHT, solution).value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found,) = torch.autograd.grad(uneven(value), x)
    expected = np.array([-1, 0.5, 2]) @ jacobian
    np.testing.assert_allclose(found.numpy().ravel(), expected, rtol=1e-13)  # a few operations in float64

    iterated = Implicit(solver=DampedPicard(1.0)).attach(problem, DampedPicard(1.0), TIGHT, solution).value
    with pytest.warns(NotConvergedWarning, match="not exact"):
        torch.autograd.grad(uneven(iterated), x)


def test_a_singular_token_is_told() -> None:
    problem, solution, x = expanding(1.0)
    value = FactoredImplicit().attach(problem, DampedPicard(), TIGHT, solution).value
    with pytest.warns(
        NotConvergedWarning, match=r"3 of 3 tokens leave more than 0\.001 of it; I − ∂zΦ is nearly"
    ):
        torch.autograd.grad(value.sum(), x)


def test_refusals() -> None:
    problem = FixedPointProblem(torch.cos)
    with pytest.raises(InputError, match=r"this problem has no factors for it, give Implicit here"):
        solve_with_gradient(problem, DampedPicard(), Stopping(), torch.zeros(1, 1, 1), FactoredImplicit())
    with pytest.raises(InputError, match=r"rtol is 0\.0; give a number above 0"):
        FactoredImplicit(rtol=0.0)


def test_memory_does_not_grow_with_the_iterations() -> None:
    def kept(iterations: int) -> int:
        leaves, stopping = parameters(), Stopping(0.0, 0.0, iterations)
        arguments = DampedPicard(1.0), stopping, FactoredImplicit(), torch.zeros_like(leaves[3])
        return kept_for_backward(lambda: solve_simultaneously(recurrent(*leaves), *arguments))

    assert kept(10) == kept(200) > 0
