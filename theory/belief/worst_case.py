"""The token sequence along which the mass decays fastest: a cycle of beliefs, by dynamic programming.

On a finite chain of beliefs, −log 1ᵀb̃ after a sequence is the sum of the costs of its edges. Its largest
growth per reveal, over all infinite sequences with values that can occur, is the largest ratio of cost to
reveals of any cycle: a sequence is cycles and a rest no longer than the chain. The maximum is found by
Dinkelbach's iteration: for the ratio λ so far, look for a cycle with Σ(cost − λ · reveals) > 0 by longest
paths (Bellman and Ford), take its ratio, and repeat until there is none. Ratios grow, and cycles are
finitely many.
"""

from dataclasses import dataclass

import numpy as np

from automata.errors import InputError
from automata.monoids.cayley import IntArray
from theory.belief.reachable import BeliefChain, check_chain
from theory.belief.token_source import FloatArray


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

    Raises:
        InputError: the chain is None, or none of its cycles has a reveal.

    Example:
        Parity whose "1" fails with probability 0.1, fails every time:

        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> from theory.belief.reachable import belief_chain
        >>> from theory.belief.token_source import TokenSource
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
    came = {0: -1}
    frontier = [0]
    while node not in came:
        reached = np.flatnonzero(np.isin(chain.sources, frontier))
        frontier = []
        for edge in reached.tolist():
            target = int(chain.targets[edge])
            if target not in came:
                came[target] = edge
                frontier.append(target)
    edges = []
    while came[node] >= 0:
        edges.append(came[node])
        node = int(chain.sources[came[node]])
    return np.array(edges[::-1], dtype=np.int64)


def _observed(chain: BeliefChain, edges: IntArray) -> tuple[tuple[int, int], ...]:
    pairs = zip(chain.tokens[edges].tolist(), chain.values[edges].tolist(), strict=True)
    return tuple((int(token), int(value)) for token, value in pairs)
