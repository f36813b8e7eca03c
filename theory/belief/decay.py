"""How fast the mass of a linear filter decays: the conditional entropy rate of what is revealed.

The mass 1ᵀb̃ of the unnormalised belief is the likelihood of the revealed values. So −E log 1ᵀb̃ per reveal
tends to their conditional entropy rate h given the tokens, which come from a ``TokenSource``; a *cycle* is
one period of it. Three ways lead to h: bounds per cycle that close in, with and without the state at the
beginning (Theorem 2), a series where all reveals are full (Theorem 3), and the mean of −log Pr(value | b)
over the chain of beliefs where that is finite. ``docs/belief.md`` has statements and proofs.

**The worst sequence** is a cycle of beliefs: on a finite chain the largest growth of −log 1ᵀb̃ per reveal is
the largest ratio of cost to reveals of any cycle, as a sequence is cycles and a rest no longer than the
chain. The maximum is found by Dinkelbach's iteration: for the ratio λ so far, look for a cycle with
Σ(cost − λ · reveals) > 0 by longest paths (Bellman and Ford), take its ratio, and repeat until there is none.
Ratios grow, and cycles are finitely many.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import breadth_first_order
from scipy.special import entr

from automata.checks import check_integer
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from theory.belief.reachable import (
    DECIMALS,
    BeliefChain,
    FloatArray,
    TokenSource,
    belief_chain,
    check_chain,
    check_source,
)


def mean_transition(automaton: ProbabilisticAutomaton, source: TokenSource) -> FloatArray:
    """Return M̄, the mean transition over one cycle, ``[states, states]``; a reveal moves nothing."""
    moved = np.eye(len(automaton.states))
    for phase in source.phases:
        acting = phase[: len(automaton.actions)]
        step = np.einsum("a,aij->ij", acting, automaton.matrices) + (1 - acting.sum()) * np.eye(len(moved))
        moved = step @ moved
    return moved


def stationary_state(automaton: ProbabilisticAutomaton, source: TokenSource) -> FloatArray:
    """Return the stationary distribution of the hidden state at the beginning of a cycle, ``[states]``.

    InputError if the source is none of this automaton's, or there are several stationary
    distributions: rates may then depend on the start.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> automaton = noisy_parity(0.1)
        >>> stationary_state(automaton, TokenSource.fixed_period(automaton, 2)).round(12).tolist()
        [0.5, 0.5]
    """
    check_source(automaton, source)
    moved = mean_transition(automaton, source)
    _, sizes, right = np.linalg.svd(moved - np.eye(len(moved)))
    # singular values of a matrix of entries up to 1, rounded in float64
    if len(sizes) > 1 and sizes[-2] < 1e-10:
        raise InputError(
            "the automaton has several stationary distributions under this source, and its rate may "
            "depend on the start; give one whose states all lead to each other"
        )
    return np.asarray(right[-1] / right[-1].sum())


def entropy_bounds(
    automaton: ProbabilisticAutomaton, source: TokenSource, cycles: int, most_beliefs: int = 200_000
) -> list[tuple[float, float]]:
    """Return the bounds of theorem 2 per reveal, in nats, for k = 1, 2, … up to ``cycles``.

    They stop earlier if there are more beliefs than ``most_beliefs``. Both follow the distribution over
    beliefs; those that agree to 12 decimals count as one, and values of probability below 10⁻¹² are left out.
    InputError if the source is none of this automaton's or draws no reveal, there are several stationary
    distributions, or cycles is below 1.

    Example:
        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> automaton = noisy_parity(0.1)
        >>> bounds = entropy_bounds(automaton, TokenSource.fixed_period(automaton, 1), 2)
        >>> [(round(low, 4), round(high, 4)) for low, high in bounds]
        [(0.1625, 0.6931), (0.1625, 0.1625)]
    """
    check_integer("cycles", cycles, 1)
    check_source(automaton, source, reveals=True)
    bounds: list[tuple[float, float]] = []
    for low, high, beliefs in cycle_bounds(automaton, source):
        bounds.append((low, high))
        if len(bounds) == cycles or beliefs > most_beliefs:
            break
    return bounds


def cycle_bounds(
    automaton: ProbabilisticAutomaton, source: TokenSource
) -> Iterator[tuple[float, float, int]]:
    """Yield, for k = 1, 2, …, both bounds per reveal and the number of different beliefs followed."""
    start = stationary_state(automaton, source)
    reveals = source.reveals_per_token(automaton) * len(source.phases)
    informed, ignorant = (np.eye(len(start)), start), (start[None, :], np.ones(1))
    while True:
        informed, low = _cycle(automaton, source, *informed)
        ignorant, high = _cycle(automaton, source, *ignorant)
        yield low / reveals, high / reveals, max(len(informed[0]), len(ignorant[0]))


def _cycle(
    automaton: ProbabilisticAutomaton, source: TokenSource, beliefs: FloatArray, weights: FloatArray
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """Follow weighted beliefs over one cycle; return them, and the expected entropy of its values."""
    entropy = 0.0
    for phase in source.phases:
        moved, carried = [], []
        for token in np.flatnonzero(phase).tolist():
            if token < len(automaton.actions):
                moved.append(beliefs @ automaton.matrices[token].T)
                carried.append(phase[token] * weights)
                continue
            reading = automaton.readings[token - len(automaton.actions)]
            for value in range(int(reading.max()) + 1):
                seen = np.where(reading == value, beliefs, 0.0)
                mass = seen.sum(axis=1)
                possible = mass > 10.0**-DECIMALS
                seen, mass = seen[possible], mass[possible]
                share = phase[token] * weights[possible] * mass
                entropy -= float(share @ np.log(mass))
                moved.append(seen / mass[:, None])
                carried.append(share)
        beliefs, weights = merged(np.concatenate(moved), np.concatenate(carried))
    return (beliefs, weights), entropy


def merged(beliefs: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join beliefs that agree to 12 decimals."""
    rounded = np.round(beliefs, DECIMALS) + 0.0
    # Sorted column by column: np.unique compares whole rows, which takes several times as long.
    order = np.lexsort(rounded.T[::-1])
    new = np.ones(len(order), dtype=bool)
    new[1:] = (rounded[order[1:]] != rounded[order[:-1]]).any(axis=1)
    group = np.empty_like(order)
    group[order] = np.cumsum(new) - 1
    return beliefs[order[new]], np.bincount(group, weights).astype(np.float64)


