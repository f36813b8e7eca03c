"""The certificate of all words up to a length as a JSON document: what it holds, and what it says."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from analysis.certificates.answers import AnswersDocument
from analysis.certificates.parts import Number, Numbers, Part

WORDS_FORMAT = "implicit-ssm certificate of all words, version 2"

WORDS_STATEMENTS = {
    "meaning": (
        "The float32 weights are taken as the real numbers that they are, and every operation of the model "
        "as the exact one on real numbers. The state, window and h, is zero before the first token. That the "
        "solver's iteration tends to the fixed points named here is not claimed."
    ),
    "levels": (
        "levels[t] is about all words of t + 1 tokens, in the lexicographic order of their token numbers; "
        "every array holds a row a word."
    ),
    "existence": (
        "With the state that the earlier tokens lead to, the self-map of the last token has exactly one "
        "fixed point within latent_radius of latent (maximum norm)."
    ),
    "state": (
        "The state that a word leads to, every token with this fixed point, lies within state_radius of state"
        " (Euclidean norm; the window channel by channel, then h)."
    ),
    "margin": (
        "At the fixed point of the last token the logit of the state that the automaton is in exceeds every "
        "other logit by at least margin > 0: the answer is right."
    ),
}


class WordLevel(Part):
    """What is proved of all words of one length, a row per word: see `WORDS_STATEMENTS`.

    Example:
        >>> one = np.ones(2)
        >>> level = WordLevel(latents=one, latent_radii=one, states=one, state_radii=one, margins=one)
        >>> level.model_dump(mode="json")["margins"]
        'AAAAAAAA8D8AAAAAAADwPw=='
    """

    latents: Numbers
    latent_radii: Numbers
    states: Numbers
    state_radii: Numbers
    margins: Numbers


class WordsCertificate(AnswersDocument):
    """The whole document.

    Example:
        >>> WordsCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of all words, version 2']
    """

    format: Literal["implicit-ssm certificate of all words, version 2"]
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
