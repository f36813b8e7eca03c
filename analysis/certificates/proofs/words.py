"""Right answers to all words up to a length, followed in rigorous arithmetic.

The weights are taken as the exact numbers that their floats are. Every token maps a small set of states,
provably, into another one, and the answer is right on all of it: it is decoded with a margin that is bounded
from below. "Maps" means by the iteration that is run (`theory.rigorous.covers.orbits`): from the latent zero,
damped, until the relative tolerance is met, one token after the other.

**Words up to a length.** Every word leads to a ball: a cover of `theory.rigorous.covers.invariant_cover` in
which only the first tokens have targets. Centres are what the solver finds in floating point, of which
nothing is assumed; the radius after a token is a little more than what is proved of the image of the ball
before it.
"""

import inspect
import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt
from torch import nn

from analysis.certificates.claims.words import DType, OrbitBundles, WordLevel, Words
from analysis.certificates.producing import Found, Proof, about
from analysis.framework.figures import TEXT_WIDTH, log_axis, new_panels, styled
from analysis.framework.finding import Rows, for_title
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.settings import settings_from
from analysis.framework.visited_states import in_double_precision
from automata.checks import at_least, at_most, check_memory
from automata.errors import InputError
from automata.machines.mealy import word_in_names
from automata.tasks.word_problem import WordProblem
from implicit.cells.contract import close, words_of
from implicit.cells.interface import has_hooks, is_ours
from implicit.checked_config import CheckedConfig
from implicit.enclosed.any_loop import EnclosedAnyLoop, compare_with_floats, is_mamba2
from implicit.enclosed.closed_loop import (
    EnclosedClosedLoop,
    ExecutedClosedLoop,
    flatten_state,
    unflatten_state,
)
from implicit.enclosed.mamba2 import compare_form
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel, SequenceModel
from implicit.models.stack import CellStack
from implicit.modes import Solve
from implicit.runs.loading import Run
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.invariant_cover import EXACT, Cover, StepBounds, StepErrors, enclose_steps
from theory.rigorous.covers.orbits import Attraction, Iteration, Members, attraction_of
from theory.rigorous.rounded import FLOAT64, FloatFormat

IntArray = NDArray[np.int64]
Loop = EnclosedClosedLoop | EnclosedAnyLoop
LARGEST_STATE = 200  # matrices of all derivatives by the state are held for hundreds of positions at once


class IterationSettings(CheckedConfig):
    """The format whose rounding is covered, and the search for fixed points, which proves nothing."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    dtype: DType = Field(
        default="float64", description="whose rounding is to be covered: float64, or real, for none"
    )
    rtol: PositiveFloat = Field(
        default=1e-13, description="relative tolerance of the approximate fixed points"
    )
    max_iterations: PositiveInt = Field(default=2000, description="the most self-iterations per token")


def enclosed_loop(model: FixedPointModel) -> Loop:
    """Return the model on balls, if all derivatives by its state can be held at many positions."""
    precise = in_double_precision(model)
    loop = EnclosedClosedLoop(precise) if is_mamba2(precise) else EnclosedAnyLoop(precise)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of the model has {loop.state_size} numbers; give a run of at most "
            f"{LARGEST_STATE}, such as parity-small, or train with a smaller --d-model, --expand or --d-state"
        )
    if isinstance(loop, EnclosedClosedLoop):
        compare_form(precise)
    else:  # refuse code that is another function on balls than on tensors
        drawn = np.random.default_rng(0)
        tokens = np.arange(len(model.get_parameter("embedding.weight")))
        state = unflatten_state(model, torch.as_tensor(drawn.standard_normal((len(tokens), loop.state_size))))
        latents = drawn.standard_normal((len(tokens), loop.latent_size))
        assert isinstance(model, CellStack)
        compare_with_floats(
            model,
            loop.transitions(tokens),
            torch.as_tensor(tokens),
            {name: part.numpy() for name, part in state.items()},
            latents,
            [np.zeros(len(tokens), dtype=np.int64)],
        )
    return loop


@torch.no_grad()
def solve_steps(
    model: FixedPointModel, states: Array, tokens: IntArray, stopping: Stopping
) -> tuple[Array, Array]:
    """Return the next states ``[steps, n]`` and the latents in floating point: nothing is assumed of them."""
    before = unflatten_state(model, torch.as_tensor(states))
    output = model.run(torch.as_tensor(tokens)[:, None], before, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    after = flatten_state({name: output.state[name] for name in before})
    return after.numpy(), output.solution.latents[:, 0].numpy()


OWN = {"__init__", "init_state", "embed", "update", "read", "layer_states"}
"""Methods that a user's model may have itself: a proof runs them on balls."""


