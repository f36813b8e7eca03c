"""REPL traces as data for a language model: the tokens of a session, and the next token as the target."""

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, checked
from automata.errors import InputError, unknown_name
from automata.monoids.cayley import IntArray
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from automata.repl.sampling import Sessions, sample_sessions
from automata.repl.session_format import Actions, Initial, SessionFormat, Spacing, session_automaton
from automata.repl.tokens import NONE, Reading, SessionGrammar, token_tables
from automata.tasks.interface import Batch, Ceiling, check_at_least_one
from automata.tasks.observed import NOTHING, ObservedTask, Probabilities

Predict = Literal["all", "reveals", "values"]
"""Which next tokens are asked: every one, the output of reveals, or the revealed values alone."""

_LEAST_SHARE = {"reveals": 1, "values": 2}
_MOST_VARIABLES = 15  # n · n^n, the number of questions, is below 2^63


class ReplLanguage(ObservedTask):
    r"""Sessions of random actions with reveals, cut or padded to the length of the batch.

    The target of a token is the token after it. With ``predict="values"`` only the values that are revealed
    are asked, at the token before each: what the variable holds is then all that counts. With ``"reveals"``
    the rest of a printed line is asked as well, which the command tells. A session that ends inside its row
    has `END` as its last target, asked with ``predict="all"``; the rest is padding.

    The hidden state of the exact filter is which first value each variable holds, of those arrangements that
    the actions can lead to (``automaton``). It moves at the newline that ends an action, and is seen at a
    revealed value, which may be one of several equal first values. With ordered first values
    ``arrangements`` holds the values themselves, less 1. InputError if one of the numbers is out of its
    range, or a name is unknown; on the first question about beliefs, if there are too many arrangements.

    Args:
        variables: their number, 2 to 26.
        reveal_every: k, the number of actions from one reveal to the next.
        commands: the number of actions in a session, the last of which is followed by a reveal; None for as
            many as fill the row, whatever its length. Where the only reveal is at the end, that is the
            longest session that ends in the row.
        predict: which next tokens are asked.
        actions: this and all that follow are fields of `SessionFormat`.

    Example:
        >>> task = ReplLanguage(variables=3, commands=1, predict="values")
        >>> batch = task.batch(1, 40, np.random.default_rng(1))
        >>> task.tokenizer.decode(batch.tokens[0]).splitlines()[3:]
        ['>>> a, c = c, a', ">>> print('c', c)", 'c 1']
        >>> batch.lengths.tolist(), [task.token_names[token] for token in batch.targets[batch.counted]]
        ([34], ['1'])
    """

    specified_as = "repl"
    specified_by = (*SessionFormat().to_fields(), "commands", "predict")

    @checked
    def __init__(
        self,
        variables: int = 3,
        reveal_every: int = 4,
        commands: int | None = None,
        predict: Predict = "all",
        *,
        actions: Actions = "swaps",
        assignment: str = "moved",
        initial: Initial = "ordered",
        reveal: str = "partial",
        spacing: Spacing = "fixed",
        reveal_first: bool = False,
        hidden: str | None = None,
        probability: float = 0.5,
        hidden_fraction: float = 1.0,
        name: str = "repl",
        description: str | None = None,
    ) -> None:
        self.form = SessionFormat(
            variables,
            actions,
            assignment,
            initial,
            reveal,
            spacing,
            reveal_every,
            reveal_first,
            hidden,
            probability,
            hidden_fraction,
        )
        check_at_least_one(commands=1 if commands is None else commands)
        self.commands = None if commands is None else check_integer("commands", commands)
        self.predict = predict
        self.tables = token_tables(self.form)
        self.tokenizer = self.tables.tokenizer
        self.token_names = self.target_names = self.tokenizer.names
        self.name = name
        self.description = description or _described(self.form, predict)

    @classmethod
    @checked
    def from_fields(
        cls, given: dict[str, Any], name: str = "repl", description: str | None = None
    ) -> "ReplLanguage":
        """Return the task of the fields that ``specification`` gives; those left out have their defaults.

        InputError if a field is unknown, or as for the class.
        """
        for field in given:
            if field not in cls.specified_by:
                raise unknown_name("field of repl", str(field), cls.specified_by)
        return cls(**given, name=name, description=description)

    def sessions(self, count: int, rng: np.random.Generator, length: int | None = None) -> Sessions:
        """Draw sessions that are not yet tokens, for their text and states.

        Where ``commands`` is None, they fill rows of ``length`` tokens.
        """
        return sample_sessions(
            self.form, count, rng, commands=self.commands, length=length, tables=self.tables
        )

    def batch(
        self, batch_size: int, length: int, rng: np.random.Generator, start: ArrayLike | None = None
    ) -> Batch:
        """Draw sessions; InputError if ``start`` is given, since they do not go on in the next batch."""
        self.check_fresh(batch_size, length, rng, start)
        return self.batch_of(self.sessions(batch_size, rng, length), length)

    def batch_of(self, sessions: Sessions, length: int) -> Batch:
        """Return sessions of this task as a batch, cut or padded to the length."""
        tokens, shares, totals = sessions.tokens(length + 1)
        lengths = np.minimum(totals, length)
        if self.predict == "all":
            asked = np.arange(length) < lengths[:, None]
        else:
            asked = shares[:, 1:] >= _LEAST_SHARE[self.predict]
        ended = lengths < length
        given = tokens[:, :-1].copy()
        return Batch(
            given, tokens[:, 1:].copy(), asked.astype(np.float32), lengths=lengths if ended.any() else None
        )

    def value_places(self, batch: Batch) -> NDArray[np.bool_]:
        """Return where the target is a revealed value, ``[batch, length]``, whatever is asked."""
        is_value = batch.targets >= self.tokenizer.first_value
        return is_value & (batch.tokens != self.tokenizer.numbers[" = "])

    @property
    def longest_session(self) -> int:
        """The greatest number of tokens of a session of ``commands`` actions.

        InputError if ``commands`` is None.
        """
        if self.commands is None:
            raise InputError("commands is None, so that sessions are as long as their row; give a number")
        lengths, form = self.tables.lengths, self.form
        actions = lengths[self.tables.first_seen : self.tables.first_reveal].max()
        reveals = {"fixed": -(-self.commands // form.reveal_every), "random": self.commands, "end": 1}
        before = lengths[1 : len(form.preamble) + 1].sum()
        shown = (reveals[form.spacing] + form.reveal_first) * lengths[self.tables.first_reveal :].max()
        return int(before + self.commands * actions + shown) - 1

    def ceiling(
        self,
        length: int,
        *,
        last: int | None = None,
        sequences: int = 1024,
        rng: np.random.Generator | None = None,
    ) -> Ceiling | None:
        """Return what the exact filter reaches, given the tokens only; None if every next token is asked.

        Without hidden actions every value can be known. With them the expectation over what is hidden is
        exact, that over the tokens the mean of a sample; None where there are too many arrangements.
        """
        check_at_least_one(length=length, last=1 if last is None else last, sequences=sequences)
        if self.predict == "all":
            return None
        if self.form.hidden is None:
            return Ceiling(1.0, 0.0)
        try:
            self.automaton  # noqa: B018
        except InputError:
            return None
        return super().ceiling(length, last=last, sequences=sequences, rng=rng)

    def _uncertain(self, batch: Batch) -> NDArray[np.bool_]:
        return self.value_places(batch)

    @cached_property
    def automaton(self) -> ProbabilisticAutomaton:  # type: ignore[override]
        """The probabilistic automaton of the arrangements; see `session_automaton`."""
        return session_automaton(self.form)

    @cached_property
    def arrangements(self) -> IntArray:
        """The variable, from 0, whose first value each variable holds in each state, ``[states, n]``."""
        automaton = self.automaton
        names = [automaton.value_names[reveal] for reveal in automaton.reveals]
        numbers = [np.array([int(name) - 1 for name in values]) for values in names]
        return np.stack([n[reading] for n, reading in zip(numbers, automaton.readings, strict=True)], axis=1)

    @cached_property
    def _grammar(self) -> SessionGrammar:
        return SessionGrammar(self.form, self.tables)

    def read(self, tokens: ArrayLike) -> Reading:
        """Return what tokens say; InputError if they are no sessions of this format from their beginning."""
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
        return beliefs * (which >> self.arrangements[:, variable] & 1)

    def fully_revealed(self, tokens: ArrayLike) -> NDArray[np.bool_]:
        """Return after which tokens a full reveal is complete, ``[batch, length]``.

        At the last value of a print of all variables whose first values all differ, and where one value
        leaves a single arrangement.
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
        shows = np.zeros((len(self.arrangements), self.output_size))
        shows[np.arange(len(self.arrangements)), first + initial[self.arrangements[:, variable]]] = 1
        return beliefs @ shows

    @property
    def _action_count(self) -> int:
        return self.tables.first_reveal - self.tables.first_seen

    def _specified(self) -> dict[str, Any]:
        return {**self.form.to_fields(), "commands": self.commands, "predict": self.predict}


def _described(form: SessionFormat, predict: Predict) -> str:
    asked = {
        "all": "every next token",
        "reveals": "the output of the reveals",
        "values": "the revealed values",
    }[predict]
    actions = {"swaps": "are swapped"}.get(str(form.actions), "are permuted")
    every = form.reveal_every
    when = {
        "fixed": "every action" if every == 1 else f"every {every} actions",
        "random": f"one action in {every}",
        "end": "the last action",
    }[form.spacing]
    shown = "all are" if form.reveal == "full" else "one is"
    unseen = "" if form.hidden is None else ", some or all of it unseen"
    what = f"{form.variables} variables {actions}{unseen}"
    return f"{asked} of Python sessions: {what}, {shown} revealed after {when}"
