"""The certificate of all words up to a length as a JSON document: what it holds, and what it says."""

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.orbits.document import ITERATION_STATEMENTS, IterationDocument
from analysis.certificates.parts import Number, Numbers, Part

WORDS_FORMAT: Final = "implicit-ssm certificate of all words, version 3"

WORDS_STATEMENTS = {
    **ITERATION_STATEMENTS,
    "levels": (
        "levels[t] is about all words of t + 1 tokens, in the lexicographic order of their token numbers; "
        "every array holds a row a word."
    ),
    "state": (
        "The state that a word leads to, every token with the latent at which the iteration stops, lies "
        "within state_radius of state (Euclidean norm; the window channel by channel, then h)."
    ),
    "existence": (
        "With every state that the earlier tokens may lead to, the self-map of the last token has exactly "
        "one fixed point within latent_radius of latent (maximum norm). States and fixed points lie in "
        "bundle bundle_of, so that the iteration stops near them."
    ),
    "margin": (
        "At the latent at which the iteration of the last token stops, the logit of the state that the "
        "automaton is in exceeds every other logit by at least margin > 0: the answer is right."
    ),
}


class WordLevel(Part):
    """What is proved of all words of one length, a row per word: see `WORDS_STATEMENTS`.

    Example:
        >>> one = np.ones(2)
        >>> level = WordLevel(latents=one, latent_radii=one, states=one, state_radii=one, margins=one,
        ...                   bundle_of=[0, 0])
        >>> level.model_dump(mode="json")["margins"]
        'AAAAAAAA8D8AAAAAAADwPw=='
    """

    latents: Numbers
    latent_radii: Numbers
    states: Numbers
    state_radii: Numbers
    margins: Numbers
    bundle_of: list[NonNegativeInt]


class WordsCertificate(IterationDocument):
    """The whole document.

    Example:
        >>> WordsCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of all words, version 3']
    """

    format: Literal["implicit-ssm certificate of all words, version 3"]
    levels: list[WordLevel]
    length: PositiveInt
    words: PositiveInt
    margin: Number


def words_in_order(tokens: int, length: int) -> NDArray[np.int64]:
    """Return all words of a length in lexicographic order, ``[words, length]``.

    Example:
        >>> words_in_order(2, 2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.stack(np.unravel_index(np.arange(tokens**length), (tokens,) * length), axis=1)
