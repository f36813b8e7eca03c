"""The certificate of all words up to a length as a JSON document: what it holds, and what it says."""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.parts import Document, Number, Numbers, Part, read_part

WORDS_FORMAT = "implicit-ssm certificate of all words, version 1"

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


class Automaton(Part):
    """The task: ``table[state][token]`` is the next state, and the answer to the token.

    Example:
        >>> Automaton(initial_state=0, table=[[0, 1], [1, 0]]).after((1, 1, 0, 1))
        1
    """

    initial_state: NonNegativeInt
    table: list[list[NonNegativeInt]]

    def after(self, word: Sequence[int]) -> int:
        """Return the state after a word."""
        state = self.initial_state
        for token in word:
            state = self.table[state][token]
        return state


class WordLevel(Part):
    """What is proved of all words of one length, a row a word: see `WORDS_STATEMENTS`.

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


class WordsCertificate(Document):
    """The whole document.

    Example:
        >>> WordsCertificate.model_fields["format"].annotation
        typing.Literal['implicit-ssm certificate of all words, version 1']
    """

    format: Literal["implicit-ssm certificate of all words, version 1"]
    automaton: Automaton
    levels: list[WordLevel]
    length: PositiveInt
    words: PositiveInt
    margin: Number

    @property
    def sentence(self) -> str:
        """What the certificate comes to."""
        return (
            f"the answers to all {self.words} words of up to {self.length} tokens are right, "
            f"with a margin of at least {self.margin:.3g}"
        )


def parse_words_certificate(content: dict[str, Any]) -> WordsCertificate:
    """Return the certificate that a JSON object holds.

    Raises:
        RefusedError: naming the first line that does not have its form.

    Example:
        >>> parse_words_certificate({"format": WORDS_FORMAT})
        Traceback (most recent call last):
        analysis.certificates.parts.RefusedError: statements: field required
    """
    certificate: WordsCertificate = read_part(WordsCertificate, content, "")
    return certificate


def words_in_order(tokens: int, length: int) -> NDArray[np.int64]:
    """Return all words of a length in lexicographic order, ``[words, length]``.

    Example:
        >>> words_in_order(2, 2).tolist()
        [[0, 0], [0, 1], [1, 0], [1, 1]]
    """
    return np.stack(np.unravel_index(np.arange(tokens**length), (tokens,) * length), axis=1)