@dataclass(frozen=True)
class DecayRate:
    """The expected decrease of log 1ᵀb̃ per reveal, in nats.

    Attributes:
        lower: bound; equal to the upper one for the first two methods.
        upper: likewise.
        method: "finite beliefs", exact up to rounding: those joined agree to 10⁻¹⁴; "joined
            beliefs": they are infinitely many, those that agree to 12 decimals were joined, and no error is
            proved; "full reveals": a series with its rest;
            "bounds".
        depth: tokens or cycles that the method looked at, or beliefs.
    """

    lower: float
    upper: float
    method: str
    depth: int

    @property
    def rate(self) -> float:
        """The middle of the bounds."""
        return (self.lower + self.upper) / 2


def decay_rate(
    automaton: ProbabilisticAutomaton,
    source: TokenSource,
    precision: float = 1e-3,
    most_beliefs: int = 2000,
    most_cycles: int = 60,
) -> DecayRate:
    """Return the rate: up to rounding where beliefs are finitely many, else between bounds.

    Where only bounds are known, it stops once they differ by ``precision`` times the upper one.
    ``most_beliefs`` limits the finite chain; bounds take twenty times as many, full reveals a hundred times.
    ``most_cycles`` limits the bounds, and the actions between two full reveals. InputError if the source is
    none of this automaton's or draws no reveal; or rates may depend on the start, as there are several
    stationary distributions.

    Example:
        A full reveal after each "1" or "0", one of which fails with probability 0.1: half the entropy of 0.1.

        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> automaton = noisy_parity(0.1)
        >>> found = decay_rate(automaton, TokenSource.fixed_period(automaton, 1))
        >>> round(found.rate, 6), found.method, found.depth
        (0.162541, 'finite beliefs', 6)
    """
    check_source(automaton, source, reveals=True)
    chain = belief_chain(automaton, source, most_beliefs)
    if chain is not None:
        often = chain.edge_frequencies()
        rate = float(often @ chain.costs / (often @ chain.reveals))
        exact = chain.largest_merge < 1e-14  # no more than rounding of the same belief, reached twice
        return DecayRate(rate, rate, "finite beliefs" if exact else "joined beliefs", len(chain.beliefs))
    used = np.flatnonzero(source.phases[:, len(automaton.actions) :].sum(axis=0))
    if len(source.phases) == 1 and all(automaton.is_full(automaton.reveals[reveal]) for reveal in used):
        return _full_reveals(automaton, source, precision, most_cycles, 100 * most_beliefs)
    best = None
    for cycle, (low, high, beliefs) in enumerate(cycle_bounds(automaton, source), start=1):
        best = DecayRate(low, high, "bounds", cycle)
        if high - low <= precision * high or cycle >= most_cycles or beliefs > 20 * most_beliefs:
            break
    assert best is not None
    return best


