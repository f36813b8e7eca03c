"""`implicit.fixed_point` of functions on pytrees: values in closed form, gradients by gradcheck."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import implicit
from automata.errors import InputError
from implicit import Anderson, NotConvergedWarning, Phantom, Status, Stopping
from implicit.fixed_point import FixedPointError
from tests.refusals import refusals

TIGHT = Stopping(rtol=1e-13)
fixed_point: Any = implicit.fixed_point


def draw(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_linear_tree_and_its_exact_gradient_in_closed_over_tensors() -> None:
    """z = A z + b over a dictionary with a tuple in it has z = (I − A)⁻¹ b."""
    a, b = 0.3 * draw(5, 5) / 5**0.5, draw(5)

    def value(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        def f(z: dict[str, Any]) -> dict[str, Any]:
            whole = a @ torch.cat([z["one"].flatten(), *z["pair"]]) + b
            return {"pair": (whole[2:3], whole[3:]), "one": whole[:2].view(2, 1)}  # in another order

        zero = torch.zeros(3).double()
        start = {"one": zero[:2, None], "pair": (zero[:1], zero[:2])}
        found = fixed_point(f, start, stopping=TIGHT)
        assert found.require_converged() is found
        return found.value["one"], *found.value["pair"]

    found = torch.cat([part.flatten() for part in value(a, b)])
    expected = torch.linalg.solve(torch.eye(5).double() - a, b)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-12)  # 1e-13 over a contraction
    # gradcheck's tolerances: differences of 1e-6 of solutions exact to 1e-13
    assert torch.autograd.gradcheck(value, [a.requires_grad_(), b.requires_grad_()])


def test_parameters_of_a_module_get_their_gradient_and_a_rule_may_be_given() -> None:
    layer, x = contraction(), draw(3, 4)

    def gradient(**options: Any) -> Tensor:
        z = fixed_point(lambda z: torch.tanh(layer(z)) + x, torch.zeros_like(x), **options).value
        return torch.autograd.grad(z.square().sum(), layer.weight)[0]

    exact = gradient(stopping=TIGHT)
    torch.testing.assert_close(gradient(stopping=TIGHT, solver=Anderson()), exact, rtol=1e-8, atol=1e-9)
    assert (gradient(stopping=TIGHT, gradient=Phantom(1)) - exact).norm() > 0.1 * exact.norm()


def contraction() -> nn.Linear:
    torch.manual_seed(0)
    mix = nn.Linear(4, 4).double()
    nn.init.orthogonal_(mix.weight, 0.9)
    return mix


def equilibrium(mix: nn.Linear, x: Tensor) -> Tensor:
    return fixed_point(lambda z: torch.tanh(mix(z) + x), torch.zeros_like(x), stopping=TIGHT).value


def rebound(mix: nn.Linear, x: Tensor) -> Tensor:
    """Compute the same with a name that is given anew, in a loop, before the backward pass."""
    for _ in range(2):
        x = fixed_point(
            lambda z: torch.tanh(mix(z) + x),  # noqa: B023 (what is tested)
            torch.zeros_like(x),
            stopping=TIGHT,
        ).value
    return x


class Remembering(nn.Module):
    """Computes the same with its input as an attribute."""

    def __init__(self, mix: nn.Linear) -> None:
        super().__init__()
        self.mix = mix

    def function(self, z: Tensor) -> Tensor:
        return torch.tanh(self.mix(z) + self.x)

    def forward(self, x: Tensor) -> Tensor:
        self.x = x
        return fixed_point(self.function, torch.zeros_like(x), stopping=TIGHT).value


def remembered(mix: nn.Linear, x: Tensor) -> Tensor:
    module = Remembering(mix)
    return module(module(x))


def exchanged(mix: nn.Linear, x: Tensor) -> Tensor:
    """Compute the same with weights that are the module's for the forward pass alone."""
    module = Remembering(nn.Linear(4, 4).double())
    weights: dict[str, Tensor] = {f"mix.{name}": weight for name, weight in mix.named_parameters()}
    return torch.func.functional_call(module, weights, (torch.func.functional_call(module, weights, (x,)),))


@pytest.mark.parametrize("changed", [rebound, remembered, exchanged])
@pytest.mark.parametrize("checkpointed", [False, True], ids=["", "checkpointed"])
def test_the_gradient_is_that_of_the_forward_pass_whatever_changes_before_the_backward_pass(
    changed: Callable[[nn.Linear, Tensor], Tensor], *, checkpointed: bool
) -> None:
    mix, x = contraction(), draw(3, 4).requires_grad_()
    leaves = [*mix.parameters(), x]
    expected = torch.autograd.grad(equilibrium(mix, equilibrium(mix, x)).square().sum(), leaves)
    value = checkpoint(changed, mix, x, use_reentrant=False) if checkpointed else changed(mix, x)
    for found, one in zip(torch.autograd.grad(value.square().sum(), leaves), expected, strict=True):
        torch.testing.assert_close(found, one, rtol=1e-10, atol=1e-11)  # solves to 1e-13


def test_a_checkpointed_solve_is_computed_again_once_or_twice() -> None:
    mix, x, solves = contraction(), draw(3, 4), []

    def counted(x: Tensor) -> Tensor:
        solves.append(1)
        return equilibrium(mix, x)

    checkpoint(counted, x.requires_grad_(), use_reentrant=False).sum().backward()
    assert len(solves) <= 3


