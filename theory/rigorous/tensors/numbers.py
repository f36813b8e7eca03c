"""Arrays of balls at T positions with derivatives in m directions, and what all operations are made of.

Positions and directions have no axis of their own for the code that computes with the numbers: it sees the
shape at one of them, as under ``torch.func.vmap``. Inside, T stands first and m after it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from automata.errors import InputError
from theory.rigorous.balls.ball import Ball, concatenate
from theory.rigorous.balls.functions import Function


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
    if not terms:
        return None
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _wide(ball: Ball, shape: tuple[int, ...]) -> Ball:
    return Ball(np.broadcast_to(ball.midpoint, shape), np.broadcast_to(ball.radius, shape))


def _spread(tangent: Ball, value: Ball) -> Ball:
    """Derivatives in the shape that the value has after broadcasting."""
    return _wide(tangent, (value.shape[0], tangent.shape[1], *value.shape[1:]))