def _full_reveals(
    automaton: ProbabilisticAutomaton, source: TokenSource, precision: float, most: int, most_beliefs: int
) -> DecayRate:
    """Theorem 3 for independent tokens: a series over the number of actions between two reveals."""
    acting = source.phases[0, : len(automaton.actions)]
    beliefs = np.eye(len(automaton.states))
    weights = stationary_state(automaton, source)  # sums to Pr(no reveal yet)
    reveal = 1 - float(acting.sum())
    total, tokens = 0.0, 0
    largest = float(np.log(len(automaton.states)))
    for tokens in range(most + 1):  # noqa: B007
        total += reveal * float(weights @ entr(beliefs).sum(axis=1))
        acted = [(beliefs @ automaton.matrices[a].T, acting[a] * weights) for a in np.flatnonzero(acting)]
        beliefs, weights = merged(
            np.concatenate([moved for moved, _ in acted]), np.concatenate([weight for _, weight in acted])
        )
        if weights.sum() * largest <= precision * total or len(beliefs) > most_beliefs:
            break
    # What is left: at most log N for each, and at least the entropy so far, if that cannot fall.
    doubly = np.abs(automaton.matrices.sum(axis=2) - 1).max() < 1e-9
    least = float(weights @ entr(beliefs).sum(axis=1)) if doubly else 0.0
    return DecayRate(total + least, total + float(weights.sum()) * largest, "full reveals", tokens)


@dataclass(frozen=True)
class WorstDecay:
    """The fastest decay.

    Attributes:
        rate: per reveal, in nats.
        cycle: the observations (token, value) to repeat, after those of ``approach``.
        approach: observations from the start to the cycle.
    """

    rate: float
    cycle: tuple[tuple[int, int], ...]
    approach: tuple[tuple[int, int], ...]


def worst_decay(chain: BeliefChain) -> WorstDecay:
    """Return the sequence of tokens and values that makes the mass decay fastest per reveal.

    InputError if the chain is None, or none of its cycles has a reveal.

    Example:
        Parity whose "1" fails with probability 0.1, fails every time:

        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> from theory.belief.reachable import belief_chain
        >>> from theory.belief.reachable import TokenSource
        >>> automaton = noisy_parity(0.1)
        >>> worst = worst_decay(belief_chain(automaton, TokenSource.fixed_period(automaton, 1)))
        >>> round(float(np.exp(-worst.rate)), 12), [token for token, _ in worst.cycle]
        (0.1, [1, 2])
    """
    check_chain(chain)
    rate, cycle = -1.0, np.zeros(0, dtype=np.int64)
    while True:
        found = _positive_cycle(chain, chain.costs - rate * chain.reveals)
        if found is None:
            break
        reveals = float(chain.reveals[found].sum())
        if not reveals:
            raise InputError("the chain has a cycle that costs without a reveal; give one of a belief chain")
        rate, cycle = float(chain.costs[found].sum() / reveals), found
    if not len(cycle):
        raise InputError("chain has no cycle with a reveal; give a source that draws reveals")
    return WorstDecay(
        rate, _observed(chain, cycle), _observed(chain, _path(chain, int(chain.sources[cycle[0]])))
    )


def _positive_cycle(chain: BeliefChain, weights: FloatArray) -> IntArray | None:
    """Return the edges of a cycle of positive weight, in order, or None."""
    size = len(chain.beliefs)
    longest, came = np.zeros(size), np.full(size, -1)
    slack = 1e-12 * (1 + np.abs(weights).max())  # above the rounding of sums
    improved = np.zeros(0, dtype=np.int64)
    for _ in range(size + 1):
        offered = longest[chain.sources] + weights
        improved = np.flatnonzero(offered > longest[chain.targets] + slack)
        if not len(improved):
            return None
        improved = improved[np.argsort(offered[improved], kind="stable")]  # the best is written last
        longest[chain.targets[improved]] = offered[improved]
        came[chain.targets[improved]] = improved
    node = int(chain.targets[improved[-1]])
    for _ in range(size):
        node = int(chain.sources[came[node]])
    edges: list[int] = []
    current = node
    while not edges or current != node:
        edges.append(int(came[current]))
        current = int(chain.sources[came[current]])
    return np.array(edges[::-1])


def _path(chain: BeliefChain, node: int) -> IntArray:
    """Return the edges of a shortest path from the start."""
    _, before = breadth_first_order(chain.matrix(), 0)
    edges = []
    while node:
        edges.append(np.flatnonzero((chain.sources == before[node]) & (chain.targets == node))[0])
        node = int(before[node])
    return np.array(edges[::-1], dtype=np.int64)


def _observed(chain: BeliefChain, edges: IntArray) -> tuple[tuple[int, int], ...]:
    pairs = zip(chain.tokens[edges].tolist(), chain.values[edges].tolist(), strict=True)
    return tuple((int(token), int(value)) for token, value in pairs)
