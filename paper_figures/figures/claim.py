"""What a figure is drawn to decide: a claim of a paper, and how the stored results judge it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

Word = Literal["reproduced", "partly", "not reproduced", "published"]
"""How a claim fares; ``published`` marks numbers of others that are drawn and not measured here."""


@dataclass(frozen=True)
class Verdict:
    """How a claim fares in stored results.

    Attributes:
        word: the verdict.
        because: the figures that it rests on, in a clause.

    Example:
        >>> str(Verdict("partly", "2 of 3 runs solve it"))
        'partly: 2 of 3 runs solve it'
    """

    word: Word
    because: str

    def __str__(self) -> str:
        """Word and reason."""
        return f"{self.word}: {self.because}"


AS_PUBLISHED = Verdict("published", "as its authors print it; nothing was run here")
"""The verdict of every figure of published numbers."""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper, with the rule by which results judge it.

    Attributes:
        statement: what is claimed, in our words.
        source: who claims it.
        judge: takes what `PaperFigure.collect` returned; the rule stands in its docstring.

    Example:
        >>> claim = Claim("primes are odd", "nobody", lambda found: Verdict("not reproduced", "2 is even"))
        >>> claim.judge({}).word
        'not reproduced'
    """

    statement: str
    source: str
    judge: Callable[[Mapping[str, Any]], Verdict]


IMPLICIT_ARE_RNNS = "Schöne et al. 2025, arXiv 2502.07827"
CODE_AND_LINEAR_RNNS = "Siems et al. 2026, arXiv 2602.14814"
SLIDES = "slides of the talk on Schöne et al. 2025"


def shares(counts: Mapping[str, tuple[int, int]]) -> str:
    """Return counts in words: how many of how many, by name.

    Example:
        >>> shares({"LSTM": (3, 3), "explicit Mamba-2": (0, 3)})
        'LSTM 3 of 3, explicit Mamba-2 0 of 3'
    """
    return ", ".join(f"{name} {count} of {of}" for name, (count, of) in counts.items())