def test_independent_problems_stop_by_themselves() -> None:
    rate = torch.tensor([[0.1], [0.9]])
    found = fixed_point(lambda z: rate * z + 1, torch.zeros(2, 1), batched=True)
    assert found.iterations[0] < found.iterations[1]
    alone = fixed_point(lambda z: 0.1 * z + 1, torch.zeros(1, 1), batched=True)
    assert torch.equal(found.value[:1], alone.value)


def test_what_did_not_converge_is_told() -> None:
    with pytest.warns(NotConvergedWarning, match="no fixed point reached for 1 of 1: the iteration limit"):
        found = fixed_point(lambda z: -2 * z + 1, torch.zeros(2), stopping=Stopping(max_iterations=9))
    assert found.status.tolist() == [Status.MAX_ITERATIONS]
    with pytest.raises(FixedPointError, match="no fixed point reached"):
        found.require_converged()


test_what_does_not_fit_is_refused_in_a_sentence = refusals(
    (lambda: fixed_point(torch.cos, {}), "^start holds no tensor; give"),
    (lambda: fixed_point(torch.cos, 1.0), "^start is 1.0; give a tensor"),
    (lambda: fixed_point(torch.cos, torch.zeros(0)), r"^start has shape \(0,\), without an element"),
    (lambda: fixed_point(torch.cos, torch.zeros(0, 3), batched=True), r"^start has shape \(0, 3\),"),
    (lambda: fixed_point(torch.cos, torch.zeros(2).long()), "^start holds a tensor of"),
    (lambda: fixed_point(tuple, (torch.zeros(1), draw(1))), "^start holds torch.float32 on cpu and"),
    (lambda: fixed_point(torch.cos, torch.zeros(()), batched=True), r"^start holds shapes \(\) and"),
    (lambda: fixed_point(lambda z: [z], torch.zeros(2)), "^function returned "),
    (lambda: fixed_point(lambda z: z[:1], torch.zeros(2)), r"^function returned shape \(1,\); it"),
    (lambda: fixed_point(lambda z: z.mul_(0.5), torch.zeros(2)), "^function changes z in place"),
    (lambda: fixed_point("cos", torch.zeros(2)), "^function is 'cos'; give"),
    (lambda: fixed_point(torch.cos, torch.zeros(2), stopping=1e-3), "^stopping is 0.001; give"),
)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")
def test_transforms_differentiate_where_the_value_is_found_at_once() -> None:
    """At z* = 0 no step leads from zero to it, and derivatives take many; also at one of two fixed points."""
    w = torch.tensor([[0.5, 0.3], [0.1, 0.2]], dtype=torch.float64)

    zero, one = torch.zeros(2, dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def at_rest(x: Tensor) -> Tensor:
        return fixed_point(lambda z: torch.tanh(w @ z) + x, zero).value

    exact = torch.linalg.inv(torch.eye(2, dtype=torch.float64) - w)
    for transform in (torch.func.jacrev, torch.func.jacfwd):
        torch.testing.assert_close(transform(at_rest)(zero), exact, rtol=1e-3, atol=0)

    def root(a: Tensor) -> Tensor:
        return fixed_point(lambda z: z - (z**3 - a * z) / 10, one).value

    a = torch.tensor(1.5, dtype=torch.float64)
    torch.testing.assert_close(torch.func.grad(root)(a), a.rsqrt() / 2, rtol=1e-3, atol=0)


def test_a_slow_direction_that_starts_at_its_fixed_point_is_followed() -> None:
    slope = torch.tensor([0.01, 0.95], dtype=torch.float64)

    def second(t: Tensor) -> Tensor:
        shift = torch.stack([torch.ones_like(t), t])
        return fixed_point(lambda z: slope * z + shift, torch.zeros_like(slope)).value[1]

    torch.testing.assert_close(torch.func.grad(second)(slope.new_zeros(())).item(), 20.0, rtol=2e-3, atol=0)


def test_the_gradient_does_not_depend_on_the_units_of_the_loss() -> None:
    """An absolute tolerance has the units of z, which are not those of the adjoint."""
    a = torch.tensor(0.9, requires_grad=True)
    absolute = Stopping(rtol=0, atol=1e-4)
    value = fixed_point(lambda z: a * z + 1, torch.zeros(()), stopping=absolute).value
    large, small = (torch.autograd.grad(s * value, a, retain_graph=True)[0] / s for s in (1.0, 1e-6))
    torch.testing.assert_close(small, large, rtol=1e-5, atol=0)
    torch.testing.assert_close(large.item(), 100.0, rtol=2e-3, atol=0)


def test_a_gradient_of_a_gradient_is_refused_also_in_what_follows_the_solve() -> None:
    x, w = (torch.tensor(value, requires_grad=True) for value in (0.5, 2.0))
    loss = fixed_point(lambda z: z / 2 + x, torch.zeros(())).value * w
    (slope,) = torch.autograd.grad(loss, x, create_graph=True)
    with pytest.raises(InputError, match="second derivative"):
        torch.autograd.grad(loss + slope**2, w)


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad:UserWarning")  # in the solve
def test_reentrant_checkpoints_inside_are_refused() -> None:
    """They hide their parameters from the graph; without a word these would get no gradient."""
    layer = nn.Linear(4, 4)
    nn.init.orthogonal_(layer.weight, 0.5)
    inner = lambda z: torch.tanh(checkpoint(layer, z, use_reentrant=True)) + 1  # noqa: E731
    found = fixed_point(inner, torch.zeros(4))
    with pytest.raises(RuntimeError, match="use_reentrant=True"):
        found.value.sum().backward()
