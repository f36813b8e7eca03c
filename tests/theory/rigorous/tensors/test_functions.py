"""One code, two readings: on balls every function holds PyTorch's values and Jacobians at points inside."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import jacrev
from torch.nn import functional

from automata.errors import InputError
from theory.rigorous.balls import Ball
from theory.rigorous.tensors import EnclosedTensor

SIZE = 6
GENERATOR = torch.Generator().manual_seed(0)
W = torch.randn(4, SIZE, generator=GENERATOR, dtype=torch.float64)
V = torch.randn(SIZE, generator=GENERATOR, dtype=torch.float64)
STACK = torch.randn(2, 3, 3, generator=GENERATOR, dtype=torch.float64)
TABLE = torch.randn(5, SIZE, generator=GENERATOR, dtype=torch.float64)
MASK = torch.tensor([True, False, True, True, False, False])

CASES: dict[str, Callable[[Any], Any]] = {
    "sum of constants": lambda x: 2 + x + V - 3.5,
    "rsub": lambda x: 1 - x + (V - x) + torch.rsub(x, 2.0),
    "alpha": lambda x: torch.add(x, V, alpha=2) + torch.sub(V, x, alpha=0.5),
    "product": lambda x: 2 * x * V * x.flip(0),
    "broadcasting": lambda x: (x[:, None] * x[None, :3] + V[:3]).flatten(),
    "quotient": lambda x: x / (x * x + 1) + V / (x + 9) + 1 / (x + 9) + x / 3,
    "negative": lambda x: -x + torch.neg(x),
    "square": lambda x: x.square() + x**2 + torch.pow(x, 3) + x**0 + x**1,
    "powers": lambda x: (x + 9) ** -2 + (x + 9) ** 0.5 + (x + 9) ** -0.5 + (x + 9) ** 1.5 + (x + 9).pow(V),
    "powers of numbers": lambda x: 2**x + torch.pow(3.0, x) + torch.tensor(0.5, dtype=torch.float64) ** x,
    "exp": lambda x: torch.exp(x) + x.exp() + torch.expm1(x),
    "log": lambda x: (x + 9).log() + torch.log1p(x + 8),
    "roots": lambda x: (x + 9).sqrt() + torch.rsqrt(x + 9) + (x + 9).reciprocal(),
    "tanh": lambda x: torch.tanh(x) + x.tanh(),
    "sigmoid": lambda x: torch.sigmoid(x) + torch.special.expit(2 * x),
    "logsigmoid": functional.logsigmoid,
    "softplus": lambda x: functional.softplus(x) + functional.softplus(x, beta=2.0),
    "silu": lambda x: functional.silu(x) + nn.SiLU()(x),
    "gelu": lambda x: functional.gelu(x) + functional.gelu(x, approximate="tanh") + nn.GELU()(x),
    "erf": lambda x: torch.erf(x) + x.erf(),
    "sin and cos": lambda x: torch.sin(x) + x.cos(),
    "relu": lambda x: functional.relu(x) + torch.relu(x) + nn.ReLU()(x),
    "clamp": lambda x: torch.clamp(x, -0.5, 0.7) + x.clamp(min=0.2) + x.clamp_min(0.3) + x.clip(max=0.4),
    "bounds": lambda x: x.clamp(V, V + 0.3) + torch.clamp(x, max=V) * x.clamp_max(0.1).clamp(min=x.flip(0)),
    "extremes": lambda x: torch.minimum(x, V) + x.max(1 - x) + torch.max(V, x) + x.flip(0).min(x * x),
    "abs": lambda x: x.abs() + torch.abs(x) + abs(x),
    "softmax": lambda x: torch.softmax(x, 0) + functional.softmax(x.view(2, 3), dim=-1).flatten(),
    "sums": lambda x: torch.stack([x.sum(), x.mean(), torch.sum(x, dim=0), x.view(2, 3).sum((0, 1))]),
    "sums kept": lambda x: (
        x.view(2, 3).sum(-1, keepdim=True) * x.view(2, 3).mean(0, keepdim=True)
    ).flatten(),
    "norms": lambda x: torch.stack(
        [torch.linalg.vector_norm(x), x.norm(), torch.norm(x, p=2), torch.linalg.vector_norm(x, ord=1)]
    ),
    "normalize": lambda x: functional.normalize(x, dim=0),
    "rms norm": lambda x: functional.rms_norm(x, (SIZE,), V, eps=1e-5),
    "layer norm": lambda x: functional.layer_norm(x.view(2, 3), (3,), V[:3], V[3:], eps=1e-3).flatten(),
    "linear": lambda x: functional.linear(x, W, V[:4]) + W @ x + x @ W.mT + torch.mv(W, x),
    "rows": lambda x: (x.view(2, 3) @ STACK[0] + functional.linear(x.view(2, 3), STACK[1])).flatten(),
    "matrix products": lambda x: (STACK[0] @ x.view(3, 2) @ x.view(2, 3)).flatten(),
    "batched products": lambda x: (STACK @ x.view(2, 3, 1) + torch.bmm(STACK, x.view(2, 3, 1))).flatten(),
    "batch from the right": lambda x: (x.view(2, 1, 3) @ STACK).flatten(),
    "inner product": lambda x: (x @ x + torch.dot(x, V))[None],
    "sum and product": lambda x: torch.addmv(V[:4], W, x, beta=2, alpha=0.5) + V[:4].addmv(W, x),
    "sum and matrix product": lambda x: torch.addmm(x.view(2, 3), x.view(2, 3), STACK[0]).flatten(),
    "sums and products": lambda x: torch.addcmul(
        V, x, torch.baddbmm(V.view(2, 3, 1), STACK, x.view(2, 3, 1)).flatten(), value=3
    ),
    "padding": lambda x: functional.pad(x.view(2, 3), (1, 0, 0, 2), value=3.0).flatten() * x.repeat(3)[:16],
    "circle": lambda x: functional.pad(x.view(2, 3), (2, 1), mode="circular").flatten() * x.repeat(2),
    "triangles": lambda x: x.view(2, 3).tril(1).flatten() + torch.outer(x, x).triu().diag() + x.diag()[1],
    "masks": lambda x: x.masked_fill(MASK, 2) + x.where(MASK, 3 * x) * functional.pad(x, (-1, 1)),
    "outer": lambda x: torch.outer(x, x[:2]).flatten(),
    "einsum": lambda x: torch.einsum("i,ij,kj->k", x[:3], STACK[0], x.view(2, 3)),
    "einsum to a matrix": lambda x: torch.einsum("ij,kj->ki", x.view(2, 3), x.view(2, 3)).flatten(),
    "einsum without an arrow": lambda x: torch.einsum("ij,j", x.view(2, 3), V[:3]),
    "cat and stack": lambda x: torch.cat([x, V, torch.stack([x, x]).flatten(), x[1:3]]),
    "pieces": lambda x: torch.cat([*x.chunk(2), *torch.split(x, [1, 5]), *x.split(2)]),
    "indices": lambda x: torch.cat(
        [x[[2, 0]], x[MASK], x[None, -1], x[..., 1:5:2], x.view(2, 3)[:, [2, 0]].flatten()]
    ),
    "shapes": lambda x: x.reshape(3, 2).mT.flatten() + x.unflatten(0, (2, 3)).permute(1, 0).reshape(-1),
    "more shapes": lambda x: (x.unsqueeze(-1).expand(SIZE, 2) + x.view(6, 1)).transpose(0, 1).flatten(),
    "repetition": lambda x: torch.cat(
        [x.repeat(2), x.repeat_interleave(2), x.view(2, 3).repeat(1, 2).flatten()]
    ),
    "other moves": lambda x: torch.roll(x, 2) + torch.flip(x, [0]) + x.gather(0, torch.arange(6).flip(0)),
    "iteration": lambda x: sum(x)[None] + torch.stack(list(x)),
    "where": lambda x: torch.where(MASK, x, 2 * x) + torch.where(MASK, x, 0.0),
    "lerp": lambda x: torch.lerp(x, V, 0.3) + torch.lerp(x, V, torch.sigmoid(x)),
    "types": lambda x: x.double().to(torch.float64).contiguous().clone().type_as(V),
    "new arrays": lambda x: (
        x + torch.zeros_like(x) + torch.ones_like(x) + x.new_zeros(SIZE) + x.new_ones(SIZE)
    ),
    "filled arrays": lambda x: torch.full_like(x, 2) * x * x.new_full((6,), 3.0) + x.new_tensor(V.tolist()),
    "embedding": lambda x: x * functional.embedding(torch.tensor(3), TABLE),
    "dropout": lambda x: functional.dropout(x, 0.5, training=False) + nn.Dropout(0.0)(x),
    "gates": lambda x: torch.sigmoid(W[:3] @ x) * torch.tanh(x[:3]) + (1 - torch.sigmoid(W[:3] @ x)) * x[3:],
}


@pytest.mark.parametrize("function", CASES.values(), ids=CASES)
def test_values_and_jacobian_at_points_of_a_ball(function: Callable[[Any], Any]) -> None:
    generator = torch.Generator().manual_seed(1)
    centre = torch.randn(3, SIZE, generator=generator, dtype=torch.float64) * 2
    radius = 1e-3
    seed = Ball.exact(np.broadcast_to(np.eye(SIZE), (3, SIZE, SIZE)).copy())
    found = EnclosedTensor.constant(function(EnclosedTensor(Ball.around(centre.numpy(), radius), seed)))
    assert found.tangent is not None
    for _ in range(4):
        signs = 2 * torch.rand(centre.shape, generator=generator, dtype=torch.float64) - 1
        inside = centre + radius * signs
        for position, x in enumerate(inside):
            value, slopes = function(x).numpy(), jacrev(function)(x).numpy()  # [outputs, SIZE]
            assert tuple(found.shape) == value.shape
            middle, bound = found.value.midpoint[position], found.value.radius[position]
            # 1e-12: the rounding of the float64 reference
            assert (np.abs(value - middle) <= bound + 1e-12).all()
            middle, bound = found.tangent.midpoint[position], found.tangent.radius[position]
            assert (np.abs(slopes.T - middle) <= bound + 1e-12).all()
            assert (bound < 0.5).all()


REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "no form": (torch.round, "torch.round has no form on balls"),
    "method": (lambda x: x.cumsum(0), "torch.cumsum has no form on balls"),
    "condition": (lambda x: x if x.sum() > 0 else -x, "a condition, an index or a conversion"),
    "equality": (lambda x: x if x[0] == 0 else -x, "a condition, an index or a conversion"),
    "comparison": (lambda x: torch.where(x > 0, x, -x), "a condition, an index or a conversion"),
    "of a tensor": (lambda x: torch.gt(V, x), "torch.gt has no form on balls"),
    "maximum": (lambda x: max(x[0], x[1]), "a condition, an index or a conversion"),
    "number": (lambda x: x * float(x[0]), "a condition, an index or a conversion"),
    "item": (lambda x: x[0].item(), "a condition, an index or a conversion"),
    "numpy": (np.asarray, "a condition, an index or a conversion"),
    "tensor": (lambda x: torch.tensor([x[0], x[1]]), "a condition, an index or a conversion"),
    "index": (lambda x: V[x], "has no form on balls|index is known only"),
    "own index": (lambda x: x[x], "index is known only up to a radius"),
    "integers": (lambda x: x.to(torch.int64), "dtype is torch.int64"),
    "integer sum": (lambda x: x.sum(dtype=torch.int64), "dtype is torch.int64"),
    "bits": (lambda x: x.view(torch.float32), "has no form on balls"),
    "rounding mode": (lambda x: torch.div(x, 2, rounding_mode="floor"), "div has no form on balls with"),
    "in place of a constant": (lambda x: torch.zeros(SIZE).add_(x), "torch.add_ writes balls into"),
    "into a constant": (lambda x: torch.zeros(SIZE).__setitem__(0, x[0]), "__setitem__ writes balls into"),
    "largest": (lambda x: x.max(0), "give two tensors"),
    "out": (lambda x: torch.cat([x, x], out=torch.zeros(2 * SIZE)), "with out= has no form on balls"),
    "in place at random": (lambda x: x.normal_(), "torch.normal_ has no form on balls"),
    "another shape in place": (lambda x: x.unsqueeze_(0), "torch.unsqueeze_ has no form on balls"),
    "expanded": (lambda x: x.expand(2, SIZE).add_(1.0), "writes one number twice"),
    "other norms": (lambda x: x.norm(p=3), "ord is 3"),
    "random": (functional.dropout, "dropout is random in training"),
    "no epsilon": (lambda x: functional.rms_norm(x, (SIZE,)), "eps is None in rms_norm"),
    "complex numbers": (lambda x: x * torch.ones(SIZE, dtype=torch.complex64), "complex"),
    "softplus with a threshold": (
        lambda x: functional.softplus(x, threshold=-1e9),
        r"softplus has threshold -1e\+09, from which on it is x",
    ),
    "ellipsis": (lambda x: torch.einsum("...i,...i->...", x, x), "name every index"),
}


@pytest.mark.parametrize(("function", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_has_no_form_is_named(function: Callable[[Any], Any], sentence: str) -> None:
    x = EnclosedTensor(Ball.around(np.ones((1, SIZE)), 0.1), Ball.exact(np.eye(SIZE)[None]))
    with pytest.raises(InputError, match=sentence):
        function(x)


def _in_place(change: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """A function of 2 SIZE numbers: what is left of an array of its own, which the change is done to."""

    def function(x: Any) -> Any:
        h, z = torch.stack([x[:SIZE], x[SIZE:]]) * 1, x[:SIZE] * 2
        left = change(h, z)
        return torch.cat([h.reshape(-1), left.reshape(-1)])

    return function


IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "operators": lambda h, z: [v := h, v.__isub__(z), v.__imul__(z), v.__itruediv__(3), v.__ipow__(2)][0],
    "methods": lambda h, z: h.exp_().sub_(z, alpha=2).clamp_(max=0.4).tanh_(),
    "copy": lambda h, z: [v := h[1], v.copy_(z * v), h[0].fill_(2.0), h.T[0].zero_()][0],
    "entries": lambda h, z: [h.T.__setitem__((slice(None), 1), z), h.__setitem__((0, 1), h[1, 0] * 1), h][2],
    "mask": lambda h, z: h.__setitem__(torch.tensor([True, False]), z) or h,
    "data": lambda h, z: h.data.mul_(z),
    "detached": lambda h, z: h.detach().add_(z),
    "parts": lambda h, z: [p := h.unbind(0), p[0].add_(z), h.chunk(2)[1].mul_(p[0]), h.split(1)[0].neg_()][1],
    "a view changes with its base": lambda h, z: [h.view(-1)[2:5], h.mul_(z)][0],
    "a copy does not": lambda h, z: [c := h.clone(), h.add_(z[0]), c.add_(1.0)][0] * h,
    "what is left of a view or copy": lambda h, z: (h * 2).T.reshape(-1).double().add_(z[0]),
    "the same array": lambda h, z: [functional.dropout(h, 0.1, False).add_(z), h.positive().mul_(z), +h][2],
    "new": lambda h, z: [y := h.new_zeros(2, 6), y[0].add_(z), y.__setitem__((1, 1), h[1, 0]), y.mul_(h)][0],
    "nothing dropped": lambda h, z: functional.dropout(h, 0.0).add_(torch.diag(torch.outer(z, z)).mul_(z)),
    "filled": lambda h, z: [functional.pad(h, (0, 0)).mul_(z), h.tril().sub_(z), h.masked_fill_(MASK, 2)][2],
    "a copied object": lambda h, z: [copy.copy(h).mul_(z), copy.deepcopy(h).add_(1.0)][1],
    "activations": lambda h, z: functional.silu(functional.relu(h.sub_(z), inplace=True), inplace=True),
}


@pytest.mark.parametrize("change", IN_PLACE.values(), ids=IN_PLACE)
def test_in_place_operators_change_all_that_shares_the_numbers(change: Callable[[Any, Any], Any]) -> None:
    function = _in_place(change)
    x = torch.linspace(-0.9, 1.1, 2 * SIZE, dtype=torch.float64)
    found = function(EnclosedTensor(Ball.exact(x.numpy()[None]), Ball.exact(np.eye(2 * SIZE)[None])))
    np.testing.assert_allclose(found.value.midpoint[0], function(x).numpy(), rtol=1e-12, atol=1e-14)
    step = 1e-6 * torch.eye(2 * SIZE, dtype=torch.float64)
    slopes = torch.stack([(function(x + e) - function(x - e)) / 2e-6 for e in step])
    np.testing.assert_allclose(found.tangent.midpoint[0], slopes.numpy(), atol=1e-7)  # central differences


VIEW_OR_COPY: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda h: h.T.reshape(-1),
    "reshape as": lambda h: h.reshape_as(torch.zeros(2, SIZE)),
    "flatten": lambda h: h.flatten(),
    "ravel": lambda h: h.T.ravel(),
    "contiguous": lambda h: h.T.contiguous(),
    "the same type": lambda h: h.double(),
    "two types": lambda h: h.float().to(torch.float64),
    "einsum of one": lambda h: torch.einsum("ij->ji", h),
}


@pytest.mark.parametrize("take", VIEW_OR_COPY.values(), ids=VIEW_OR_COPY)
def test_what_may_be_a_view_or_a_copy_is_not_written(take: Callable[[Any], Any]) -> None:
    h: Any = EnclosedTensor(Ball.exact(np.ones((1, 2, SIZE))))
    taken, view = take(h), h[0]
    for written in (taken, h, view, taken[0]):
        with pytest.raises(InputError, match="a view or a copy, by their strides or type"):
            written *= 2
    del h, view, written
    taken *= 2
    assert (taken.value.midpoint == 2).all()


def test_the_derivative_is_that_of_the_value_where_autograd_is_told_another() -> None:
    """A straight-through function has one derivative in PyTorch and its own on balls."""
    x = EnclosedTensor(Ball.exact([[0.5]]), Ball.exact([[[1.0]]]))

    def straight_through(t: Any) -> Any:
        return t + (torch.tanh(t) - t).detach()

    found = straight_through(x)
    assert jacrev(straight_through)(torch.tensor([0.5], dtype=torch.float64)).item() == 1.0
    assert found.tangent is not None
    assert found.tangent.contains(1 - np.tanh(0.5) ** 2)
    assert found.tangent.radius.max() < 1e-12


@pytest.mark.parametrize(
    "function",
    [torch.relu, torch.abs, lambda x: x.clamp(-1, 1) + x.clamp(0, 2), torch.sqrt, torch.rsqrt, torch.log],
)
def test_at_a_kink_or_the_end_of_a_domain_no_derivative_is_claimed(function: Callable[[Any], Any]) -> None:
    x = EnclosedTensor(Ball.around([[0.0]], 1e-3), Ball.exact([[[1.0]]]))
    with np.errstate(all="ignore"):
        tangent = function(x).tangent
        # The derivative of x² at 0 is exactly zero, and the product with an infinite one is no number.
        at_zero: Any = EnclosedTensor(Ball.exact([[0.0]]), Ball.exact([[[1.0]]])).square().sqrt().tangent
    assert not (tangent.radius < np.inf).any()
    assert not (np.abs(at_zero.midpoint) <= np.inf).any()


def test_functions_of_what_is_not_defined_stay_undefined() -> None:
    with np.errstate(all="ignore"):
        undefined: Any = EnclosedTensor(Ball.around([[0.0]], 1.0))
        nothing = 1 / undefined
        functions: list[Callable[[Any], Any]] = [torch.tanh, torch.sin, torch.sigmoid, torch.abs, torch.erf]
        for function in (*functions, lambda x: x.clamp(0, 1)):
            assert not (function(nothing).value.radius < np.inf).any()


def test_constants_have_no_derivative_and_stay_exact() -> None:
    weight = EnclosedTensor.constant(torch.tensor([0.1, 0.2]))
    assert weight.tangent is None
    assert weight.value.midpoint.tolist() == [[float(np.float32(0.1)), float(np.float32(0.2))]]
    assert weight.value.radius.max() == 0
    with pytest.raises(InputError, match="integers to 2"):
        EnclosedTensor.constant(torch.tensor([2**60]))


def test_a_module_runs_as_it_is() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(SIZE, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 2), nn.Softplus())
    x = torch.randn(SIZE)
    found = module(EnclosedTensor(Ball.exact(x.double().numpy()[None])))
    expected: Tensor = module.double()(x.double())
    np.testing.assert_allclose(found.value.midpoint[0], expected.detach().numpy(), rtol=1e-12)
    assert found.value.radius.max() < 1e-10


def test_a_copied_constant_is_not_the_constant() -> None:
    h: Any = EnclosedTensor(Ball.exact(np.ones((1, 2))))
    constant = torch.ones(2, dtype=torch.float64)
    for copied in (constant.to(h, copy=True), constant.to(h, False, True)):
        copied.add_(1)
    assert constant.tolist() == [1, 1]
