"""A question about a hidden state that was moved step by step, with all answers that there may be."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class TrackingDocument:
    """A text that ends where the answer is to stand, and what it may be.

    A model answers with the choice that it gives the highest log-likelihood after the text and a space.

    Attributes:
        text: what is read, the question included; it does not end with a space.
        choices: the answers to choose from.
        answer: which of them is right.
        at_first: which of them would be right if nothing had been moved.
        last_step: the last thing that was done, and what was asked; for one who has read no more than these.
    """

    text: str
    choices: tuple[str, ...]
    answer: int
    at_first: int
    last_step: str

    def row(self) -> dict[str, Any]:
        """Return the document as a row of a data set: what a task of `lm-eval` reads."""
        return {"text": self.text, "choices": list(self.choices), "answer": self.answer}
