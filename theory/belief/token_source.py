"""How the tokens of a probabilistic automaton are drawn: the law that rates and bounds are stated for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from automata.checks import check_integer, check_number, check_type, shown
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.probabilistic.pfsa import ProbabilisticAutomaton

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
        try:
            rows = np.array(phases, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"phases is {shown(phases)}; give rows of numbers, [period, tokens]") from None
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
