"""Rounded: numbers that a program computes, as enclosures of the exact ones and bounds of how far it is off.

A program is followed operation by operation. Let x be the exact number that an operation would return if no
operation before it had rounded, for inputs that may be any in some balls, and x̂ what the program has. A
`Rounded` holds a ball with all x and a bound of |x̂ − x|; the two belong to the same inputs, so that the bound
is small however large the balls are. With the assumptions of `FloatFormat`, a, b off by e_a,
e_b, and |â| ≤ |a| + e_a:

    |(â + b̂)^ − (a + b)| ≤ e_a + e_b + u (|a + b| + e_a + e_b)
    |(â b̂)^ − a b|       ≤ |a| e_b + |b| e_a + e_a e_b + u (|a| + e_a) (|b| + e_b)
    |(Σ âₖ)^ − Σ aₖ|     ≤ Σ eₖ + γ_n Σ (|aₖ| + eₖ)                        in any order
    |f^(â) − f(a)|       ≤ L e_a + φ (|f(a)| + L e_a)       L bounds |f'| within e_a of a, φ that of functions

and each by `TINY` more, which is more than underflow takes away. The bounds are computed in float64 and
rounded up.

**Assumptions of `FloatFormat`.** The model (Higham 2002, Accuracy and Stability of Numerical Algorithms,
sections 2.2 and 3.1), with u the unit roundoff, 2⁻²⁴ for float32:

- **Elementary operations.** + − × ÷ return the exact result times 1 + δ with |δ| ≤ u, or 0 or less than
  2⁻¹²⁶ off where it is smaller than that (denormal numbers may be flushed). An exact 0 stays 0.
- **Sums and products of matrices.** A sum of n products lies within γ_n Σ|terms| of the exact one, with
  γ_n = n u / (1 − n u), and n 2⁻¹²⁶ for what is too small: true of every order, of blocks, and with fused
  multiply-add. Terms that are exactly 0
  add no error.
- **Functions of one number** (exp, exp2, log1p, softplus, sigmoid, silu, √, 1/√) are within so many units in
  the last place of the exact result, each at most 2u of it. This is an *assumption* about vendors' vector
  functions, not a theorem: `ulps` is 4, and tests measure less than that over the range used. √ is among
  them, as PyTorch's was measured at 1.06 u: it is not the correctly rounded one of IEEE 754. Results below
  2⁻¹⁰⁰ may be anything between the exact one and 0, or 2⁻¹²⁶ off: silu of −89 is 0 in PyTorch, because e⁸⁹
  overflows, and denormal results are rounded to the nearest of few.

All of this assumes that no number overflows and that functions return at least 2⁻¹⁰⁰. A proof that uses it
has to show both.

Not of this kind are TF32, products accumulated in a shorter format
(``torch.set_float32_matmul_precision`` below "highest"), and Strassen's method.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from automata.errors import InputError
from theory.rigorous.balls import functions
from theory.rigorous.balls.ball import Array, Ball, concatenate, round_up


@dataclass(frozen=True)
class FloatFormat:
    """A format with what is assumed of the functions that compute in it."""

    name: str  # as PyTorch calls it
    unit_roundoff: float  # u
    ulps: int = 4  # what a function of one number may be off, in units in the last place

    @property
    def function(self) -> float:
        """The relative error of a function of one number."""
        return 2 * self.ulps * self.unit_roundoff

    def gamma(self, terms: int) -> float:
        """Return γ_n, a little rounded up; InputError if so many roundings may take all digits away."""
        share = terms * self.unit_roundoff
        if not share < 0.5:
            raise InputError(f"dtype is {self.name}, which keeps nothing of sums of {terms} terms")
        return share / (1 - share) * (1 + 2.0**-50)


FLOAT32 = FloatFormat("float32", 2.0**-24)
FLOAT64 = FloatFormat("float64", 2.0**-53)
FORMATS = {form.name: form for form in (FLOAT32, FLOAT64)}
"""Those that programs are proved in, by name."""


TINY = 2.0**-95
"""More than denormal results lose, or functions of one number where their results are below 2⁻¹⁰⁰."""
LINEAR = 2.1e-9
"""More than e^−20."""
SILU_SLOPE = 1.1
"""More than |silu'|: σ(x) (1 + x σ(−x)) is at most 1.0999 at x = 2.3994, and at least −0.1."""


