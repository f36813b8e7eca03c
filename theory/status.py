"""How the search for a fixed point ended: one enumeration for every package."""

from enum import IntEnum


class Status(IntEnum):
    """How the search for a token's fixed point ended, with a sentence that names the remedy.

    Example:
        >>> Status.CONVERGED.sentence
        'the residual fell below the tolerance'
    """

    CONVERGED = 0
    MAX_ITERATIONS = 1
    NON_FINITE = 2

    @property
    def sentence(self) -> str:
        """The outcome and its remedy, as a clause."""
        return _SENTENCES[self]


_SENTENCES = {
    Status.CONVERGED: "the residual fell below the tolerance",
    Status.MAX_ITERATIONS: (
        "the iteration limit was reached first, here or at one before it; "
        "raise max_iterations, loosen the tolerance, or damp the self-map"
    ),
    Status.NON_FINITE: (
        "the self-map returned NaN or infinity, here or at one before it; "
        "check its input and weights, damp it, or lower the learning rate of a training"
    ),
}
