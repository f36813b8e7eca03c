"""The certificate of every length and start as a JSON document: a cover, and norms in which latents fall."""

from typing import Final, Literal

from analysis.certificates.cover.document import COVER_STATEMENTS, CoverDocument
from analysis.certificates.parts import Numbers

LATENTS_FORMAT: Final = "implicit-ssm certificate of every length and start, version 1"

LATENTS_STATEMENTS = {
    **COVER_STATEMENTS,
    "attraction": (
        "K holds the latents z with sum_i (z_i / w_i)^2 <= d, w the weights of the last norm and d their "
        "number; all images of Phi lie in it. For every state of set i, token x and z in K outside of the "
        "region of bundle b = bundle_of[i][x], |L ((Phi(z) - c) / w)| < |L ((z - c) / w)| (Euclidean norms, "
        "division entry by entry, c the row (i, x) of latents, L the upper triangular matrix of row b of "
        "norms, row by row). So Phi has one fixed point, and the damped iteration tends to it from every "
        "latent of K."
    ),
    "simultaneous": (
        "Hence, in exact arithmetic and without end, the simultaneous mode (all tokens of a word iterated "
        "together, with the damping of the configuration) tends to the fixed points of the sequential one on "
        "words of every length, from every start whose latents lie in K, zero among them; and the answers "
        "read from its limits are right. Nothing is claimed of its rounding, of a tolerance, or of a limit "
        "of its iterations."
    ),
}


class LatentsCertificate(CoverDocument):
    """The whole document.

    Example:
        >>> LatentsCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of every length and start, version 1']
    """

    format: Literal["implicit-ssm certificate of every length and start, version 1"]
    norms: Numbers
