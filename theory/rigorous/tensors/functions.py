"""PyTorch's functions on balls: one implementation for each, called as PyTorch's own is.

They stand for functions of real numbers: a change of the floating-point type does nothing, ``detach`` does
nothing (the derivative is that of the value), softplus is log(1 + e^x) for every x. PyTorch itself
rearranges entries, on their numbers.
"""

import math
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from automata.errors import InputError
from theory.rigorous.balls import functions
from theory.rigorous.balls.ball import Ball
from theory.rigorous.balls.functions import RULES
from theory.rigorous.tensors.numbers import Numbers

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
