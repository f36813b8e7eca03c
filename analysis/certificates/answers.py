"""What certificates of right answers (of all words, of every length) share: the task as an automaton."""

from collections.abc import Sequence

from pydantic import NonNegativeInt

from analysis.certificates.parts import Document, Part


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


class AnswersDocument(Document):
    """A certificate that the answers of a model are those of an automaton.

    Example:
        >>> list(AnswersDocument.model_fields)[-1]
        'automaton'
    """

    automaton: Automaton
