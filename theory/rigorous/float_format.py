"""Assumptions on the rounding of floating-point operations of a program that is proved right.

The model (Higham 2002, Accuracy and Stability of Numerical Algorithms, sections 2.2 and 3.1), with u the unit
roundoff, 2⁻²⁴ for float32:

- **Elementary operations.** + − × ÷ return the exact result times 1 + δ with |δ| ≤ u, or 0 or less than
  2⁻¹²⁶ off where it is smaller than that (denormal numbers may be flushed). What is exactly 0 is 0.
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

All of this is said of numbers that do not overflow, and that errors of functions are a share of their results
of results of at least 2⁻¹⁰⁰: who proves something with it shows that the numbers are such.

Not of this kind are TF32, products accumulated in a shorter format
(``torch.set_float32_matmul_precision`` below "highest"), and Strassen's method.
"""

from dataclasses import dataclass

from automata.errors import InputError


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
        """Return γ_n, a little rounded up.

        Raises:
            InputError: if so many roundings may take all digits away.
        """
        share = terms * self.unit_roundoff
        if not share < 0.5:
            raise InputError(f"dtype is {self.name}, which keeps nothing of sums of {terms} terms")
        return share / (1 - share) * (1 + 2.0**-50)


FLOAT32 = FloatFormat("float32", 2.0**-24)
FLOAT64 = FloatFormat("float64", 2.0**-53)
FORMATS = {form.name: form for form in (FLOAT32, FLOAT64)}
"""Those that programs are proved in, by name."""
