"""The certificate of words of every length as a JSON document: a cover, and what it says of itself."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt

from analysis.certificates.answers import AnswersDocument
from analysis.certificates.parts import Number, Numbers

COVER_FORMAT = "implicit-ssm certificate of every length, version 2"

COVER_STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state, window and h, is zero before the first token. That the "
        "solver's iteration tends to the fixed points named here is not claimed."
    ),
    "sets": (
        "Set i holds the states s with |W (s - c)| <= radius (Euclidean norm), c its row of centres, W the "
        "upper triangular matrix of its row of metrics, row by row. The zero state lies in the first set, "
        "whose label is the initial state of the automaton."
    ),
    "existence": (
        "For every state of set i and every token x the self-map has exactly one fixed point within entry "
        "(i, x) of latent_radii of the row (i, x) of latents (maximum norm)."
    ),
    "step": (
        "With these fixed points token x leads from every state of set i into set targets[i][x], whose label "
        "is the state of the automaton after x from the label of i."
    ),
    "margin": (
        "There the logit of that label exceeds every other by at least margin > 0. By induction the answers "
        "to words of every length are right."
    ),
}


class CoverCertificate(AnswersDocument):
    """The whole document.

    Example:
        >>> CoverCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of every length, version 2']
    """

    format: Literal["implicit-ssm certificate of every length, version 2"]
    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    latents: Numbers
    latent_radii: Numbers
    margin: Number


def upper_triangle(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the upper triangles of square matrices, row by row.

    Example:
        >>> upper_triangle(np.array([[[1.0, 2.0], [0.0, 3.0]]])).tolist()
        [[1.0, 2.0, 3.0]]
    """
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: NDArray[np.float64] = matrices[:, rows, columns]
    return triangles
