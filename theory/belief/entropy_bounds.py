"""Bounds on the conditional entropy rate of what is revealed, from above and below, that close on each other.

Tokens come from a ``TokenSource``; a *cycle* is one period of it, X_k its tokens, Y_k its values, S_k the
hidden state after it. M̄ is the mean transition over a cycle, π a stationary distribution of M̄, and h the
rate per cycle. From S₀ ~ π, for each k,

    H(Y_k | Y₁ … Y_{k−1}, X₁ … X_k, S₀) ≤ h ≤ H(Y_k | Y₁ … Y_{k−1}, X₁ … X_k),

the lower bound does not fall with k, the upper does not rise, and they differ by at most H(π)/k: Theorem 2 of
``docs/belief.md``, which proves it.
"""

from collections.abc import Iterator

import numpy as np

from automata.checks import check_integer
from automata.errors import InputError
from automata.probabilistic.pfsa import ProbabilisticAutomaton
from theory.belief.token_source import FloatArray, TokenSource, check_source

_DECIMALS = 12


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

    Raises:
        InputError: the source is none of this automaton's; or there are several, and rates may depend on
            the start.

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

    Raises:
        InputError: the source is none of this automaton's or draws no reveal, there are several stationary
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
                possible = mass > 10.0**-_DECIMALS
                seen, mass = seen[possible], mass[possible]
                share = phase[token] * weights[possible] * mass
                entropy -= float(share @ np.log(mass))
                moved.append(seen / mass[:, None])
                carried.append(share)
        beliefs, weights = merged(np.concatenate(moved), np.concatenate(carried))
    return (beliefs, weights), entropy


def merged(beliefs: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Join beliefs that agree to 12 decimals."""
    rounded = np.round(beliefs, _DECIMALS) + 0.0
    _, first, group = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
    return beliefs[first], np.bincount(group.ravel(), weights, minlength=len(first)).astype(np.float64)
