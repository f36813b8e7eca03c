"""Whole cells on balls against FLINT at 256 bits: the values at random points, and the mean value theorem.

For two points x and y of a box there is a matrix J in the enclosure of the derivatives, entry by entry, with
f(y) − f(x) = J (y − x); and so the enclosure, times y − x in FLINT's balls, has to hold the difference.
"""

from collections.abc import Callable, Iterator
from typing import Any

import flint
import numpy as np
import pytest
import torch
from flint import arb
from torch.nn import functional

from theory.rigorous.balls import Ball
from theory.rigorous.tensors import EnclosedTensor

SIZE = 4
BOXES = 60
GENERATOR = np.random.default_rng(0)
A, B, C = (GENERATOR.normal(size=(SIZE, SIZE)) for _ in range(3))
b = GENERATOR.normal(size=SIZE)
Vector = list[arb]


def _apply(matrix: Any, x: Vector) -> Vector:
    return [sum((arb(float(m)) * e for m, e in zip(row, x, strict=True)), arb(0)) for row in matrix]


def _sigmoid(x: arb) -> arb:
    return 1 / (1 + (-x).exp())


def gru(x: Any) -> Any:
    keep = torch.sigmoid(torch.from_numpy(A) @ x)
    new = torch.tanh(functional.linear(torch.sigmoid(torch.from_numpy(B) @ x) * x, torch.from_numpy(C)) + b_)
    return keep * x + (1 - keep) * new


def gru_exact(x: Vector) -> Vector:
    keep = [_sigmoid(e) for e in _apply(A, x)]
    reset = [_sigmoid(e) * h for e, h in zip(_apply(B, x), x, strict=True)]
    new = [(e + arb(float(c))).tanh() for e, c in zip(_apply(C, reset), b, strict=True)]
    return [k * h + (1 - k) * n for k, h, n in zip(keep, x, new, strict=True)]


def attention(x: Any) -> Any:
    """Softmax of scores over three vectors, read out and normalised."""
    scores = torch.softmax(torch.from_numpy(A[:3]) @ x, dim=-1)
    read = scores @ torch.from_numpy(B[:3])
    return read * torch.rsqrt(read.square().mean() + 0.125) + functional.gelu(x)


def attention_exact(x: Vector) -> Vector:
    powers = [e.exp() for e in _apply(A[:3], x)]
    total = sum(powers, arb(0))
    read = _apply(B[:3].T, [p / total for p in powers])
    scale = (sum((e * e for e in read), arb(0)) / SIZE + arb(0.125)).rsqrt()
    return [r * scale + e * (1 + (e / arb(2).sqrt()).erf()) / 2 for r, e in zip(read, x, strict=True)]


def delta_rule(x: Any) -> Any:
    """S + β k (v − Sᵀ k)ᵀ with a unit key, read with softplus of x."""
    memory = torch.from_numpy(C)
    k = functional.normalize(torch.from_numpy(A) @ x + 3, dim=-1)
    beta = torch.sigmoid(x[0] + x[1])
    after = memory + beta * torch.outer(k, torch.sin(x) - memory.mT @ k)
    return torch.einsum("ij,i->j", after, functional.softplus(x)) / (1 + x.square().sum())


def delta_rule_exact(x: Vector) -> Vector:
    raw = [e + 3 for e in _apply(A, x)]
    length = sum((e * e for e in raw), arb(0)).sqrt()
    k = [e / length for e in raw]
    beta, kept = _sigmoid(x[0] + x[1]), _apply(C.T, k)
    after = [
        [arb(float(C[i, j])) + beta * k[i] * (x[j].sin() - kept[j]) for j in range(SIZE)] for i in range(SIZE)
    ]
    read = [e.exp().log1p() for e in x]
    divisor = 1 + sum((e * e for e in x), arb(0))
    return [sum((after[i][j] * read[i] for i in range(SIZE)), arb(0)) / divisor for j in range(SIZE)]


b_ = torch.from_numpy(b)
CELLS: dict[str, tuple[Callable[[Any], Any], Callable[[Vector], Vector]]] = {
    "GRU": (gru, gru_exact),
    "attention, norm and GELU": (attention, attention_exact),
    "delta rule": (delta_rule, delta_rule_exact),
}


@pytest.fixture(autouse=True)
def _precision() -> Iterator[None]:
    before = flint.ctx.prec
    flint.ctx.prec = 256
    yield
    flint.ctx.prec = before


@pytest.mark.parametrize("radius", [0.0, 2.0**-40, 2.0**-12])
@pytest.mark.parametrize("name", CELLS)
def test_values_and_differences(name: str, radius: float) -> None:
    function, exact = CELLS[name]
    generator = np.random.default_rng(1)
    centre = generator.normal(size=(BOXES, SIZE))
    seed = Ball.exact(np.broadcast_to(np.eye(SIZE), (BOXES, SIZE, SIZE)).copy())
    found = function(EnclosedTensor(Ball.around(centre, radius), seed))
    for box in range(BOXES):
        points = [
            [arb(float(c)) + arb(radius) * arb(float(s)) for c, s in zip(centre[box], signs, strict=True)]
            for signs in generator.uniform(-1, 1, (2, SIZE))
        ]
        images = [exact(point) for point in points]
        for image in images:
            for j, value in enumerate(image):
                middle, bound = found.value.midpoint[box, j], found.value.radius[box, j]
                assert abs(value - arb(float(middle))) <= arb(float(bound))
        moved = [y - x for x, y in zip(*points, strict=True)]
        for j in range(SIZE):
            middles, bounds = found.tangent.midpoint[box, :, j], found.tangent.radius[box, :, j]
            terms = zip(middles, bounds, moved, strict=True)
            product = sum((arb(float(m), float(r)) * e for m, r, e in terms), arb(0))
            assert (product - (images[1][j] - images[0][j])).contains(0)


@pytest.mark.parametrize("name", CELLS)
def test_radii_are_those_of_the_derivatives(name: str) -> None:
    """Over a small box the values vary by |J| r; ours is wider, as the same x enters many times."""
    function, _ = CELLS[name]
    centre, radius = np.random.default_rng(2).normal(size=(BOXES, SIZE)), 2.0**-20
    seed = Ball.exact(np.broadcast_to(np.eye(SIZE), (BOXES, SIZE, SIZE)).copy())
    found = function(EnclosedTensor(Ball.around(centre, radius), seed))
    least = np.abs(found.tangent.midpoint).sum(1) * radius
    assert (found.value.radius >= least * (1 - 1e-3)).all()
    assert np.median(found.value.radius / least) < 25
