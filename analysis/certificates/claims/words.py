"""All words up to a length are answered right: the step of every word proved again, in FLINT's balls.

A word is a step from the ball of states that the tokens before its last one lead to; the first ball is the
zero state alone. What is proved of a step, and of the iteration, is in `analysis.certificates.iteration`.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from flint import arb
from pydantic import NonNegativeInt, PositiveInt

from analysis.certificates.arb.balls import identity
from analysis.certificates.certificate import Number, Numbers, Part, RefusedError, Work
from analysis.certificates.checking import Context
from analysis.certificates.iteration import (
    ITERATION_STATEMENTS,
    MODELS,
    AnswersChecker,
    IterationClaim,
    StepClaim,
    check_answers_of,
    check_iteration,
    work_of_steps,
)

STATEMENTS = {
    **ITERATION_STATEMENTS,
    "levels": (
        "levels[t] is about all words of t + 1 tokens, in the lexicographic order of their token numbers; "
        "every array holds a row a word."
    ),
    "state": (
        "The state that a word leads to, every token with the latent at which the iteration stops, lies "
        "within state_radius of state (Euclidean norm; the window channel by channel, then h)."
    ),
    "existence": (
        "With every state that the earlier tokens may lead to, the self-map of the last token has exactly "
        "one fixed point within latent_radius of latent (maximum norm). States and fixed points lie in "
        "bundle bundle_of, so that the iteration stops near them."
    ),
    "margin": (
        "At the latent at which the iteration of the last token stops, the logit of the state that the "
        "automaton is in exceeds every other logit by at least margin > 0: the answer is right."
    ),
}


class WordLevel(Part):
    """What is proved of all words of one length, a row per word: see `STATEMENTS`."""

    latents: Numbers
    latent_radii: Numbers
    states: Numbers
    state_radii: Numbers
    margins: Numbers
    bundle_of: list[NonNegativeInt]


class Words(IterationClaim):
    """All words up to a length are answered right."""

    models: ClassVar[tuple[str, ...]] = MODELS
    says: ClassVar[Mapping[str, str]] = STATEMENTS

    kind: Literal["words"] = "words"
    levels: list[WordLevel]
    length: PositiveInt
    words: PositiveInt
    margin: Number

    def work(self, context: Context) -> Work:
        """Bound the work: a step for each word."""
        return work_of_steps(self, context, sum(len(level.bundle_of) for level in self.levels))

    def check(self, context: Context) -> None:
        """Verify the counts, the bundles of orbits, and every word."""
        automaton, state = check_answers_of(context)
        tokens = len(automaton.table[0])
        _check_sizes(self, tokens, state, int(context.sizes["d_model"]))
        check_iteration(self, context.sizes, state=state, tokens=tokens)
        places = [(n, row) for n in range(self.length) for row in range(tokens ** (n + 1))]
        self.check_steps(context, WordsChecker, automaton, places, "word")

    def verdict(self, config: Mapping[str, Any]) -> str:
        """Return how many words are right."""
        words = f"all {self.words} words of up to {self.length} tokens are right"
        return self.right(words, self.margin, config)


class WordsChecker(AnswersChecker):
    """Proves bundles of orbits and the last steps of single words again."""

    def check_step(self, index: int, row: int) -> None:  # type: ignore[override]
        """Check a word by the number of its level and its row there."""
        levels, tokens = self.claim.levels, len(self.automaton.table[0])
        level = levels[index]
        word = [row // tokens**place % tokens for place in range(index, -1, -1)]
        told = f"(word {' '.join(map(str, word))})"
        states = level.states.reshape(len(level.margins), -1)
        centre, radius = np.zeros(states.shape[1]), 0.0
        if index:
            before, parent = levels[index - 1], row // tokens
            centre = before.states.reshape(len(before.margins), -1)[parent]
            radius = float(before.state_radii[parent])
        answer = self.automaton.after(word)
        claim = StepClaim(
            token=word[-1],
            centre=centre,
            axes=identity(len(centre)) * arb(radius),
            latent=level.latents.reshape(len(level.margins), -1)[row],
            latent_radius=float(level.latent_radii[row]),
            bundle=level.bundle_of[row],
            target_centre=states[row],
            target_metric=None,
            answer=answer,
            line=lambda field: f"levels[{index}].{field}[{row}]",
        )
        reach, gaps = self.steps.check(claim)
        if not reach <= float(level.state_radii[row]):
            raise RefusedError(claim.line("state_radii"), f"is less than the distance of the state {told}")
        margin = float(level.margins[row])
        if not margin > 0:
            raise RefusedError(claim.line("margins"), f"is not positive {told}")
        if not all(gap >= margin for gap in gaps):
            raise RefusedError(claim.line("margins"), f"is larger than what is proved {told}")


def _check_sizes(claim: Words, tokens: int, state: int, latent: int) -> None:
    """Whether arrays hold what they should, and the counts are those of the arrays."""
    numbers = {"latents": latent, "latent_radii": 1, "states": state, "state_radii": 1, "margins": 1}
    for number, level in enumerate(claim.levels):
        words = tokens ** (number + 1)
        for name, size in numbers.items():
            if getattr(level, name).size != words * size:
                raise RefusedError(
                    f"levels[{number}].{name}", f"does not hold {words * size} numbers for {words} words"
                )
        if len(level.bundle_of) != words:
            raise RefusedError(
                f"levels[{number}].bundle_of", f"does not hold a number for each of {words} words"
            )
    if claim.length != len(claim.levels):
        raise RefusedError("length", f"is not the number of levels, {len(claim.levels)}")
    if claim.words != sum(tokens ** (number + 1) for number in range(claim.length)):
        raise RefusedError("words", "is not the number of words of the levels")
    if claim.margin != min(level.margins.min() for level in claim.levels):
        raise RefusedError("margin", "is not the least one of the levels")
