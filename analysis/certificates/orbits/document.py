"""What a certificate of right answers says of the iteration that is run: its orbits and where it stops."""

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.answers import AnswersDocument
from analysis.certificates.parts import Number, Numbers, Part

ITERATION_STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state, window and h, is zero before the first token. Rounding "
        "is not covered: see step_error."
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
        "and whose residuals by step_error / damping (Euclidean norms), if it decodes exactly. That "
        "floating-point arithmetic is such a program is not claimed."
    ),
}


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
        >>> list(IterationDocument.model_fields)[-5:]
        ['bundles', 'tolerance', 'iterations', 'latent_error', 'step_error']
    """

    bundles: OrbitBundles
    tolerance: Number
    iterations: PositiveInt
    latent_error: Number
    step_error: Number

    @property
    def scope(self) -> str:
        """Of what it is proved."""
        return scope_of(self.config["sizes"]["damping"], self.tolerance, self.iterations)

    @property
    def caveat(self) -> str:
        """Of what it is not."""
        return caveat_of(self.config["sizes"]["rtol"], self.tolerance)


def scope_of(damping: float, tolerance: float, iterations: int) -> str:
    """Return of what a statement is proved, in words; its numbers are not rounded.

    Example:
        >>> scope_of(0.8, 1e-7, 90).split(" from zero ")[1]
        '(damping 0.8, rtol <= 1e-07, a limit of at least 90 iterations a token)'
    """
    return (
        f"in exact arithmetic, by the sequential iteration from zero (damping {damping!r}, rtol <= "
        f"{tolerance!r}, a limit of at least {iterations} iterations a token)"
    )


def caveat_of(rtol: float, tolerance: float) -> str:
    """Return what is not covered, for a run with a relative tolerance of its own.

    Example:
        >>> caveat_of(1e-8, 1e-7), caveat_of(1e-4, 1e-7)
        ('rounding is not covered', "rounding, and the run's own rtol of 0.0001, are not covered")
    """
    if rtol <= tolerance:
        return "rounding is not covered"
    return f"rounding, and the run's own rtol of {rtol!r}, are not covered"


def upper_triangle(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangles of square matrices, row by row.

    Example:
        >>> upper_triangle(np.array([[[1.0, 2.0], [0.0, 3.0]]])).tolist()
        [[1.0, 2.0, 3.0]]
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: NDArray[np.float64] = matrices[:, rows, columns]
    return triangles
