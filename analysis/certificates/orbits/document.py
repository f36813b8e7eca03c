"""What a certificate of right answers says of the iteration that is run: orbits, ends, and rounding."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.answers import AnswersDocument
from analysis.certificates.parts import Number, Numbers, Part

ANSWER_RTOL = 1e-10
"""What `implicit.answer` takes if no tolerance is given; written out, for the checker imports no model."""

ITERATION_STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state, window and h, is zero before the first token. Where "
        "dtype is float64, all is claimed of program too; where it is real, nothing is claimed of rounding."
    ),
    "iteration": (
        "What is run is the sequential mode: at every token z = 0 is the first latent, and z + damping "
        "(Phi(z) - z) follows z, with the damping of the configuration, until |Phi(z) - z| <= rtol |z| "
        "(Euclidean norms, no absolute tolerance) or a limit of evaluations of Phi is reached. What is "
        "claimed holds for every rtol from 0 to tolerance and every limit of at least iterations, which is "
        "at most max_iterations of the configuration; with rtol = tolerance every token stops by it. Of a "
        "larger rtol, such as that of the configuration may be, nothing is claimed."
    ),
    "bundles": (
        "For every state within widths of centres (entry by entry) and token tokens of bundle b, the damped "
        "self-map sends the latents z with |L (z - latents)| <= radii (Euclidean norm, L the upper "
        "triangular matrix of its row of metrics, row by row) into themselves and contracts there, so that "
        "it has exactly one fixed point among them. The iteration from zero does not stop before it is among "
        "them, tends to the fixed point, and stops within latent_error of it (Euclidean norm)."
    ),
    "step_error": (
        "The same holds of a program whose damped steps and next states are off by at most step_error each, "
        "and whose residuals by step_error / damping (Euclidean norms), as long as its latents and states "
        "are where bundles and sets say."
    ),
    "program": (
        "The program is the sequential mode of the model with its weights as float64 numbers, computed by "
        "the operations of PyTorch on a CPU in float64, without gradient or padding, as python -m "
        "implicit.answer runs it with an --rtol of at most tolerance. Assumed of these operations, with "
        "u = 2^-53: + - * / return the exact result times 1 + d, |d| <= u; sums and products of matrices of "
        "n terms are within n u / (1 - n u) of the sum of the absolute values of the terms, in any order; "
        "exp, softplus up to 20, silu, sqrt and 1 / sqrt are within 2 u ulps of the exact result, relative "
        "to it; above 20 softplus is its argument; results below 2^-100 may be that much off. Under these "
        "assumptions it is off by at most step_error wherever it comes, and margin is one of the logits that "
        "it computes."
    ),
}

DType = Literal["float64", "real"]
"""The format whose rounding is covered; that of real numbers has none."""


class OrbitBundles(Part):
    """Bundles of orbits, a row each: see `ITERATION_STATEMENTS`.

    Example:
        >>> list(OrbitBundles.model_fields)
        ['tokens', 'centres', 'widths', 'latents', 'metrics', 'radii']
    """

    tokens: list[NonNegativeInt]
    centres: Numbers
    widths: Numbers
    latents: Numbers
    metrics: Numbers
    radii: Numbers


class IterationDocument(AnswersDocument):
    """A certificate that the answers of the iteration that is run are those of an automaton.

    Example:
        >>> list(IterationDocument.model_fields)[-6:]
        ['tolerance', 'iterations', 'latent_error', 'step_error', 'dtype', 'ulps']
    """

    bundles: OrbitBundles
    tolerance: Number
    iterations: PositiveInt
    latent_error: Number
    step_error: Number
    dtype: DType
    ulps: PositiveInt

    @property
    def scope(self) -> str:
        """Of what it is proved."""
        return scope_of(self.config["sizes"]["damping"], self.tolerance, self.iterations, self.dtype)

    @property
    def caveat(self) -> str:
        """Of what it is not, and what is assumed."""
        return caveat_of(self.config["sizes"]["rtol"], self.tolerance, self.dtype, self.ulps)


def scope_of(damping: float, tolerance: float, iterations: int, dtype: DType) -> str:
    """Return of what a statement is proved, in words; its numbers are not rounded.

    Example:
        >>> print(scope_of(0.8, 1e-7, 90, "float64"))
        in exact arithmetic and as float64 computes it on a CPU (python -m implicit.answer), by the sequential
        iteration from zero (damping 0.8, rtol <= 1e-07, a limit of at least 90 iterations a token)

        The command has an rtol of its own, which may have to be another.

        >>> print(scope_of(0.8, 1e-11, 90, "float64"))
        in exact arithmetic and as float64 computes it on a CPU (python -m implicit.answer --rtol 1e-11), by
        the sequential iteration from zero (damping 0.8, rtol <= 1e-11, a limit of at least 90 iterations ...
    """
    command = "python -m implicit.answer" + ("" if tolerance >= ANSWER_RTOL else f" --rtol {tolerance!r}")
    executed = "" if dtype == "real" else f" and as {dtype} computes it on a CPU ({command})"
    return (
        f"in exact arithmetic{executed}, by the sequential iteration from zero (damping {damping!r}, rtol <= "
        f"{tolerance!r}, a limit of at least {iterations} iterations a token)"
    )


def caveat_of(rtol: float, tolerance: float, dtype: DType, ulps: int) -> str:
    """Return what is assumed and what is not covered, for a run with a relative tolerance of its own.

    Example:
        >>> caveat_of(1e-8, 1e-7, "real", 4), caveat_of(1e-4, 1e-7, "real", 4)
        ('rounding is not covered', "rounding, and the run's own rtol of 0.0001, are not covered")
        >>> print(caveat_of(1e-4, 1e-7, "float64", 4))
        of float64 it is assumed that + - * / round as in IEEE 754, that sums and matrix products are made of
        these, in any order, fused or not, and that exp, softplus, silu and roots are within 4 ulp; float32,
        and the run's own rtol of 0.0001, are not covered
    """
    left, assumed = "rounding", ""
    if dtype != "real":
        assumed = (
            f"of {dtype} it is assumed that + - * / round as in IEEE 754, that sums and matrix products are "
            "made of these, in any order, fused or not, and that exp, softplus, silu and roots are within "
            f"{ulps} ulp; "
        )
        left = "float32"
    if rtol <= tolerance:
        return f"{assumed}{left} is not covered"
    return f"{assumed}{left}, and the run's own rtol of {rtol!r}, are not covered"


def upper_triangle(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangles of square matrices, row by row.

    Example:
        >>> upper_triangle(np.array([[[1.0, 2.0], [0.0, 3.0]]])).tolist()
        [[1.0, 2.0, 3.0]]
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: NDArray[np.float64] = matrices[:, rows, columns]
    return triangles
