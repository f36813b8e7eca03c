"""Dual: a ball with balls for its derivatives, carried along by forward differentiation.

The derivatives enclose those at every point of the value's ball, as each rule is evaluated on whole balls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.rigorous.balls import functions
from theory.rigorous.balls.ball import Ball, concatenate
from theory.rigorous.balls.functions import Function


@dataclass(frozen=True, eq=False)
class Dual:
    """Values with their derivatives in m directions."""

    value: Ball  # [..., n]
    tangent: Ball  # [..., n, m]; m = 0 where no derivative is asked for

    @classmethod
    def constant(cls, value: Ball, columns: int) -> Dual:
        """Return balls whose derivatives are exactly zero."""
        return cls(value, Ball.exact(np.zeros((*value.shape, columns))))

    @classmethod
    def variable(cls, value: Ball, columns: int, first: int = 0) -> Dual:
        """Return balls of which entry i has the derivative 1 in direction first + i, and 0 in all others."""
        seed = np.eye(value.shape[-1], columns, k=first)
        return cls(value, Ball.exact(np.broadcast_to(seed, (*value.shape, columns)).copy()))

    @property
    def columns(self) -> int:
        """The number m of directions."""
        return self.tangent.shape[-1]

    def __getitem__(self, entries: Any) -> Dual:
        """Return entries of the last axis of the values."""
        return Dual(self.value[..., entries], self.tangent[..., entries, :])

    def repeat(self, count: int) -> Dual:
        """Return every entry of the last axis ``count`` times."""
        return Dual(self.value.repeat(count, -1), self.tangent.repeat(count, -2))

    def at(self, rows: Any) -> Dual:
        """Return for each position t the entry ``rows[t]``, from ``[T, n]`` to ``[T, 1]``."""
        positions = np.arange(len(rows))
        return Dual(self.value[positions, rows][:, None], self.tangent[positions, rows][:, None])

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __neg__(self) -> Dual:
        return Dual(-self.value, -self.tangent)

    def __sub__(self, other: Dual) -> Dual:
        return self + (-other)

    def __truediv__(self, other: Dual) -> Dual:
        return self * other.reciprocal()

    def __mul__(self, other: Dual) -> Dual:
        if not self.columns and not other.columns:
            return Dual.constant(self.value * other.value, 0)
        return Dual(
            self.value * other.value,
            self.tangent * other.value[..., None] + other.tangent * self.value[..., None],
        )

    def scaled(self, factors: Ball) -> Dual:
        """Return the product with constants that broadcast to the values."""
        if not self.columns:
            return Dual.constant(self.value * factors, 0)
        return Dual(self.value * factors, self.tangent * factors[..., None])

    def shifted(self, terms: Ball) -> Dual:
        """Return the sum with constants."""
        return Dual(self.value + terms, self.tangent)

    def mapped(self, matrix: Ball) -> Dual:
        """Return the image M x under a constant matrix ``[k, n]``."""
        return Dual((matrix @ self.value[..., None])[..., 0], matrix @ self.tangent)

    def sums(self, group: int) -> Dual:
        """Return the sums over groups of neighbouring entries of the last axis."""
        *leading, entries = self.value.shape
        value = self.value.reshape(*leading, entries // group, group).sum(-1)
        tangent = self.tangent.reshape(*leading, entries // group, group, self.columns).sum(-2)
        return Dual(value, tangent)

    def through(self, function: Function, slope: Function) -> Dual:
        """Return f(x), entry by entry, with the derivative f'(x) dx."""
        if not self.columns:
            return Dual(function(self.value), self.tangent)
        return self._chain(function(self.value), slope(self.value))

    def _chain(self, value: Ball, slope: Ball) -> Dual:
        return Dual(value, self.tangent * slope[..., None])

    def exp(self) -> Dual:
        """Return e^x."""
        value = functions.exp(self.value)
        return self._chain(value, value)

    def silu(self) -> Dual:
        """Return x σ(x)."""
        return self.through(functions.silu, functions.silu_slope)

    def softplus(self) -> Dual:
        """Return log(1 + e^x)."""
        return self.through(functions.softplus, functions.sigmoid)

    def rsqrt(self) -> Dual:
        """Return 1/√x, with the slope −x^{−3/2} / 2."""
        value = functions.rsqrt(self.value)
        return self._chain(value, value * value * value * Ball.exact(-0.5))

    def reciprocal(self) -> Dual:
        """Return 1/x."""
        return self.through(*functions.RULES["reciprocal"])


def join(duals: list[Dual]) -> Dual:
    """Return the entries of several duals one after the other."""
    return Dual(
        concatenate([dual.value for dual in duals], -1), concatenate([dual.tangent for dual in duals], -2)
    )
