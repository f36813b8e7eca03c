"""The certificate of words of every length as a JSON document: a cover, and what it says of itself."""

from typing import Final, Literal

from pydantic import NonNegativeInt

from analysis.certificates.orbits.document import ITERATION_STATEMENTS, IterationDocument
from analysis.certificates.parts import Number, Numbers

COVER_FORMAT: Final = "implicit-ssm certificate of every length, version 3"

COVER_STATEMENTS = {
    **ITERATION_STATEMENTS,
    "sets": (
        "Set i holds the states s with |W (s - c)| <= radius (Euclidean norm), c its row of centres, W the "
        "upper triangular matrix of its row of metrics, row by row. The zero state lies in the first set, "
        "whose label is the initial state of the automaton."
    ),
    "existence": (
        "For every state of set i and every token x the self-map has exactly one fixed point within entry "
        "(i, x) of latent_radii of the row (i, x) of latents (maximum norm). Set and fixed points lie in "
        "bundle bundle_of[i][x], so that the iteration stops near them."
    ),
    "step": (
        "With the latent at which the iteration stops token x leads from every state of set i into set "
        "targets[i][x], whose label is the state of the automaton after x from the label of i."
    ),
    "margin": (
        "There the logit of that label exceeds every other by at least margin > 0. By induction the answers "
        "to words of every length are right."
    ),
}


class CoverDocument(IterationDocument):
    """A cover, and all that is claimed of its steps.

    Example:
        >>> list(CoverDocument.model_fields)[-2:]
        ['bundle_of', 'margin']
    """

    labels: list[NonNegativeInt]
    targets: list[list[NonNegativeInt]]
    centres: Numbers
    metrics: Numbers
    radii: Numbers
    latents: Numbers
    latent_radii: Numbers
    bundle_of: list[list[NonNegativeInt]]
    margin: Number


class CoverCertificate(CoverDocument):
    """The whole document.

    Example:
        >>> CoverCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of every length, version 3']
    """

    format: Literal["implicit-ssm certificate of every length, version 3"]
