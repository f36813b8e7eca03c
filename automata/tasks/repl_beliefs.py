"""What the tokens of a REPL trace tell of the arrangement of its values: the exact filter over sessions."""

from abc import abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.repl.arrangements import session_automaton
from automata.repl.grammar import NONE, Reading, SessionGrammar
from automata.repl.session_format import SessionFormat
from automata.repl.token_tables import TokenTables
from automata.tasks.observed import NOTHING, ObservedTask, Probabilities

_MOST_VARIABLES = 15  # n · n^n, the number of questions, is below 2^63


class SessionBeliefs(ObservedTask):
    r"""The beliefs of a task of sessions, given by its format. What is asked is left to the task.

    The hidden state is which first value each variable holds, of those arrangements that the actions can
    lead to (``automaton``). It moves at the newline that ends an action, and is seen at a revealed value,
    which may be one of several equal first values. With ordered first values ``arrangements`` holds the
    values themselves, less 1.

    Raises:
        InputError: on the first question about beliefs, if there are too many arrangements.

    Example:
        >>> from automata.tasks.repl_language import ReplLanguage
        >>> task = ReplLanguage(2, hidden="if", probability=0.25, predict="values")
        >>> begin = ">>> from random import random\n>>> a = 1\n>>> b = 2\n"
        >>> rest = ">>> if random() < 0.25: a, b = b, a\n... \n>>> print('a', a)\na 2"
        >>> tokens = task.tokenizer.encode(begin + rest)
        >>> task.hidden_state_names, task.beliefs([tokens])[0, -11::10].tolist()  # newline, value
        (('12', '21'), [[0.75, 0.25], [0.0, 1.0]])
        >>> task.probabilities([tokens])[0, -2].tolist()[-2:]  # of the values 1 and 2
        [0.75, 0.25]
    """

    @property
    @abstractmethod
    def form(self) -> SessionFormat:
        """The format of the sessions."""

    @property
    @abstractmethod
    def tables(self) -> TokenTables:
        """Its commands as tokens."""

    @property
    def automaton(self) -> ProbabilisticAutomaton:
        """The probabilistic automaton of the arrangements; see `session_automaton`."""
        return session_automaton(self.form)

    @property
    def hidden_state_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The arrangements in one-line form."""
        return self.automaton.states

    @property
    def initial_belief(self) -> Probabilities:
        """Certainty that no action has been done."""
        return self.automaton.initial

    @property
    def arrangements(self) -> IntArray:
        """The variable, from 0, whose first value each variable holds in each state, ``[states, n]``."""
        return self._held

    @cached_property
    def _held(self) -> IntArray:
        automaton = self.automaton
        names = [automaton.value_names[reveal] for reveal in automaton.reveals]
        numbers = [np.array([int(name) - 1 for name in values]) for values in names]
        return np.stack([n[reading] for n, reading in zip(numbers, automaton.readings, strict=True)], axis=1)

    @cached_property
    def _grammar(self) -> SessionGrammar:
        return SessionGrammar(self.form, self.tables)

    def read(self, tokens: ArrayLike) -> Reading:
        """Return what the tokens say, see `Reading`.

        Raises:
            InputError: tokens is no batch of sessions of this format from their beginning.
        """
        return self._grammar.read(tokens)

    def observations(self, tokens: ArrayLike) -> IntArray:
        """Return y: the actions by number, then which first values each variable may hold."""
        reading, size = self.read(tokens), self.form.variables
        said = np.where(reading.actions == NONE, NOTHING, reading.actions)
        rows, places = np.nonzero(reading.shown != NONE)
        value = np.asarray(tokens)[rows, places] - self.tables.tokenizer.first_value
        equal = reading.initial[rows] == value[:, None]
        which = equal @ (1 << np.arange(size))  # a bit for each variable that began with the value
        said[rows, places] = self._action_count + (reading.shown[rows, places] << size) + which
        return said

    def moved(self, beliefs: Probabilities, observation: int) -> Probabilities:
        """Return M_σ b for an action, and what is left of b where a variable shows a value."""
        if observation < self._action_count:
            return beliefs @ self.automaton.matrices[observation].T
        variable, which = divmod(observation - self._action_count, 1 << self.form.variables)
        return beliefs * (which >> self._held[:, variable] & 1)

    def fully_revealed(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Return after which tokens a full reveal is complete, ``[batch, length]``.

        At the last value of a print of all variables whose first values are all different, and where one
        value leaves a single arrangement, whatever was believed before.
        """
        reading, size = self.read(tokens), self.form.variables
        ordered = np.sort(reading.initial, axis=1)
        different = (ordered == np.arange(size)).all(axis=1)
        return super().fully_revealed(tokens) | (reading.complete == size) & different[:, None]

    def questions(self, tokens: ArrayLike) -> IntArray:
        """Return the variable whose value comes next, with the first values of the session, as one number."""
        reading, size = self.read(tokens), self.form.variables
        if self.form.initial == "ordered":
            return np.where(reading.asked == NONE, NOTHING, reading.asked)
        if size > _MOST_VARIABLES:
            raise InputError(
                f"variables is {size}, whose {self.form.initial} first values cannot be numbered; give at "
                f"most {_MOST_VARIABLES}, or ordered ones"
            )
        began = np.maximum(reading.initial, 0) @ size ** np.arange(size)
        return np.where(reading.asked == NONE, NOTHING, reading.asked * size**size + began[:, None])

    def answers(self, beliefs: Probabilities, question: int) -> Probabilities:
        """Return the distribution of the value that a variable shows, ``[rows, tokens]``."""
        size, first = self.form.variables, self.tables.tokenizer.first_value
        variable, initial = question, np.arange(size)
        if self.form.initial != "ordered":
            variable, began = divmod(question, size**size)
            initial = began // size ** np.arange(size) % size
        shows = np.zeros((len(self._held), self.output_size))
        shows[np.arange(len(self._held)), first + initial[self._held[:, variable]]] = 1
        return beliefs @ shows

    @property
    def _action_count(self) -> int:
        return self.tables.first_reveal - self.tables.first_seen