def check_answers(model: SequenceModel) -> None:
    """Refuse a model that answers by a user's hook or method: what is proved is a function of its steps."""
    name, embedding = type(model).__name__, getattr(model.implicit, "embedding", None)
    replaced = embedding is not None and (type(embedding) is not nn.Embedding or has_hooks(embedding))
    if has_hooks(model) or replaced:
        what = "another embedding than nn.Embedding" if replaced else "hooks"
        raise InputError(f"{name} has {what}, of which nothing is proved; remove what was added to the model")
    answering, of_user = {"__call__", "__getattr__", "__getattribute__"}, {*vars(model)}
    for kind in type(model).__mro__:
        package = kind.__module__.partition(".")[0]
        if package == "implicit":
            answering |= {
                method
                for method, value in vars(kind).items()
                if inspect.isroutine(value) or isinstance(value, property)
            }
        elif package not in ("torch", "abc", "builtins"):
            of_user |= {*vars(kind)}
    for method in sorted(answering & of_user - OWN):
        raise InputError(
            f"{method} is a method of {name} itself, of which nothing is proved; leave it to the class that "
            "it extends"
        )


WORD = 32  # tokens of two random words at which a user's model, as it answers, is compared with its steps


@torch.no_grad()
def check_run(model: FixedPointModel, loop: Loop, stopping: Stopping, length: int = WORD) -> None:
    """Refuse a user's model, in float64, that answers a word otherwise than by the head from its steps."""
    if is_ours(model) and isinstance(loop, EnclosedClosedLoop):  # which has no hooks
        return
    stack: Any = model
    words, solve = words_of(model, secrets.randbits(63), length), Solve("sequential", stopping=stopping)
    state, expected = model.init_state(len(words)), []
    for token in words.unbind(1):
        after = model.run(token[:, None], state, solve)
        assert after.solution is not None
        state = after.state
        expected.append(stack.head(after.solution.latents[:, 0]))
    if not close(model, model.run(words, None, solve).logits, torch.stack(expected, 1)):
        raise InputError(
            f"{type(model).__name__} answers a word otherwise than its head does from the fixed points of "
            "its steps; let its cells read a word as they step"
        )


DISTANCE = 16.0  # a latent with a residual of the tolerance may lie so many times that from its fixed point
STEP_ERROR = 1e-11  # allowed error of a step: more than float64 makes, and little beside any tolerance
STATED_ULPS = 4
"""Assumed error of functions of one number in units in the last place, as a certificate states it …"""
PROVED_ULPS = 6  # … where it is proved for so many: other arithmetic has other bounds


