"""What commands and the gallery show of a figure, whether its numbers were measured here or published."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from paper_figures.figures.claim import Verdict
from paper_figures.stored_results import StoredResults


@dataclass(frozen=True)
class Shown:
    """A figure with the numbers that it is drawn from.

    Attributes:
        picture: draws it, so many inches wide.
        caption: the whole of it.
        verdict: how its claim fares.
        stored: the results that it is drawn from; None for published numbers, which nothing here measured.

    Example:
        >>> from paper_figures.figures.claim import AS_PUBLISHED
        >>> Shown(lambda width: Figure((width, 2)), "Two lines.", AS_PUBLISHED, None).numbers
        'numbers as published'
    """

    picture: Callable[[float], Figure]
    caption: str
    verdict: Verdict
    stored: StoredResults | None

    @property
    def numbers(self) -> str:
        """Where the numbers are from, in a few words."""
        return "numbers as published" if self.stored is None else f"results of {self.stored.date}"
