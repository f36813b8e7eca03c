"""The law of tokens and the Markov chain of the beliefs that they reach, exact where these are finitely many.

A node is a belief with a phase of the token source; an edge is an observation y (an action, or a reveal
with its value) with its probability, token and value together. The chain of beliefs is Markov, for Pr(y |
past) depends on the past through the belief alone. Beliefs that agree to 12 decimals count as one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import spsolve

from automata.checks import check_integer, check_number, check_type
from automata.errors import InputError
from automata.monoids.cayley import IntArray, float_array
from automata.probabilistic.pfsa import NO_VALUE, ProbabilisticAutomaton

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False, init=False)
class TokenSource:
    """Independent tokens whose distribution depends on the position modulo a period.

    Tokens do not depend on the hidden state; ``phases`` ``[period, tokens]`` are their distributions.
    ``fixed_period`` and ``independent`` make the usual two. InputError if phases are no rows of numbers, or a
    row is no distribution.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> TokenSource.fixed_period(noisy_parity(0.1), actions=2).phases.tolist()
        [[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    """

    phases: FloatArray

    def __init__(self, phases: ArrayLike) -> None:
        rows = float_array("phases", phases, "rows of numbers, [period, tokens]")
        # sums of rounded float64 probabilities; what is not a number fulfils neither
        if (
            rows.ndim != 2
            or not rows.size
            or not (rows.min() >= 0 and np.abs(rows.sum(axis=1) - 1).max() <= 1e-9)
        ):
            raise InputError(
                f"phases has shape {list(rows.shape)}; give rows of [period, tokens], none negative, of sum 1"
            )
        rows.setflags(write=False)
        object.__setattr__(self, "phases", rows)

    @classmethod
    def fixed_period(
        cls, automaton: ProbabilisticAutomaton, actions: int, reveals: Sequence[str] | None = None
    ) -> "TokenSource":
        """Return so many actions, each drawn uniformly, then a reveal, drawn uniformly; and again."""
        check_integer("actions", actions, 0)
        acting, revealing = _uniform(automaton, reveals)
        return cls([acting] * actions + [revealing])

    @classmethod
    def independent(
        cls,
        automaton: ProbabilisticAutomaton,
        reveal_probability: float,
        reveals: Sequence[str] | None = None,
    ) -> "TokenSource":
        """Return tokens that are a reveal with this probability, else an action, each drawn uniformly."""
        if not 0 < check_number("reveal_probability", reveal_probability) <= 1:
            raise InputError(f"reveal_probability is {reveal_probability}; give a number in (0, 1]")
        acting, revealing = _uniform(automaton, reveals)
        return cls([(1 - reveal_probability) * acting + reveal_probability * revealing])

    def sample(self, sequences: int, length: int, rng: np.random.Generator) -> IntArray:
        """Return tokens, shape ``[sequences, length]``, from the first phase on."""
        columns = [
            rng.choice(self.phases.shape[1], size=sequences, p=self.phases[position % len(self.phases)])
            for position in range(length)
        ]
        return np.stack(columns, axis=1)

    def reveals_per_token(self, automaton: ProbabilisticAutomaton) -> float:
        """Return the share of tokens that are reveals, in the mean over a period."""
        return float(self.phases[:, len(automaton.actions) :].sum() / len(self.phases))


def check_source(automaton: ProbabilisticAutomaton, source: TokenSource, *, reveals: bool = False) -> None:
    """Refuse a source with other tokens than the automaton's."""
    check_type("automaton", automaton, ProbabilisticAutomaton, "give a ProbabilisticAutomaton")
    check_type("source", source, TokenSource, "give one such as TokenSource.fixed_period(automaton, 1)")
    if source.phases.shape[1] != len(automaton.token_names):
        raise InputError(
            f"source has {source.phases.shape[1]} tokens and the automaton {len(automaton.token_names)}; "
            "give a source made for it"
        )
    if reveals and not source.phases[:, len(automaton.actions) :].any():
        raise InputError(
            "source draws no reveal, so that there is no rate per reveal; give one that draws some"
        )


def _uniform(
    automaton: ProbabilisticAutomaton, reveals: Sequence[str] | None
) -> tuple[FloatArray, FloatArray]:
    chosen = automaton.encode(automaton.reveals if reveals is None else reveals)
    if not automaton.actions or not len(chosen) or chosen.min() < len(automaton.actions):
        raise InputError(
            f"reveals is {reveals} of {len(automaton.actions)} actions; "
            "name reveals of an automaton with actions"
        )
    acting, revealing = np.zeros((2, len(automaton.token_names)))
    acting[: len(automaton.actions)] = 1 / len(automaton.actions)
    revealing[chosen] = 1 / len(chosen)
    return acting, revealing


DECIMALS = 12
"""Beliefs that agree to so many count as one, and values of smaller probability are left out."""


def outcomes(
    automaton: ProbabilisticAutomaton, belief: FloatArray, token: int
) -> Iterator[tuple[int, float, FloatArray]]:
    """Every value that a token can show at a belief, with its probability and the belief after it."""
    current = np.asarray(belief, dtype=np.float64)
    if token < len(automaton.actions):
        yield NO_VALUE, 1.0, automaton.matrices[token] @ current
        return
    reading = automaton.readings[token - len(automaton.actions)]
    for value in range(int(reading.max()) + 1):
        seen = np.where(reading == value, current, 0.0)
        mass = float(seen.sum())
        if mass > 10.0**-DECIMALS:
            yield value, mass, seen / mass


@dataclass(frozen=True, eq=False)
class BeliefChain:
    """A finite chain of beliefs.

    Attributes:
        beliefs: ``[nodes, states]``; node 0 is the start.
        phases: ``[nodes]``.
        sources: the node that each edge leaves, ``[edges]``.
        targets: the node that it leads to.
        tokens: what is observed along it.
        values: what a reveal shows, ``NO_VALUE`` at an action.
        probabilities: of the edge, given its source.
        costs: −log Pr(value | belief, token), 0 at an action.
        period: of the token source.
        largest_merge: how far beliefs that were joined as one lie apart, in an entry.
    """

    beliefs: FloatArray
    phases: IntArray
    sources: IntArray
    targets: IntArray
    tokens: IntArray
    values: IntArray
    probabilities: FloatArray
    costs: FloatArray
    period: int
    largest_merge: float

    @property
    def reveals(self) -> FloatArray:
        """1 at the edges that are reveals, 0 at those that are actions."""
        return (self.values != NO_VALUE).astype(np.float64)

    def matrix(self) -> "sparse.csr_array[np.float64]":
        """The transition matrix of the nodes, rows of sum 1."""
        size = len(self.beliefs)
        return sparse.csr_array((self.probabilities, (self.sources, self.targets)), shape=(size, size))

    def recurrent_classes(self) -> list[IntArray]:
        """The closed classes of nodes that lead to each other."""
        count, labels = connected_components(self.matrix(), directed=True, connection="strong")
        left = np.unique(labels[self.sources[labels[self.sources] != labels[self.targets]]])
        return [np.flatnonzero(labels == label) for label in range(count) if label not in left]

    def stationary(self) -> FloatArray:
        """Return how often each node is visited in the long run, from the start, ``[nodes]``.

        Exact up to the rounding of linear solves: absorption into each closed class times its stationary law.
        """
        matrix, classes = self.matrix(), self.recurrent_classes()
        found = np.zeros(len(self.beliefs))
        transient = np.setdiff1d(np.arange(len(found)), np.concatenate(classes))
        for nodes in classes:
            if 0 in nodes or len(classes) == 1:
                reached = 1.0
            else:
                inside = sparse.eye_array(len(transient)) - matrix[transient][:, transient]
                into: FloatArray = matrix[transient][:, nodes].sum(axis=1)
                reached = float(spsolve(inside.tocsc(), into)[np.flatnonzero(transient == 0)[0]])
            block = (matrix[nodes][:, nodes].T - sparse.eye_array(len(nodes))).tolil()
            block[0] = 1.0  # one equation of the balance is the sum of the others
            right = np.zeros(len(nodes))
            right[0] = 1.0
            found[nodes] = reached * np.atleast_1d(spsolve(block.tocsc(), right))
        return found

    def edge_frequencies(self) -> FloatArray:
        """Return how often each edge is taken in the long run, per token, ``[edges]``."""
        return self.stationary()[self.sources] * self.probabilities


def belief_chain(
    automaton: ProbabilisticAutomaton, source: TokenSource, most_beliefs: int = 2000
) -> BeliefChain | None:
    """Return the chain of the beliefs that can be reached, or None if they are more than ``most_beliefs``.

    They are finitely many where hidden actions are deterministic, or where all reveals of the source are
    full and each of its periods has one for certain; and by luck elsewhere. InputError if the source is none
    of this automaton's.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> automaton = noisy_parity(0.1)
        >>> chain = belief_chain(automaton, TokenSource.fixed_period(automaton, actions=1))
        >>> len(chain.beliefs), len(chain.costs), chain.stationary().sum().round(12)
        (6, 10, np.float64(1.0))
    """
    check_source(automaton, source)
    period = len(source.phases)
    beliefs, phases = [np.array(automaton.initial)], [0]
    numbers = {(0, _key(beliefs[0])): 0}
    edges: list[tuple[int, int, int, int, float, float]] = []
    current, largest = 0, 0.0
    while current < len(beliefs):
        phase, belief = phases[current], beliefs[current]
        for token in np.flatnonzero(source.phases[phase]).tolist():
            for value, mass, after in outcomes(automaton, belief, token):
                key = ((phase + 1) % period, _key(after))
                if key not in numbers:
                    numbers[key] = len(beliefs)
                    beliefs.append(after)
                    phases.append(key[0])
                largest = max(largest, float(np.abs(beliefs[numbers[key]] - after).max()))
                probability = float(source.phases[phase, token]) * mass
                cost = -float(np.log(mass)) if value != NO_VALUE else 0.0
                edges.append((current, numbers[key], token, value, probability, cost))
        if len(beliefs) > most_beliefs:
            return None
        current += 1
    sources, targets, tokens, values = np.array([edge[:4] for edge in edges], dtype=np.int64).T
    probabilities, costs = np.array([edge[4:] for edge in edges]).T
    nodes = np.array(beliefs), np.array(phases)
    return BeliefChain(*nodes, sources, targets, tokens, values, probabilities, costs, period, largest)


def check_chain(chain: object) -> None:
    """Refuse what is no chain of beliefs."""
    check_type(
        "chain", chain, BeliefChain, "give one of belief_chain, which is None where beliefs are too many"
    )


def _key(belief: FloatArray) -> bytes:
    return (np.round(belief, DECIMALS) + 0.0).tobytes()
