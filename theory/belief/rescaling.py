"""The gains that a linear RNN may use against the decay, and how far they carry.

Allowed is what stays linear in the state: b̃ ← g(y) N_y b̃, with a gain g > 0 that depends on the
observation y (the token, and the value at a reveal), not on the past. What gains change is the log-mass

    L_T = Σ_t (log g(y_t) + log Pr(y_t | past)).

With φ a solution of φ(s) − E_s φ(target) = E_s c for the summand c, L_T = M_T + φ(start) − φ(end), where M is
a martingale with the increments D(e) = c(e) + φ(target) − φ(source) along an edge e. V is E D² in the
stationary chain, and the mean time to leave (−a, b) tends to ab/V tokens. ``docs/belief.md`` has statements
and proofs.
"""

from dataclasses import dataclass

import numpy as np
import torch

from automata.checks import check_number
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from theory.belief.reachable import BeliefChain, FloatArray, check_chain
from theory.belief.underflow import format_information

ROUNDING = 1e-9
"""Nats: far more than rounding adds up to in a log-mass, and far less than a token changes it by."""


@dataclass(frozen=True)
class Gains:
    """Gains that cancel the drift, and the variance of the log-mass that is left, per token.

    Attributes:
        per_token: V for one constant gain at every token.
        per_reveal: V for one constant gain at every reveal.
        per_observation: V for the best gain g(y); no g has less.
        log_gains: log g of the last, by (token, value).
    """

    per_token: float
    per_reveal: float
    per_observation: float
    log_gains: dict[tuple[int, int], float]


def best_gains(chain: BeliefChain) -> Gains:
    """Return the best gains for a chain, and what variance each kind of gain leaves.

    V of each is exact up to rounding: martingale increments by solving φ, and least squares over log g.
    InputError if the chain is None, or has several closed classes, which may have different rates.

    Example:
        A "0", or a "1" that fails with probability 0.1, then the parity. The best gain tells "1" from "0",
        and no gain knows what has failed.

        >>> from automata.probabilistic.named_pfsas import noisy_parity
        >>> from theory.belief.reachable import belief_chain
        >>> from theory.belief.reachable import TokenSource
        >>> automaton = noisy_parity(0.1)
        >>> gains = best_gains(belief_chain(automaton, TokenSource.fixed_period(automaton, 1)))
        >>> [round(v, 4) for v in (gains.per_token, gains.per_reveal, gains.per_observation)]
        [0.1218, 0.1218, 0.1086]
    """
    check_chain(chain)
    classes = chain.recurrent_classes()
    if len(classes) != 1:
        raise InputError(
            f"chain has {len(classes)} closed classes, whose rates may differ; give an automaton whose "
            "beliefs all lead to each other in the end"
        )
    inside = np.isin(chain.sources, classes[0])
    often = chain.edge_frequencies()[inside]
    tokens, values = chain.tokens[inside], chain.values[inside]
    pairs = list(dict.fromkeys(zip(tokens.tolist(), values.tolist(), strict=True)))
    columns = [chain.costs[inside], chain.reveals[inside]]
    columns += [((tokens == token) & (values == value)).astype(np.float64) for token, value in pairs]
    means, increments = _increments(chain, np.stack(columns, axis=1))
    cost, reveal, shown = increments[:, 0], increments[:, 1], increments[:, 2:]

    def variance(left: FloatArray) -> float:
        found = float(often @ left**2)
        return found if found > 1e-20 else 0.0  # squares of the rounding of float64

    root = np.sqrt(often)
    fitted = np.linalg.lstsq(root[:, None] * shown, root * cost, rcond=1e-10)[0]
    drift = float(means[0] - means[2:] @ fitted)  # the same constant at every token takes it away
    log_gains = {pair: float(gain + drift) for pair, gain in zip(pairs, fitted, strict=True)}
    rate = float(means[0] / means[1])
    return Gains(variance(cost), variance(cost - rate * reveal), variance(cost - shown @ fitted), log_gains)


def exit_length(variance: float, dtype: torch.dtype) -> float:
    """Return ab/V, the expected number of tokens until the mass, from 1 on, leaves a format's normal numbers.

    V is the variance per token; infinity is returned for 0. InputError if the variance is below 0, or the
    type not a floating-point one.

    Example:
        >>> round(exit_length(0.17, torch.float32)), exit_length(0.0, torch.float32)
        (45581, inf)
    """
    if not check_number("variance", variance) >= 0:
        raise InputError(f"variance is {variance}; give one of at least 0")
    low, high = format_range(dtype)
    return low * high / variance if variance else float("inf")


def format_range(dtype: torch.dtype) -> tuple[float, float]:
    """Return −log of the smallest normal number and log of the largest, in nats."""
    info = format_information(dtype)
    return -float(np.log(info.smallest_normal)), float(np.log(info.max))


def exit_lengths(
    chain: BeliefChain,
    log_gains: FloatArray,
    low: float,
    high: float,
    sequences: int,
    longest: int,
    rng: np.random.Generator,
) -> IntArray:
    """Draw sequences and return after how many tokens the log-mass leaves [−low, high].

    On a bound it is inside, up to rounding: where costs are multiples of log 2, as the smallest normal number
    is a power of 2, it comes to lie there exactly, and rounding would decide.

    Shapes: log_gains ``[edges]``.
    """
    order = np.argsort(chain.sources, kind="stable")
    ends = np.cumsum(chain.probabilities[order])
    steps = (log_gains - chain.costs)[order]
    last = np.searchsorted(chain.sources[order], np.arange(len(chain.beliefs)), side="right") - 1
    first = np.searchsorted(chain.sources[order], np.arange(len(chain.beliefs)))
    starts = np.concatenate([[0.0], ends])[first]
    node, total = np.zeros(sequences, dtype=np.int64), np.zeros(sequences)
    left = np.full(sequences, longest)
    alive = np.arange(sequences)
    for position in range(longest):
        drawn = np.searchsorted(ends, starts[node] + rng.random(len(node)), side="right")
        edge = np.minimum(drawn, last[node])
        total = total + steps[edge]
        node = chain.targets[order[edge]]
        out = (total < -low - ROUNDING) | (total > high + ROUNDING)
        if out.any():
            left[alive[out]] = position + 1
            alive, node, total = alive[~out], node[~out], total[~out]
            if not len(alive):
                break
    return left


def edge_gains(chain: BeliefChain, gains: Gains) -> FloatArray:
    """Return log g of every edge of the chain, 0 for observations that do not recur, ``[edges]``."""
    pairs = zip(chain.tokens.tolist(), chain.values.tolist(), strict=True)
    return np.array([gains.log_gains.get(pair, 0.0) for pair in pairs])


def _increments(chain: BeliefChain, summands: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean per token and the martingale increments of sums along the closed class."""
    (nodes,) = chain.recurrent_classes()
    inside = np.isin(chain.sources, nodes)
    numbers = np.full(len(chain.beliefs), -1)
    numbers[nodes] = np.arange(len(nodes))
    source, target = numbers[chain.sources[inside]], numbers[chain.targets[inside]]
    often = chain.stationary()[nodes]
    matrix = chain.matrix()[nodes][:, nodes].toarray()
    expected = np.zeros((len(nodes), summands.shape[1]))
    np.add.at(expected, source, chain.probabilities[inside, None] * summands)
    means = often @ expected
    potential = np.linalg.solve(np.eye(len(nodes)) - matrix + often, expected - means)
    return means, summands - means + potential[target] - potential[source]
