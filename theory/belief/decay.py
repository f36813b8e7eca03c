"""How fast the mass of a linear filter decays: the conditional entropy rate of what is revealed.

The mass 1ᵀb̃ of the unnormalised belief is the likelihood of the revealed values (Theorem 1). So −E log 1ᵀb̃
per reveal tends to their conditional entropy rate h given the tokens. These come from a ``TokenSource``; a
*cycle* is one period of it.

- Bounds of h (Theorem 2) are in ``entropy_bounds``.
- *Full reveals* (Theorem 3): the rate per reveal is Σ_s π(s) E H(M_w e_s), over the words w of actions
  between two reveals, with π stationary for E M_w: M_w e_s is the distribution of the next value given the
  last revealed state s. All reveals have to be full. Tokens have to be independent with period 1, or each
  cycle to have one reveal, at a fixed place. With several reveals in a cycle this may be false (a test).
- *Finitely many beliefs*: the cost −log Pr(Y | b) averaged over the chain of beliefs, for every source.
- Almost surely (Theorem 4): −(1/K) log 1ᵀb̃ tends to h if the mean transition over a cycle is irreducible;
  else the limit may depend on the class that the hidden state falls into.

``docs/belief.md`` has statements and proofs.
"""

from dataclasses import dataclass

import numpy as np

from automata.probabilistic.pfsa import ProbabilisticAutomaton
from theory.belief.entropy_bounds import cycle_bounds, merged, stationary_state
from theory.belief.reachable import belief_chain
from theory.belief.token_source import FloatArray, TokenSource, check_source


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
    ``most_cycles`` limits the bounds, and the actions between two full reveals.

    Raises:
        InputError: the source is none of this automaton's or draws no reveal; or rates may depend on the
            start, as there are several stationary distributions.

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
        total += reveal * float(weights @ _entropies(beliefs))
        acted = [(beliefs @ automaton.matrices[a].T, acting[a] * weights) for a in np.flatnonzero(acting)]
        beliefs, weights = merged(
            np.concatenate([moved for moved, _ in acted]), np.concatenate([weight for _, weight in acted])
        )
        if weights.sum() * largest <= precision * total or len(beliefs) > most_beliefs:
            break
    # What is left: at most log N for each, and at least the entropy so far, if that cannot fall.
    doubly = np.abs(automaton.matrices.sum(axis=2) - 1).max() < 1e-9
    least = float(weights @ _entropies(beliefs)) if doubly else 0.0
    return DecayRate(total + least, total + float(weights.sum()) * largest, "full reveals", tokens)


def _entropies(distributions: FloatArray) -> FloatArray:
    positive = np.where(distributions > 0, distributions, 1.0)
    return -(positive * np.log(positive)).sum(axis=1)
