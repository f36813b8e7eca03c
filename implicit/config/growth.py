"""Where a curriculum stands whose sequences grow with the accuracy."""

from dataclasses import dataclass, replace

SMOOTHING = 0.1
"""Weight of the newest training step in the running mean of the accuracy, which begins at 0 at each length: a
model that is right at once is believed to be right at 0.93 after 26 steps, not after one lucky batch."""


@dataclass(frozen=True)
class Growth:
    """Where the curriculum stands between two training steps; nothing is known where it follows their number.

    Attributes:
        length: tokens per sequence in the next step; None before the first one.
        accuracy: running mean of the late accuracy at this length.
        final_from: first step of the final phase, in which the learning rate falls; None before it is known.

    Example:
        >>> Growth()
        Growth(length=None, accuracy=0.0, final_from=None)
    """

    length: int | None = None
    accuracy: float = 0.0
    final_from: int | None = None

    def seen(self, accuracy: float) -> "Growth":
        """Return the growth with one more training step in its running mean.

        Args:
            accuracy: late accuracy of the step, see `implicit.training.objective.Objective`.

        Example:
            >>> growth, steps = Growth(length=4), 0
            >>> while growth.accuracy < 0.93:
            ...     growth, steps = growth.seen(1.0), steps + 1
            >>> steps
            26
        """
        return replace(self, accuracy=self.accuracy + SMOOTHING * (accuracy - self.accuracy))