def upper_triangle(matrices: Array) -> Array:
    """Return the upper triangles of square matrices, row by row: how a certificate holds them."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    triangles: Array = matrices[:, rows, columns]
    return triangles


@dataclass(frozen=True, eq=False)
class ProvedIteration:
    """The iteration that is run, and the steps where it provably ends near the fixed points."""

    iteration: Iteration
    attraction: Attraction
    stopping: Stopping

    @property
    def fault(self) -> str:
        """The reason why the proof is incomplete; empty if it is whole."""
        missing = int((self.attraction.membership < 0).sum())
        if not missing:
            return ""
        return (
            f"of {missing} of {len(self.attraction.membership)} steps it is not proved that the iteration "
            f"from zero ends near them within {self.stopping.max_iterations} evaluations"
        )

    def fields(self) -> dict[str, Any]:
        """Return the fields of a certificate."""
        found = self.attraction.bundles
        arrays = {name: getattr(found, name) for name in ("centres", "widths", "latents", "radii")}
        metrics = upper_triangle(found.metrics)
        return {
            "bundles": OrbitBundles(tokens=found.tokens.tolist(), metrics=metrics, **arrays),
            "tolerance": self.iteration.tolerance,
            "iterations": self.attraction.iterations,
            "latent_error": self.iteration.latent_error,
            "step_error": self.iteration.step_error,
            "dtype": "real" if self.iteration.program is None else "float64",
            "ulps": STATED_ULPS,
        }


def iteration_of(model: FixedPointModel, tolerance: float, dtype: DType) -> Iteration:
    """Return the iteration of a model, with the errors that its proof allows."""
    damping, program = model.solver.damping, None
    if dtype == "float64":
        if not is_mamba2(model):
            raise InputError(
                f"dtype is float64, and of {model.name} rounding is not bounded, as of implicit-mamba2 with "
                "no module replaced; give --dtype real, for exact arithmetic"
            )
        program = ExecutedClosedLoop(model, FloatFormat(dtype, FLOAT64.unit_roundoff, PROVED_ULPS))
    return Iteration(damping, tolerance, DISTANCE * tolerance, STEP_ERROR, program)


def errors_of(iteration: Iteration) -> StepErrors:
    """Return the allowed errors of the steps of an iteration."""
    return StepErrors(iteration.latent_error, iteration.step_error, iteration.program)


def prove_iteration(
    loop: Loop, members: Members, iteration: Iteration, stopping: Stopping
) -> ProvedIteration:
    """Prove that the iteration from zero ends near the fixed points of steps."""
    found = attraction_of(loop, members, iteration).within(stopping.max_iterations)
    return ProvedIteration(iteration, found, stopping)


FIRST_RADIUS = 1e-13
SLACK = 1.01  # stated over proved radius of a ball: a check in other arithmetic needs a little more
STATED_WORD_SHARE = 0.999  # stated over proved margin, for the same reason
STEPS_AT_ONCE = 512
SHORTER = "give a smaller length, or prove --claim lengths"


@dataclass(frozen=True, eq=False)
class ProvedLevel:
    """Bounds for the words of one length whose beginnings are all proved right."""

    words: IntArray  # token numbers, [words, length]
    states: Array  # centres of the states after them, [words, n]
    latents: Array  # approximate fixed points of their last tokens, [words, d]
    bounds: StepBounds
    before: Array  # centres of the states before their last tokens, [words, n]
    before_radii: Array  # of the balls around these, [words]

    @property
    def proved(self) -> NDArray[np.bool_]:
        """A mask of the words whose state is enclosed and whose answer is proved right."""
        return self.bounds.exists & np.isfinite(self.bounds.image) & (self.bounds.margin > 0)

    @property
    def radii(self) -> Array:
        """The radii of the balls around the states."""
        return SLACK * self.bounds.image

    def obstacle(self, row: int, iterations: int, dtype: DType) -> str:
        """Return why nothing is proved of a word, and what may help."""
        bounds, rounding = self.bounds, ", or --dtype real, without rounding" * (dtype != "real")
        ball = f"the ball of radius {at_most(self.before_radii[row])} of states before its last token"
        if not np.isfinite(bounds.image[row]):
            return f"no single fixed point is proved over {ball}; try a smaller --tolerance{rounding}"
        if not bounds.margin[row] > 0:
            proved = f"the margin of its answer is only proved to be at least {at_least(bounds.margin[row])}"
            return f"{proved} over {ball}; if the model answers it right, try a smaller --tolerance"
        near = f"its iteration is not proved to end near the fixed point within {iterations} evaluations"
        return f"{near}; try another --tolerance{rounding}"

    def document(self, bundles: IntArray) -> WordLevel:
        """Return the claims, for a certificate, with the bundle of each word; all have to be proved."""
        assert self.proved.all()
        return WordLevel(
            latents=self.latents,
            latent_radii=self.bounds.latent_radius,
            states=self.states,
            state_radii=self.radii,
            margins=STATED_WORD_SHARE * self.bounds.margin,
            bundle_of=bundles.tolist(),
        )


def prove_attraction(
    loop: Loop, levels: Sequence[ProvedLevel], iteration: Iteration, stopping: Stopping
) -> tuple[ProvedIteration, list[IntArray]]:
    """Prove of the words of levels that the iteration ends near the fixed points of their last tokens.

    The bundles of each level's words are −1 where nothing is proved of a word or of one that it begins with.
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
    loop: Loop,
    centres: Array,
    radii: Array,
    after: Array,
    latents: Array,
    answers: IntArray,
    sources: IntArray,
    read: IntArray,
    errors: StepErrors,
) -> StepBounds:
    """Bound the steps of a level of the tree of words; its sets and those of the next are balls."""
    parts, tokens = [], int(read.max()) + 1
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
    return StepBounds.joined(parts)