@dataclass(frozen=True, eq=False)
class Rounded:
    """Numbers of a program."""

    exact: Ball  # what they would be without rounding, for all inputs
    error: Array  # by how much those of the program may differ, of the same shape
    form: FloatFormat  # the format that the program computes in

    @classmethod
    def given(cls, numbers: Ball, form: FloatFormat) -> Rounded:
        """Return numbers that the program is given: weights, or inputs that may be any in their balls."""
        return cls(numbers, np.zeros_like(numbers.midpoint), form)

    @property
    def size(self) -> Array:
        """Upper bounds of the absolute values that the program has."""
        return round_up(self.exact.magnitude + self.error)

    def __getitem__(self, entries: Any) -> Rounded:
        """Return entries of the last axis."""
        return self._with(self.exact[..., entries], self.error[..., entries])

    def repeat(self, count: int) -> Rounded:
        """Return every entry of the last axis ``count`` times."""
        return self._with(self.exact.repeat(count, -1), self.error.repeat(count, -1))

    def __add__(self, other: Rounded) -> Rounded:
        exact, error = self.exact + other.exact, self.error + other.error
        return self._rounded(exact, error, self.form.unit_roundoff)

    def __neg__(self) -> Rounded:
        return self._with(-self.exact, self.error)

    def __sub__(self, other: Rounded) -> Rounded:
        return self + (-other)

    def __mul__(self, other: Rounded) -> Rounded:
        error = self.exact.magnitude * other.error + self.error * other.size
        return self._rounded(self.exact * other.exact, error, self.form.unit_roundoff)

    def sums(self, group: int) -> Rounded:
        """Return the sums over groups of neighbouring entries of the last axis."""
        *leading, entries = self.exact.shape
        shape = (*leading, entries // group, group)
        size = self.size.reshape(shape).sum(-1)
        error = self.error.reshape(shape).sum(-1) + self.form.gamma(group) * size
        return self._with(self.exact.reshape(*shape).sum(-1), self._up(error, group))

    def mapped(self, matrix: Ball) -> Rounded:
        """Return the image under a matrix of weights ``[k, n]``, a product of the library."""
        terms = matrix.shape[-1]
        error = self.error + self.form.gamma(terms) * self.size
        passed = (matrix.magnitude @ error[..., None])[..., 0]
        return self._with((matrix @ self.exact[..., None])[..., 0], self._up(passed, 2 * terms))

    def exp(self) -> Rounded:
        """Return e^x."""
        value = functions.exp(self.exact)
        return self._function(value, functions.exp(self._around).magnitude)

    def silu(self) -> Rounded:
        """Return x σ(x)."""
        return self._function(functions.silu(self.exact), SILU_SLOPE)

    def softplus(self) -> Rounded:
        """Return log(1 + e^x), for which PyTorch takes x above 20: at most e^−20 less."""
        found = self._function(functions.softplus(self.exact), 1.0)
        less = np.where(self._around.upper < 20, 0.0, LINEAR)
        return found._with(found.exact, self._up(found.error + less))

    def rsqrt(self) -> Rounded:
        """Return 1/√x, whose slope is x^{−3/2} / 2."""
        least = functions.rsqrt(Ball.exact(self._around.mignitude)).magnitude
        return self._function(functions.rsqrt(self.exact), round_up(0.5 * least * least * least))

    def rms_norm(self, weight: Ball, epsilon: float, groups: int = 1) -> Rounded:
        """Return x (mean x² + ε)^{−1/2} · weight, normalised within each group of neighbouring entries."""
        count = self.exact.shape[-1] // groups
        total = (self * self).sums(count)
        # a mean is a sum, and a division or a product with an inverse
        mean = total._rounded(
            total.exact * (Ball.exact(1.0) / Ball.exact(float(count))),
            total.error / count,
            3 * self.form.unit_roundoff,
        )
        shift = Rounded.given(Ball.exact(np.full(mean.exact.shape, epsilon)), self.form)
        return self * (mean + shift).rsqrt().repeat(count) * Rounded.given(weight, self.form)

    def length(self) -> Array:
        """Return upper bounds of the Euclidean norms of the errors along the last axis."""
        squares = round_up(np.square(self.error).sum(-1), self.error.shape[-1])
        return round_up(np.sqrt(squares))

    @property
    def _around(self) -> Ball:
        return self.exact.widened(self.error)

    def _function(self, value: Ball, slope: Array | float) -> Rounded:
        return self._rounded(value, slope * self.error, self.form.function)

    def _rounded(self, exact: Ball, error: Array, relative: float) -> Rounded:
        """Add the rounding of one operation to errors of its operands."""
        return self._with(exact, self._up(error + relative * (exact.magnitude + error)))

    def _with(self, exact: Ball, error: Array) -> Rounded:
        return Rounded(exact, np.broadcast_to(error, exact.shape), self.form)

    @staticmethod
    def _up(error: Array, terms: int = 0) -> Array:
        return round_up(error + TINY * (1 + terms), terms)


def joined(parts: list[Rounded]) -> Rounded:
    """Return the entries of several numbers one after the other."""
    exact = concatenate([part.exact for part in parts], -1)
    return Rounded(exact, np.concatenate([part.error for part in parts], -1), parts[0].form)
