"""Arrays of balls with derivatives, and PyTorch's functions on them, each called as PyTorch's own is.

`Numbers` are balls at T positions with derivatives in m directions. Both have no axis of their own for the
code that computes with the numbers: it sees the shape at one of them, as under ``torch.func.vmap``. Inside, T
stands first and m after it.

All stand for functions of real numbers: a change of the floating-point type does nothing, ``detach`` does
nothing (the derivative is that of the value), softplus is log(1 + e^x) for every x. PyTorch itself
rearranges entries, on their numbers.
"""

from __future__ import annotations

import math
import operator
import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Self

import numpy as np
import torch

from automata.errors import InputError
from theory.rigorous.balls import functions
from theory.rigorous.balls.ball import Ball, concatenate
from theory.rigorous.balls.functions import RULES, Function


@dataclass(frozen=True, eq=False)
class Numbers:
    """Balls with balls for their derivatives."""

    value: Ball  # [T, *shape]; T may be 1 for what is the same everywhere
    tangent: Ball | None = None  # [T, m, *shape]; None for a constant, whose derivatives are exactly zero

    @classmethod
    def constant(cls, numbers: Any) -> Self:
        """Return the real numbers that floats are, the same at all positions; balls as they are.

        InputError for what is no array of real numbers.
        """
        if isinstance(numbers, Numbers):
            return cls(numbers.value, numbers.tangent)
        if isinstance(numbers, Ball):
            return cls(numbers[None])
        if isinstance(numbers, torch.Tensor):
            numbers = numbers.detach().cpu()
            numbers = numbers.double().numpy() if numbers.is_floating_point() else numbers.numpy()
        array = np.asarray(numbers)
        exact = array.dtype.kind in "fb" or (array.dtype.kind in "iu" and (np.abs(array) <= 2**53).all())
        if not exact or array.dtype.itemsize > 8:
            raise InputError(
                f"an operand is {type(numbers).__name__} of {array.dtype}; give floats, or integers to 2^53"
            )
        return cls(Ball.exact(array)[None])

    @property
    def shape(self) -> torch.Size:
        """The shape of the numbers at one position."""
        return torch.Size(self.value.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes at one position."""
        return len(self.value.shape) - 1

    def _each(self, change: Callable[[Ball, int], Ball]) -> Self:
        """Treat values and derivatives alike; the function is told how many axes stand before the shape."""
        return type(self)(change(self.value, 1), None if self.tangent is None else change(self.tangent, 2))

    def taken(self, entries: np.ndarray) -> Self:
        """Return entries by their number in row-major order, in the shape of the array of numbers."""

        def take(ball: Ball, lead: int) -> Ball:
            flat = ball.reshape(*ball.shape[:lead], math.prod(self.shape))
            return flat[..., entries]

        return self._each(take)

    def reshaped(self, shape: Sequence[int]) -> Self:
        """Return the same numbers in another shape."""
        return self._each(lambda ball, lead: ball.reshape(*ball.shape[:lead], *shape))

    def _with_axes(self, ndim: int) -> Self:
        """Put axes of length one before the shape, for what broadcasts."""
        return self.reshaped((1,) * (ndim - self.ndim) + tuple(self.shape)) if self.ndim < ndim else self

    def plus(self, other: Numbers) -> Self:
        """Return the sum."""
        ndim = max(self.ndim, other.ndim)
        left, right = self._with_axes(ndim), other._with_axes(ndim)
        value = left.value + right.value
        tangents = [_spread(part.tangent, value) for part in (left, right) if part.tangent is not None]
        return type(self)(value, _sum(tangents))

    def negated(self) -> Self:
        """Return −x."""
        return self._each(lambda ball, _lead: -ball)

    def times(self, other: Numbers) -> Self:
        """Return the product, entry by entry."""
        ndim = max(self.ndim, other.ndim)
        left, right = self._with_axes(ndim), other._with_axes(ndim)
        terms = [
            a.tangent * b.value[:, None] for a, b in ((left, right), (right, left)) if a.tangent is not None
        ]
        return type(self)(left.value * right.value, _sum(terms))

    def over(self, other: Numbers) -> Self:
        """Return the quotient q = a / b, with dq = (da − q db) / b."""
        ndim = max(self.ndim, other.ndim)
        left, right = self._with_axes(ndim), other._with_axes(ndim)
        inverse = right.value.reciprocal()
        quotient = left.value * inverse
        terms = [] if left.tangent is None else [_spread(left.tangent, quotient)]
        if right.tangent is not None:
            terms.append(-(right.tangent * quotient[:, None]))
        total = _sum(terms)
        return type(self)(quotient, None if total is None else total * inverse[:, None])

    def mapped(self, function: Function, slope: Function) -> Self:
        """Return f(x), entry by entry, with the derivative f'(x) dx."""
        tangent = None if self.tangent is None else self.tangent * slope(self.value)[:, None]
        return type(self)(function(self.value), tangent)

    def sum_over(self, axes: Sequence[int]) -> Self:
        """Return the sums over axes, which are given from 0 and disappear."""
        found = self
        for axis in sorted(axes, reverse=True):
            found = found._each(lambda ball, lead, axis=axis: ball.sum(lead + axis))  # type: ignore[misc]
        return found

    def through(self, matrix: Numbers) -> Self:
        """Return x W of rows ``[..., n]`` and one matrix ``[n, k]``, constant or not."""
        if matrix.tangent is not None or len(matrix.value.midpoint) > 1:
            rows = self.reshaped((*self.shape[:-1], 1, self.shape[-1])).multiplied(matrix)
            return rows.reshaped((*self.shape[:-1], matrix.shape[-1]))
        weight = matrix.value[0]
        size = weight.shape[1]

        def product(ball: Ball, _lead: int) -> Ball:
            return (ball.reshape(-1, ball.shape[-1]) @ weight).reshape(*ball.shape[:-1], size)

        return self._each(product) if math.prod(self.shape) else self.reshaped((*self.shape[:-1], size))

    def multiplied(self, other: Numbers) -> Self:
        """Return the product of matrices ``[..., i, k]`` and ``[..., k, j]``, whose other axes broadcast."""
        ndim = max(self.ndim, other.ndim)
        left, right = self._with_axes(ndim), other._with_axes(ndim)
        value = left.value @ right.value
        terms = []
        if left.tangent is not None:
            terms.append(_spread(left.tangent @ right.value[:, None], value))
        if right.tangent is not None:
            terms.append(_spread(left.value[:, None] @ right.tangent, value))
        return type(self)(value, _sum(terms))

    @classmethod
    def joined(cls, parts: Sequence[Numbers]) -> Self:
        """Return the entries of all parts one after the other, as one axis."""
        flat = [part.reshaped((math.prod(part.shape),)) for part in parts]
        positions = max(len(part.value.midpoint) for part in flat)
        counts = [part.tangent.shape[1] for part in flat if part.tangent is not None]
        values = [_wide(part.value, (positions, *part.shape)) for part in flat]
        if not counts:
            return cls(concatenate(values, -1))
        directions = counts[0]
        tangents = [
            Ball.exact(np.zeros((positions, directions, *part.shape)))
            if part.tangent is None
            else _wide(part.tangent, (positions, directions, *part.shape))
            for part in flat
        ]
        return cls(concatenate(values, -1), concatenate(tangents, -1))


def _sum(terms: Sequence[Ball]) -> Ball | None:
    return reduce(operator.add, terms) if terms else None


def _wide(ball: Ball, shape: tuple[int, ...]) -> Ball:
    return Ball(np.broadcast_to(ball.midpoint, shape), np.broadcast_to(ball.radius, shape))


def _spread(tangent: Ball, value: Ball) -> Ball:
    """Derivatives in the shape that the value has after broadcasting."""
    return _wide(tangent, (value.shape[0], tangent.shape[1], *value.shape[1:]))


Axes = int | Sequence[int] | None


def rearranged(x: Numbers, change: Callable[[torch.Tensor], Any]) -> Any:
    """Return what a function that only moves entries makes of an array, or the several arrays."""
    entries = torch.arange(math.prod(x.shape)).reshape(x.shape)
    found = change(entries)
    if isinstance(found, torch.Tensor):
        return x.taken(found.numpy())
    return type(found)(x.taken(part.numpy()) for part in found)


def joined(parts: Sequence[Numbers], change: Callable[[list[torch.Tensor]], torch.Tensor]) -> Numbers:
    """Return what a function that puts arrays together makes of them."""
    entries, start = [], 0
    for part in parts:
        entries.append(torch.arange(start, start + math.prod(part.shape)).reshape(part.shape))
        start += math.prod(part.shape)
    return type(parts[0]).joined(parts).taken(change(entries).numpy())


def unchanged(x: Numbers, *arguments: Any, **options: Any) -> Numbers:
    """Return the numbers themselves, if what they would become is floating-point numbers."""
    for argument in (*arguments, *options.values()):
        kind = argument if isinstance(argument, torch.dtype) else getattr(argument, "dtype", torch.float64)
        if not kind.is_floating_point:
            raise InputError(f"dtype is {kind}; balls are real numbers, give a floating-point type")
    return x


def power(x: Numbers, exponent: Any) -> Numbers:
    """Return x^p: by multiplication for whole p up to 64, by roots for ±½, else as e^{p log x}."""
    if isinstance(exponent, int | float):
        half = {0.5: "sqrt", -0.5: "rsqrt"}.get(float(exponent))
        if half is not None:
            return x.mapped(*RULES[half])
        n = abs(int(exponent))
        if float(exponent).is_integer() and n <= functions.LARGEST_POWER:
            if n == 0:
                return type(x).constant(np.ones(x.shape))
            slope = float(n)
            found = x.mapped(
                lambda ball: functions.power(ball, n), lambda ball: functions.power(ball, n - 1) * slope
            )
            return found if exponent > 0 else found.mapped(*RULES["reciprocal"])
    return x.mapped(*RULES["log"]).times(type(x).constant(exponent)).mapped(*RULES["exp"])


def summed(x: Numbers, dim: Axes = None, keepdim: bool = False, *, dtype: object = None) -> Numbers:
    """Return sums, over all axes if none is named."""
    axes = _axes(unchanged(x, dtype), dim)
    found = x.sum_over(axes)
    return found.reshaped([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdim else found


def mean(x: Numbers, dim: Axes = None, keepdim: bool = False, *, dtype: object = None) -> Numbers:
    """Return means, over all axes if none is named."""
    count = math.prod(x.shape[axis] for axis in _axes(x, dim))
    return summed(x, dim, keepdim, dtype=dtype).over(type(x).constant(float(count)))


def vector_norm(
    x: Numbers,
    ord: float = 2,  # noqa: A002
    dim: Axes = None,
    keepdim: bool = False,
    *,
    dtype: object = None,
) -> Numbers:
    """Return Euclidean lengths, or sums of absolute values."""
    if ord == 1:
        return summed(x.mapped(*RULES["abs"]), dim, keepdim, dtype=dtype)
    if ord != 2:
        raise InputError(f"ord is {ord}; on balls norms are those of ord 1 and 2")
    return summed(x.mapped(*RULES["square"]), dim, keepdim, dtype=dtype).mapped(*RULES["sqrt"])


def norm(x: Numbers, p: float = 2, dim: Axes = None, keepdim: bool = False, dtype: object = None) -> Numbers:
    """Return `vector_norm`, as the older function takes its arguments."""
    return vector_norm(x, {"fro": 2}.get(str(p), p), dim, keepdim, dtype=dtype)


def matmul(left: Numbers, right: Numbers) -> Numbers:
    """Return the product of matrices or vectors."""
    if left.ndim == 1 and right.ndim == 1:
        return summed(left.times(right))
    if right.ndim == 1:
        return rearranged(matmul(left, column(right)), lambda entries: entries[..., 0])
    if left.ndim == 1:
        return rearranged(matmul(left.reshaped((1, *left.shape)), right), lambda entries: entries[..., 0, :])
    if right.ndim == 2:
        return left.through(right)
    if left.ndim == 2 and left.tangent is None and len(left.value.midpoint) == 1:
        return _turned(_turned(right).through(_turned(left)))
    return left.multiplied(right)


def linear(x: Numbers, weight: Numbers, bias: Numbers | None = None) -> Numbers:
    """Return x Wᵀ + b."""
    found = x.through(_turned(weight))
    return found if bias is None else found.plus(bias)


def embedding(
    numbers: torch.Tensor,
    weight: Numbers,
    padding_idx: object = None,  # noqa: ARG001
    max_norm: object = None,
    **_: object,
) -> Numbers:
    """Return rows of a table by their number."""
    if max_norm is not None:
        raise InputError("max_norm changes the table; leave it out")
    return rearranged(weight, lambda entries: entries[numbers])


def einsum(equation: str, *operands: Numbers) -> Numbers:
    """Return a sum of products over indices, from left to right; without ``...`` and repeated indices."""
    if "..." in equation:
        raise InputError(f"equation is {equation!r}; on balls name every index, without '...'")
    ins, _, out = equation.replace(" ", "").partition("->")
    names = ins.split(",")
    if not _:
        out = "".join(sorted(i for i in string.ascii_letters if ins.count(i) == 1))
    if len(names) != len(operands) or any(len(set(name)) < len(name) for name in names):
        raise InputError(f"equation is {equation!r}; on balls give each operand its own, different indices")
    found, have = operands[0], names[0]
    for position, (operand, own) in enumerate(zip(operands[1:], names[1:], strict=True), start=2):
        everything = have + "".join(i for i in own if i not in have)
        found = _placed(found, have, everything).times(_placed(operand, own, everything))
        have = everything
        found, have = _contracted(found, have, out + "".join(names[position:]))
    found, have = _contracted(found, have, out)
    return rearranged(found, lambda entries: entries.permute([have.index(i) for i in out]))


def softmax(x: Numbers, dim: int, dtype: object = None) -> Numbers:
    """Return y = e^x / Σ e^x, with dy = y (dx − Σ y dx)."""
    unchanged(x, dtype)
    axis = dim % x.ndim
    middle = x.value.midpoint.max(axis + 1, keepdims=True)  # any number may be taken off, here an exact one
    constant = type(x)(x.value)
    exponentials = constant.plus(type(x)(-Ball.exact(middle))).mapped(*RULES["exp"])
    y = exponentials.over(summed(exponentials, axis, keepdim=True))
    if x.tangent is None:
        return y
    weights = y.value[:, None]
    means = (x.tangent * weights).sum(axis + 2)
    shape = list(x.tangent.shape)
    shape[axis + 2] = 1
    return type(x)(y.value, (x.tangent - means.reshape(*shape)) * weights)


def rms_norm(
    x: Numbers, normalized_shape: Sequence[int], weight: Numbers | None = None, eps: float | None = None
) -> Numbers:
    """Return x / sqrt(mean(x²) + ε) · weight."""
    if eps is None:
        raise InputError("eps is None in rms_norm, which depends on the floating-point type; give a number")
    axes = tuple(range(-len(normalized_shape), 0))
    factor = mean(x.mapped(*RULES["square"]), axes, keepdim=True).plus(type(x).constant(eps))
    found = x.times(factor.mapped(*RULES["rsqrt"]))
    return found if weight is None else found.times(weight)


def layer_norm(
    x: Numbers,
    normalized_shape: Sequence[int],
    weight: Numbers | None = None,
    bias: Numbers | None = None,
    eps: float = 1e-5,
) -> Numbers:
    """Return (x − mean) / sqrt(variance + ε) · weight + bias."""
    axes = tuple(range(-len(normalized_shape), 0))
    found = rms_norm(x.plus(mean(x, axes, keepdim=True).negated()), normalized_shape, weight, eps)
    return found if bias is None else found.plus(bias)


def normalize(x: Numbers, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Numbers:
    """Return x / max(‖x‖, ε)."""
    return x.over(clamp(vector_norm(x, p, dim, keepdim=True), min=eps))


def clamp(x: Numbers, min: Any = None, max: Any = None) -> Numbers:  # noqa: A002
    """Return x, or the nearer of two bounds, numbers or arrays; at a bound it has no derivative."""
    if isinstance(min, Numbers) or isinstance(max, Numbers):
        above = x if min is None else maximum(x, type(x).constant(min))
        return above if max is None else maximum(above, type(x).constant(max), -1.0)
    least, largest = -math.inf if min is None else float(min), math.inf if max is None else float(max)
    return x.mapped(
        lambda ball: functions.clamp(ball, least, largest),
        lambda ball: functions.clamp_slope(ball, least, largest),
    )


def maximum(x: Numbers, other: Any = None, sign: float = 1.0) -> Numbers:
    """Return max(x, y) = y + relu(x − y), or min for sign −1; without a derivative where x = y."""
    if not isinstance(other, Numbers):
        raise InputError("torch.max and torch.min of one tensor have no form on balls; give two tensors")
    scale = type(x).constant(sign)
    return other.plus(relu(x.plus(other.negated()).times(scale)).times(scale))


def relu(x: Numbers, inplace: bool = False) -> Numbers:  # noqa: ARG001
    """Return max(x, 0)."""
    return clamp(x, min=0.0)


def silu(x: Numbers, inplace: bool = False) -> Numbers:  # noqa: ARG001
    """Return x σ(x)."""
    return x.mapped(functions.silu, functions.silu_slope)


def dropout(x: Numbers, p: float = 0.5, training: bool = True, inplace: bool = False) -> Numbers:  # noqa: ARG001
    """Return the numbers themselves: in training nothing is a function of them alone, unless p is 0."""
    if training and p:
        raise InputError("dropout is random in training; call model.eval() first")
    return x


def softplus(x: Numbers, beta: float = 1.0, threshold: float = 20.0) -> Numbers:
    """Return log(1 + e^{βx}) / β; PyTorch has x itself where βx is above the threshold."""
    if threshold < 20:
        raise InputError(
            f"softplus has threshold {threshold:g}, from which on it is x, not log(1 + eˣ); give 20 or more"
        )
    scale = type(x).constant(float(beta))
    return x.times(scale).mapped(functions.softplus, functions.sigmoid).over(scale)


def gelu(x: Numbers, approximate: str = "none") -> Numbers:
    """Return x Φ(x), or its approximation by tanh, x σ(2 √(2/π) (x + 0.044715 x³))."""
    if approximate == "none":
        return x.mapped(functions.gelu, functions.gelu_slope)
    if approximate != "tanh":
        raise InputError(f"approximate is {approximate!r}; give 'none' or 'tanh'")
    pi = functions.sqrt(Ball.around(math.pi / 2, 2.0**-52)).reciprocal()  # √(2/π)
    inner = x.plus(power(x, 3).times(type(x).constant(0.044715))).times(type(x).constant(pi * 2.0))
    return x.times(inner.mapped(*RULES["sigmoid"]))


def where(condition: torch.Tensor, chosen: Numbers, other: Numbers) -> Numbers:
    """Return entries of one or the other, by a condition that is known."""
    if not isinstance(condition, torch.Tensor):
        raise InputError("the condition of torch.where is known only up to a radius; give a known one")
    return joined([chosen, other], lambda entries: torch.where(condition, entries[0], entries[1]))


def added(left: Numbers, right: Numbers, *, alpha: float = 1) -> Numbers:
    """Return a + α b."""
    return left.plus(right if alpha == 1 else right.times(type(left).constant(alpha)))


def filled(change: Callable[..., Any], x: Numbers, *arguments: Any, number: float | None = None) -> Numbers:
    """Return what a function of PyTorch's makes that moves entries, with a number in place of its zeros."""
    return joined([type(x).constant(number or 0.0), x], lambda entries: change(entries[1], *arguments))


def like(number: float) -> Callable[..., Numbers]:
    """Return the function that makes a constant array of one's shape, such as ``torch.ones_like``."""
    return lambda x, **_options: type(x).constant(np.full(x.shape, number))


def _axes(x: Numbers, dim: Axes) -> tuple[int, ...]:
    axes = [dim] if isinstance(dim, int) else list(dim or range(x.ndim))  # no axis stands for all
    return tuple(sorted({axis % x.ndim for axis in axes})) if x.ndim else ()


def _turned(x: Numbers) -> Numbers:
    return rearranged(x, lambda entries: entries.mT)


def column(x: Numbers) -> Numbers:
    """Return a vector, or several, as matrices of one column."""
    return x.reshaped((*x.shape, 1))


def _placed(x: Numbers, have: str, everything: str) -> Numbers:
    """The operand with its axes in the order of all indices, of length one where it has none."""
    order = [have.index(i) for i in everything if i in have]
    turned = rearranged(x, lambda entries: entries.permute(order))
    sizes = dict(zip(have, x.shape, strict=True))
    return turned.reshaped([sizes.get(i, 1) for i in everything])


def _contracted(x: Numbers, have: str, needed: str) -> tuple[Numbers, str]:
    done = [axis for axis, i in enumerate(have) if i not in needed]
    return x.sum_over(done), "".join(i for i in have if i in needed)
