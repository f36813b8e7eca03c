"""The certificate of an executed compiled model as a JSON document: what it holds, and what it says."""

from typing import Final, Literal

from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.answers import AnswersDocument
from analysis.certificates.parts import Number, Part

EXECUTED_FORMAT: Final = "implicit-ssm certificate of executed floats, version 2"

EXECUTED_STATEMENTS = {
    "meaning": (
        "The program is run in float32 on a CPU, with float32 products of the highest precision, without "
        "gradient or padding, from the zero state and the zero latent, with damped Picard iteration and the "
        "damping of the run's configuration, an absolute tolerance of 0, a relative one of at most rtol and "
        "at least 2 iterations; in the sequential mode, the windowed mode, or the simultaneous mode with "
        "chunks of at most 64 tokens."
    ),
    "arithmetic": (
        "Assumed: + - * / are within a factor 1 + d, |d| <= 2^-24, of the exact result, or within 2^-126 "
        "where it is smaller; sums of n products, in any order, within n 2^-24 / (1 - n 2^-24) times the sum "
        "of their absolute values, and n 2^-126; exp, exp2, log1p, softplus, sigmoid, silu, sqrt and rsqrt "
        "within ulps units in the last place, or between the result and 0, or 2^-126 off, where it is below "
        "2^-100. Of results that do not overflow: that none is above 2^126 is verified, not assumed. TF32, "
        "bfloat16 accumulation and kernels other than PyTorch's own (sequential_backend 'loop', scans "
        "'chunked', as compiled runs are loaded) are not covered."
    ),
    "writes": (
        "By every token whose answer is claimed below, each channel of the state that the automaton enters "
        "is written a number from least_write to most_write, every other channel one from -leaked to 0."
    ),
    "readings": (
        "What the layer adds to the latent of a token is at least least_read (least_first at the first token)"
        " at the right outcome, in units of what the gates pass, the others at most leftover of that in sum, "
        "their negative part at most leak of it; it is at least dominance times the root of d_model long."
    ),
    "latents": (
        "No latent is longer than length times the root of d_model. The direction of every latent that is "
        "answered from is within off of a vector whose right outcome outweighs the others so."
    ),
    "answers": (
        "On every word of every length the answer is right, with a margin of at least margin times the "
        "latent's length times the entry of the head: at every token in the sequential and the windowed mode;"
        " in the simultaneous mode at every token that is reported as converged and, if damping is 1, at "
        "every token before the last iteration allowed."
    ),
}


class Boxes(Part):
    """The numbers of the statements.

    Example:
        >>> list(Boxes.model_fields)[:2]
        ['leftover', 'leak']
    """

    leftover: Number
    leak: Number
    least_write: Number
    most_write: Number
    leaked: Number
    least_read: Number
    least_first: Number
    dominance: Number
    length: Number
    off: Number
    margin: Number


class ExecutedCertificate(AnswersDocument):
    """The whole document; ``answers`` has the shape of the automaton's table.

    Example:
        >>> ExecutedCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of executed floats, version 2']
    """

    format: Literal["implicit-ssm certificate of executed floats, version 2"]
    answers: list[list[NonNegativeInt]]
    dtype: Literal["float32"]
    ulps: PositiveInt
    rtol: Number
    boxes: Boxes