class WordsSettings(IterationSettings):
    """The words to follow, and the tolerance of the iteration."""

    length: PositiveInt = Field(default=12, description="tokens of the longest words; all words are followed")
    tolerance: PositiveFloat = Field(
        default=1e-7, lt=1, description="the largest relative tolerance of the iteration that is proved right"
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundWords(Found):
    """The result of `prove_words`; one row per length, from 1."""

    settings: WordsSettings
    words: IntArray
    proved: IntArray
    margin: Array
    radius: Array
    gain: Array
    counterexample: tuple[int, ...] | None  # a shortest word that is not proved right; None if all are
    obstacle: str  # why it is not; empty if all are
    token_names: tuple[str, ...]
    iteration: ProvedIteration
    levels: tuple[WordLevel, ...]

    @property
    def proved_length(self) -> int:
        """The greatest N such that the answers to all words of up to N tokens are proved right."""
        whole = self.proved == self.words
        return len(whole) if whole.all() else int(whole.argmin())

    @property
    def sentence(self) -> str:
        """The finding."""
        if self.counterexample is None:
            return super().sentence
        unproved = word_in_names(self.counterexample, self.token_names)
        if self.proved_length:
            return f"{super().sentence}; nothing is proved of {unproved}: {self.obstacle}"
        return f"nothing is proved, not even of the word {unproved}: {self.obstacle}"

    def rows(self) -> list[Rows]:
        """Return a line for every length."""
        headings = ["length", "words", "proved right", "least margin", "largest radius", "largest gain"]
        columns = (self.words, self.proved, self.margin, self.radius, self.gain)
        rows = []
        for length, (words, proved, margin, radius, gain) in enumerate(zip(*columns, strict=True), start=1):
            least = at_least(margin) if np.isfinite(margin) else "–"
            rows.append([str(length), str(words), str(proved), least, at_most(radius), at_most(gain)])
        return [Rows(headings, rows, self.run.title)]

    def numbers(self) -> dict[str, Any]:
        """Return everything for JSON."""
        names = ("sentence", "proved_length", "words", "proved", "margin", "radius", "gain", "counterexample")
        return {
            **{name: getattr(self, name) for name in names},
            "bundles": self.iteration.attraction.bundles.count,
            "iterations": self.iteration.attraction.iterations,
            "tolerance": self.iteration.iteration.tolerance,
        }

    @cached_property
    def claims(self) -> list[Words]:
        """The claim on all words up to the proved length; none if that is 0."""
        if not self.levels:
            return []
        return [
            Words(
                statements=Words.stated(self.config),
                levels=list(self.levels),
                length=self.proved_length,
                words=int(self.words[: self.proved_length].sum()),
                margin=min(float(level.margins.min()) for level in self.levels),
                **self.iteration.fields(),
            )
        ]


def prove_words(run: Run, settings: WordsSettings | None = None, **chosen: Any) -> FoundWords:
    """Prove that a model answers every word up to a length as its task does."""
    settings = settings_from(WordsSettings, chosen, settings)
    began = time.monotonic()
    check_answers(run.model)
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    loop = enclosed_loop(as_implicit(run))  # refuses what has no form on balls
    words = task.vocabulary_size ** min(settings.length, 1000)
    check_memory(f"the set of all words of {settings.length} tokens", 16 * loop.state_size * words, SHORTER)
    run_iteration = iteration_of(model, settings.tolerance, settings.dtype)
    followed = list(prove_levels(model, task, settings.length, stopping, errors_of(run_iteration)))
    iteration, bundles = prove_attraction(loop, followed, run_iteration, model.stopping)
    rows: list[tuple[int, int, float, float, float]] = []
    levels: list[WordLevel] = []
    counterexample, obstacle = None, ""
    for level, bundle_of in zip(followed, bundles, strict=True):
        proved, bounds = bundle_of >= 0, level.bounds
        margin = bounds.margin.min() if proved.all() else -np.inf
        reached = np.where(proved, level.radii, 0.0).max()
        gain = np.where(proved, bounds.gain, 0.0).max()
        rows.append((len(proved), int(proved.sum()), float(margin), float(reached), float(gain)))
        if counterexample is None and not proved.all():
            row = int(proved.argmin())
            counterexample = tuple(level.words[row].tolist())
            obstacle = level.obstacle(row, model.stopping.max_iterations, settings.dtype)
        if counterexample is None:
            levels.append(level.document(bundle_of))
    if levels:
        check_run(model, loop, stopping, min(len(levels), WORD))
    total = task.vocabulary_size ** np.arange(1, len(rows) + 1)
    _, proved_counts, margins, reaches, gains = (np.array(column) for column in zip(*rows, strict=True))
    return FoundWords(
        words=total,
        proved=proved_counts,
        margin=np.where(proved_counts == total, margins, -np.inf),
        radius=reaches,
        gain=gains,
        counterexample=counterexample,
        obstacle=obstacle,
        token_names=task.token_names,
        iteration=iteration,
        levels=tuple(levels),
        **about(run, settings, began),
    )


def draw_words(found: FoundWords, width: float = TEXT_WIDTH) -> Figure:
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


WORDS = Proof(
    claim="words",
    question="Is a small model right on every word up to a length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small implicit model is right on every word up to "
    "a length.",
    settings=WordsSettings,
    needs=FIXED_POINTS,
    prove=prove_words,
    draw=draw_words,
    shows="Rigorous enclosures of all states after every word: the largest radius of any "
    "enclosure, and the least proved margin of the right answer over any other, in "
    "logits, by the length of the words in tokens.",
)
PROOFS = (WORDS,)
