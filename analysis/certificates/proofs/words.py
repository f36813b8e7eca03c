"""All words up to a length, followed in rigorous arithmetic: a ball that holds the state after every word.

The weights are taken as the exact numbers that their floats are. Every word leads to a small ball that
provably holds the state after it; every token maps it into the next one, by the iteration that is run: from
the latent zero, damped, until the relative tolerance is met (`theory.rigorous.covers.orbits`). There it
decodes the right answer with a margin that is bounded from below. What is proved is about the model in real
arithmetic and, as `theory.rigorous.float_format` assumes that it rounds, in float64, with every relative
tolerance up to the one that is asked for, which the run's own may exceed.

A tree of words is the cover of `theory.rigorous.covers.invariant_cover` in which only the first tokens have
targets. Centres are what the solver finds in floating point, of which nothing is assumed; the radius after a
token is a little more than what is proved of the image of the ball before it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, PositiveInt

from analysis.certificates.certificate import Claim, at_least
from analysis.certificates.claims.words import WordLevel, Words
from analysis.certificates.producing import Found, Proof, stated
from analysis.certificates.proofs.steps import (
    IterationSettings,
    ProvedIteration,
    asked_of,
    enclosed_loop,
    errors_of,
    prove_iteration,
    solve_steps,
)
from analysis.framework.figures import TEXT_WIDTH, log_axis, new_panels, styled
from analysis.framework.finding import Rows, for_title
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision
from automata.checks import check_memory
from automata.machines.mealy import word_in_names
from automata.tasks.word_problem import WordProblem
from implicit.enclosed.any_loop import EnclosedAnyLoop
from implicit.enclosed.closed_loop import EnclosedClosedLoop, flatten_state
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.runs.loading import Run
from theory.rigorous.covers.bundling import Members
from theory.rigorous.covers.invariant_cover import EXACT, Cover, StepBounds, StepErrors, enclose_steps
from theory.rigorous.covers.orbits import Iteration

Array = NDArray[np.float64]


FIRST_RADIUS = 1e-13
SLACK = 1.01
"""By how much a ball is larger than what is proved of it, for a check in other arithmetic."""
STATED_SHARE = 0.999
"""Of a margin that is proved, how much a certificate states, for the same reason."""
STEPS_AT_ONCE = 512
SHORTER = "give a smaller length, or prove --claim lengths"


@dataclass(frozen=True, eq=False)
class ProvedLevel:
    """What is found of the words of one length whose beginnings are all proved right.

    Attributes:
        words: token numbers, ``[words, length]``.
        states: centres of the states after them, ``[words, n]``.
        latents: approximate fixed points of their last tokens, ``[words, d]``.
        before: centres of the states before their last tokens, ``[words, n]``.
        before_radii: of the balls around these, ``[words]``.
    """

    words: NDArray[np.int64]
    states: Array
    latents: Array
    bounds: StepBounds
    before: Array
    before_radii: Array

    @property
    def proved(self) -> NDArray[np.bool_]:
        """Of which words the state is enclosed and the answer proved right."""
        return self.bounds.exists & np.isfinite(self.bounds.image) & (self.bounds.margin > 0)

    @property
    def radii(self) -> Array:
        """The radii of the balls around the states."""
        return SLACK * self.bounds.image

    def document(self, bundles: NDArray[np.int64]) -> WordLevel:
        """Return the claims, for a certificate, with the bundle of each word; all have to be proved."""
        assert self.proved.all()
        return WordLevel(
            latents=self.latents,
            latent_radii=self.bounds.latent_radius,
            states=self.states,
            state_radii=self.radii,
            margins=STATED_SHARE * self.bounds.margin,
            bundle_of=bundles.tolist(),
        )


def prove_attraction(
    loop: EnclosedClosedLoop | EnclosedAnyLoop,
    levels: Sequence[ProvedLevel],
    iteration: Iteration,
    stopping: Stopping,
) -> tuple[ProvedIteration, list[NDArray[np.int64]]]:
    """Prove of the words of levels that the iteration ends near the fixed points of their last tokens.

    Returns:
        What is proved, and for each level the bundle of every word; −1 where nothing is proved of it or of a
        word that it begins with.
    """
    parts = [(level, np.nonzero(level.proved)[0]) for level in levels]
    members = Members(
        np.concatenate([level.words[rows, -1] for level, rows in parts]),
        np.concatenate([level.before[rows] for level, rows in parts]),
        np.concatenate(
            [np.repeat(level.before_radii[rows, None], loop.state_size, 1) for level, rows in parts]
        ),
        np.concatenate([level.latents[rows] for level, rows in parts]),
        np.concatenate([level.bounds.latent_radius[rows] for level, rows in parts]),
    )
    found = prove_iteration(loop, members, iteration, stopping)
    bundles, taken = [], 0
    earlier = {()}
    for level, rows in parts:
        own = np.full(len(level.words), -1)
        own[rows] = found.attraction.membership[taken : taken + len(rows)]
        taken += len(rows)
        words = [tuple(word) for word in level.words.tolist()]
        own[[word[:-1] not in earlier for word in words]] = -1
        earlier = {word for word, bundle in zip(words, own, strict=True) if bundle >= 0}
        bundles.append(own)
    return found, bundles


def prove_levels(
    model: FixedPointModel, task: WordProblem, length: int, stopping: Stopping, errors: StepErrors = EXACT
) -> Iterator[ProvedLevel]:
    """Follow all words, one length after the other, as long as some are proved right."""
    loop = enclosed_loop(model)
    tokens = np.arange(task.vocabulary_size)
    centres = flatten_state(model.init_state(1)).numpy()
    labels, words = np.array([task.initial_state]), np.zeros((1, 0), dtype=np.int64)
    radii = np.full(1, FIRST_RADIUS)
    for _ in range(length):
        if not len(words):
            return
        sources, read = np.repeat(np.arange(len(words)), len(tokens)), np.tile(tokens, len(words))
        after, latents = solve_steps(model, centres[sources], read, stopping)
        answers = task.table[labels[sources], read]
        bounds = _bounds(loop, centres, radii, after, latents, answers, sources, read, errors)
        longer = np.concatenate([words[sources], read[:, None]], axis=1)
        level = ProvedLevel(longer, after, latents, bounds, centres[sources], radii[sources])
        yield level
        proved = level.proved
        centres, radii = after[proved], level.radii[proved]
        labels, words = answers[proved], level.words[proved]


def _bounds(
    loop: EnclosedClosedLoop | EnclosedAnyLoop,
    centres: Array,
    radii: Array,
    after: Array,
    latents: Array,
    answers: NDArray[np.int64],
    sources: NDArray[np.int64],
    read: NDArray[np.int64],
    errors: StepErrors,
) -> StepBounds:
    """Bound the steps of a level of the tree of words; its sets and those of the next are balls."""
    parts = []
    tokens = int(read.max()) + 1
    for first in range(0, len(centres), STEPS_AT_ONCE // tokens):
        here = np.arange(first, min(len(centres), first + STEPS_AT_ONCE // tokens))
        rows = slice(first * tokens, (here[-1] + 1) * tokens)
        count, steps = len(here), len(here) * tokens
        identity = np.broadcast_to(np.eye(loop.state_size), (count + steps, loop.state_size, loop.state_size))
        cover = Cover(
            np.concatenate([centres[here], after[rows]]),
            identity,
            identity,
            np.concatenate([radii[here], np.zeros(steps)]),
            np.arange(count, count + steps).reshape(count, tokens),
            answers[rows].reshape(count, tokens),
            latents[rows].reshape(count, tokens, -1),
        )
        parts.append(enclose_steps(loop, cover, sources[rows] - first, read[rows], errors))
    return StepBounds(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("exists", "latent_radius", "offset", "gain", "image", "margin")
        )
    )


class WordsSettings(IterationSettings):
    """Which words are followed, and of which iteration it is proved."""

    length: PositiveInt = Field(default=12, description="tokens of the longest words; all words are followed")
    tolerance: PositiveFloat = Field(
        default=1e-7, lt=1, description="the largest relative tolerance of the iteration that is proved right"
    )


@dataclass(frozen=True, eq=False)
class FoundWords(Found):
    """What `analyse` returns; one row per length, from 1.

    Attributes:
        counterexample: a shortest word whose answer is not proved right, token numbers; None if all are.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), length=3)
        >>> found.words.tolist(), found.proved_length
        ([2, 4, 8], 3)
    """

    run: RunIdentity
    settings: WordsSettings
    words: NDArray[np.int64]
    proved: NDArray[np.int64]
    margin: Array
    radius: Array
    gain: Array
    counterexample: tuple[int, ...] | None
    token_names: tuple[str, ...]
    iteration: ProvedIteration
    levels: tuple[WordLevel, ...]
    statements: dict[str, str]
    seconds: float

    @property
    def proved_length(self) -> int:
        """The greatest N such that the answers to all words of up to N tokens are proved right."""
        whole = self.proved == self.words
        return len(whole) if whole.all() else int(whole.argmin())

    @property
    def sentence(self) -> str:
        """The finding."""
        length = self.proved_length
        if length == 0 and self.counterexample is not None:
            unproved = word_in_names(self.counterexample, self.token_names)
            rounding = "; --dtype real leaves rounding out" if self.settings.dtype != "real" else ""
            return f"nothing is proved, not even of the word {unproved}, {self.iteration.scope}{rounding}"
        right = (
            f"proved right on all {int(self.words[:length].sum())} words of up to {length} tokens, "
            f"{self.iteration.scope}, with a margin of at least "
            f"{at_least(float(self.margin[:length].min(initial=np.inf)))}"
        )
        if self.counterexample is None:
            return right
        return f"{right}; nothing is proved of {word_in_names(self.counterexample, self.token_names)}"

    @property
    def limits(self) -> str:
        """What is assumed and what is not covered."""
        return self.iteration.caveat if self.proved_length else ""

    def rows(self) -> list[Rows]:
        """Return a line for every length."""
        headings = ["length", "words", "proved right", "least margin", "largest radius", "largest gain"]
        columns = (self.words, self.proved, self.margin, self.radius, self.gain)
        rows = []
        for length, (words, proved, margin, radius, gain) in enumerate(zip(*columns, strict=True), start=1):
            least = number(margin) if np.isfinite(margin) else "–"
            rows.append([str(length), str(words), str(proved), least, number(radius), number(gain)])
        return [Rows(headings, rows, self.run.title)]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        return {
            "sentence": self.sentence,
            "proved_length": self.proved_length,
            "words": self.words,
            "proved": self.proved,
            "margin": self.margin,
            "radius": self.radius,
            "gain": self.gain,
            "counterexample": self.counterexample,
            "bundles": self.iteration.attraction.bundles.count,
            "iterations": self.iteration.attraction.iterations,
            "tolerance": self.iteration.iteration.tolerance,
        }

    @property
    def search(self) -> WordsSettings:  # type: ignore[override]
        """The settings."""
        return self.settings

    @property
    def claims(self) -> list[Claim]:
        """What is proved."""
        if not self.levels:
            return []
        return [
            Words(
                statements=self.statements,
                levels=list(self.levels),
                length=self.proved_length,
                words=int(self.words[: self.proved_length].sum()),
                margin=min(float(level.margins.min()) for level in self.levels),
                **self.iteration.fields(),
            )
        ]


def analyse(run: Run, settings: WordsSettings | None = None, **chosen: Any) -> FoundWords:
    """Prove that a model answers every word up to a length as its task does."""
    settings = settings_from(WordsSettings, chosen, settings)
    began = time.monotonic()
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    loop = enclosed_loop(model)  # refuses what has no form on balls
    words = task.vocabulary_size ** min(settings.length, 1000)
    check_memory(f"the set of all words of {settings.length} tokens", 16 * loop.state_size * words, SHORTER)
    asked = asked_of(model, settings.tolerance, settings.dtype)
    followed = list(prove_levels(model, task, settings.length, stopping, errors_of(asked)))
    iteration, bundles = prove_attraction(loop, followed, asked, model.stopping)
    rows: list[tuple[int, int, float, float, float]] = []
    levels: list[WordLevel] = []
    counterexample = None
    for level, bundle_of in zip(followed, bundles, strict=True):
        proved, bounds = bundle_of >= 0, level.bounds
        margin = bounds.margin.min() if proved.all() else -np.inf
        reached = np.where(proved, level.radii, 0.0).max()
        gain = np.where(proved, bounds.gain, 0.0).max()
        rows.append((len(proved), int(proved.sum()), float(margin), float(reached), float(gain)))
        if counterexample is None and not proved.all():
            counterexample = tuple(level.words[proved.argmin()].tolist())
        if counterexample is None:
            levels.append(level.document(bundle_of))
    total = task.vocabulary_size ** np.arange(1, len(rows) + 1)
    _, proved_counts, margins, reaches, gains = (np.array(column) for column in zip(*rows, strict=True))
    return FoundWords(
        RunIdentity.of(run),
        settings,
        total,
        proved_counts,
        np.where(proved_counts == total, margins, -np.inf),
        reaches,
        gains,
        counterexample,
        task.token_names,
        iteration,
        tuple(levels),
        stated(Words, run),
        time.monotonic() - began,
    )


def draw(found: FoundWords, width: float = TEXT_WIDTH) -> Figure:
    """Draw how far states lie from their centres, and the least margins, against the length of the words."""
    with styled():
        figure, (radius, margin) = new_panels(width, 2, **for_title(found.run.title, found.finding))
        x = np.arange(1, len(found.words) + 1)
        radius.plot(x, np.maximum(found.radius, 1e-16), "o-")
        radius.set(
            title="radius of the enclosures", xlabel="length of the words (tokens)", ylabel="largest radius"
        )
        log_axis(radius)
        margin.plot(x, np.where(np.isfinite(found.margin), found.margin, np.nan), "o-")
        margin.set(
            title="least margin of the right answer",
            xlabel="length of the words (tokens)",
            ylabel="difference of logits",
        )
        margin.set_ylim(0, max(1.08 * np.max(found.margin, initial=0, where=np.isfinite(found.margin)), 0.1))
        return figure


PROOFS = (
    Proof(
        claim="words",
        question="Is a small model right on every word up to a length? A proof, with a certificate.",
        description="Prove in rigorous arithmetic that a small implicit model is right on every word up to "
        "a length.",
        settings=WordsSettings,
        needs=FIXED_POINTS,
        prove=analyse,
        draw=draw,
        shows="Rigorous enclosures of all states after every word: the largest radius of any "
        "enclosure, and the least proved margin of the right answer over any other, in "
        "logits, by the length of the words in tokens.",
    ),
)
