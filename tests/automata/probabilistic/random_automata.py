"""Random small automata with a trace that can occur, and the enumeration of all hidden outcomes."""

from itertools import permutations
from itertools import product as outcomes_of

import numpy as np
from numpy.typing import NDArray

from automata.monoids.cayley import IntArray
from automata.probabilistic.named_pfsas import hidden_permutations
from automata.probabilistic.pfsa import ProbabilisticAutomaton

SMALL = 100


def random_automaton(rng: np.random.Generator) -> ProbabilisticAutomaton:
    """2–5 states, 1–3 actions with zeros among the entries, 1–2 reveals, full or partial."""
    size = int(rng.integers(2, 6))

    def distributions(count: int) -> NDArray[np.float64]:
        weights = rng.random((size, count)) * (rng.random((size, count)) < 0.6)
        weights[rng.integers(size, size=count), np.arange(count)] += 0.1  # no column of zeros
        return weights / weights.sum(axis=0)

    return ProbabilisticAutomaton(
        [f"q{state}" for state in range(size)],
        distributions(1)[:, 0],
        {f"a{action}": distributions(size) for action in range(rng.integers(1, 4))},
        {
            f"r{reveal}": rng.integers(0, rng.integers(2, size + 1), size=size).tolist()
            for reveal in range(rng.integers(1, 3))
        },
    )


def random_mixtures(rng: np.random.Generator, variables: int) -> ProbabilisticAutomaton:
    """Hidden permutations: 1–3 actions, each of up to three permutations."""
    every = list(permutations(range(1, variables + 1)))
    actions = {}
    for action in range(rng.integers(1, 4)):
        chosen = rng.choice(len(every), size=min(3, len(every)), replace=False)
        shares = rng.dirichlet(np.ones(len(chosen)))
        actions[f"a{action}"] = {
            every[k]: float(share) for k, share in zip(chosen.tolist(), shares, strict=True)
        }
    return hidden_permutations(variables, actions)


def random_trace(
    automaton: ProbabilisticAutomaton, rng: np.random.Generator, length: int, reveals: tuple[str, ...]
) -> tuple[IntArray, IntArray]:
    """Tokens among the actions and these reveals, and what they show, drawn: so it can occur."""
    allowed = [*range(len(automaton.actions)), *automaton.encode(reveals)]
    tokens = rng.choice(allowed, size=length)
    return tokens, automaton.sample(tokens, rng)[1]


def enumerated_masses(
    automaton: ProbabilisticAutomaton, tokens: IntArray, values: IntArray
) -> NDArray[np.float64]:
    """Pr(hidden state after the last token, all that was shown): a sum over hidden outcomes, one by one."""
    mass = np.zeros(len(automaton.states))
    acting = [int(token) for token in tokens if token < len(automaton.actions)]
    for outcomes in outcomes_of(range(len(automaton.states)), repeat=len(acting)):
        for state, probability in enumerate(automaton.initial):
            drawn = iter(outcomes)
            for token, value in zip(tokens, values, strict=True):
                if token < len(automaton.actions):
                    after = next(drawn)
                    probability *= automaton.matrices[token, after, state]
                    state = after
                elif automaton.readings[token - len(automaton.actions), state] != value:
                    probability = 0.0
                if not probability:
                    break
            mass[state] += probability
    return mass
