"""The certificate of every length and start by image balls as a JSON document: a cover, and their radii."""

from typing import Final, Literal

from analysis.certificates.cover.document import COVER_STATEMENTS, CoverDocument
from analysis.certificates.parts import Numbers

IMAGES_FORMAT: Final = "implicit-ssm certificate of every length and start by image balls, version 1"

IMAGES_STATEMENTS = {
    **COVER_STATEMENTS,
    "attraction": (
        "K holds the latents z with sum_i (z_i / w_i)^2 <= d, w the weights of the last norm, none of them "
        "zero, and d their number; all images of Phi lie in it. For every state of set i and token x, with "
        "c the row (i, x) of latents and r the entry (i, x) of image_radii, |(Phi(z) - c) / w| <= r for "
        "every z in K (Euclidean norm, division entry by entry), and the norm of the derivative of Phi, for "
        "latents divided by w, is below 1 at every z with |(z - c) / w| <= r. So Phi has one fixed point in "
        "K, and the damped iteration tends to it from every latent of K."
    ),
    "simultaneous": (
        "Hence, in exact arithmetic and without end, the simultaneous mode (all tokens of a word iterated "
        "together, with the damping of the configuration) tends to the fixed points of the sequential one on "
        "words of every length, from every start whose latents lie in K, zero among them; and the answers "
        "read from its limits are right. Nothing is claimed of its rounding, of a tolerance, or of a limit "
        "of its iterations."
    ),
}


class ImagesCertificate(CoverDocument):
    """The whole document.

    Example:
        >>> ImagesCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of every length and start by image balls, version 1']
    """

    format: Literal["implicit-ssm certificate of every length and start by image balls, version 1"]
    image_radii: Numbers
