"""Dual: a ball with balls for its derivatives, carried along by forward differentiation.

The derivatives enclose those at every point of the value's ball, as each rule is evaluated on whole balls.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from theory.rigorous.balls import elementary, functions
from theory.rigorous.balls.ball import Ball, concatenate


@dataclass(frozen=True, eq=False)
class Dual:
    """Values with their derivatives in m directions.

    Attributes:
        value: ``[..., n]``.
        tangent: ``[..., n, m]``; m = 0 where no derivative is asked for.
    """

    value: Ball
    tangent: Ball

    @classmethod
    def constant(cls, value: Ball, columns: int) -> Dual:
        """Return balls whose derivatives are exactly zero."""
        return cls(value, Ball.exact(np.zeros((*value.shape, columns))))

    @classmethod
    def variable(cls, value: Ball, columns: int) -> Dual:
        """Return balls of which entry i has the derivative 1 in direction i, and 0 in those beyond n."""
        seed = np.eye(value.shape[-1], columns)
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
        return Dual(
            self.value * other.value,
            self.tangent * other.value[..., None] + other.tangent * self.value[..., None],
        )

    def scaled(self, factors: Ball) -> Dual:
        """Return the product with constants that broadcast to the values."""
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

    def _chain(self, value: Ball, slope: Ball) -> Dual:
        return Dual(value, self.tangent * slope[..., None])

    def exp(self) -> Dual:
        """Return e^x."""
        value = functions.exp(self.value)
        return self._chain(value, value)

    def silu(self) -> Dual:
        """Return x σ(x)."""
        return self._chain(functions.silu(self.value), functions.silu_slope(self.value))

    def softplus(self) -> Dual:
        """Return log(1 + e^x)."""
        return self._chain(functions.softplus(self.value), functions.sigmoid(self.value))

    def rsqrt(self) -> Dual:
        """Return 1/√x, with the slope −x^{−3/2} / 2."""
        value = functions.rsqrt(self.value)
        return self._chain(value, value * value * value * Ball.exact(-0.5))

    def reciprocal(self) -> Dual:
        """Return 1/x."""
        return self._chain(self.value.reciprocal(), -elementary.power(self.value, 2).reciprocal())

    def power(self, exponent: int) -> Dual:
        """Return x^n for 1 ≤ n ≤ 64."""
        slope = elementary.power(self.value, exponent - 1) * float(exponent)
        return self._chain(elementary.power(self.value, exponent), slope)

    def sqrt(self) -> Dual:
        """Return √x."""
        return self._chain(elementary.sqrt(self.value), elementary.sqrt_slope(self.value))

    def log(self) -> Dual:
        """Return log x."""
        return self._chain(elementary.log(self.value), self.value.reciprocal())

    def tanh(self) -> Dual:
        """Return tanh x."""
        return self._chain(elementary.tanh(self.value), elementary.tanh_slope(self.value))

    def sigmoid(self) -> Dual:
        """Return σ(x)."""
        return self._chain(functions.sigmoid(self.value), elementary.sigmoid_slope(self.value))

    def sin(self) -> Dual:
        """Return sin x."""
        return self._chain(elementary.sin(self.value), elementary.cos(self.value))

    def cos(self) -> Dual:
        """Return cos x."""
        return self._chain(elementary.cos(self.value), -elementary.sin(self.value))

    def erf(self) -> Dual:
        """Return the error function."""
        return self._chain(elementary.erf(self.value), elementary.erf_slope(self.value))

    def gelu(self) -> Dual:
        """Return x Φ(x)."""
        return self._chain(elementary.gelu(self.value), elementary.gelu_slope(self.value))

    def absolute(self) -> Dual:
        """Return |x|; its derivative is infinite where x may be zero."""
        return self._chain(elementary.absolute(self.value), elementary.absolute_slope(self.value))

    def clamp(self, least: float = -np.inf, largest: float = np.inf) -> Dual:
        """Return x between two bounds; ReLU is that between 0 and ∞."""
        slope = elementary.clamp_slope(self.value, least, largest)
        return self._chain(elementary.clamp(self.value, least, largest), slope)


def join(duals: list[Dual]) -> Dual:
    """Return the entries of several duals one after the other."""
    return Dual(
        concatenate([dual.value for dual in duals], -1), concatenate([dual.tangent for dual in duals], -2)
    )
