"""All words up to a length, followed in rigorous arithmetic: a ball that holds the state after every word.

A tree of words is the cover of `theory.rigorous.covers.invariant_cover` in which only the first tokens have
targets. Centres are what the solver finds in floating point, of which nothing is assumed; the radius after a
token is a little more than what is proved of the image of the ball before it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from analysis.certificates.orbits.producer import ProvedIteration, prove_iteration
from analysis.certificates.words.document import WordLevel
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.enclosed.closed_loop import EnclosedClosedLoop, flatten_state, unflatten_state
from implicit.fixed_point import Stopping
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve
from theory.rigorous.covers.bundling import Members
from theory.rigorous.covers.invariant_cover import EXACT, Cover, StepBounds, StepErrors, enclose_steps
from theory.rigorous.covers.orbits import Iteration

LARGEST_STATE = 200
"""Matrices of all derivatives by the state are held for hundreds of positions at once."""
FIRST_RADIUS = 1e-13
SLACK = 1.01
"""By how much a ball is larger than what is proved of it, for a check in other arithmetic."""
STATED_SHARE = 0.999
"""Of a margin that is proved, how much a certificate states, for the same reason."""
STEPS_AT_ONCE = 512

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ProvedLevel:
    """What is found of the words of one length whose beginnings are all proved right.

    Attributes:
        words: token numbers, ``[words, length]``.
        states: centres of the states after them, ``[words, n]``.
        latents: approximate fixed points of their last tokens, ``[words, d]``.
        bounds: what is proved of their last steps.
        before: centres of the states before their last tokens, ``[words, n]``.
        before_radii: of the balls around these, ``[words]``.

    Example:
        `prove_levels` yields them.
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
    loop: EnclosedClosedLoop, levels: Sequence[ProvedLevel], iteration: Iteration, stopping: Stopping
) -> tuple[ProvedIteration, list[NDArray[np.int64]]]:
    """Prove of the words of levels that the iteration ends near the fixed points of their last tokens.

    Args:
        loop: the model.
        levels: those of which something is proved; the words of which nothing is are left out.
        iteration: what is asked of it.
        stopping: that of the run.

    Returns:
        What is proved, and for each level the bundle of every word; −1 where nothing is proved of it or of a
        word that it begins with.

    Example:
        `analysis.all_words.analyse` calls it.
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
    model: FixedPointModel,
    task: WordProblem,
    length: int,
    stopping: Stopping,
    errors: StepErrors = EXACT,
) -> Iterator[ProvedLevel]:
    """Follow all words, one length after the other, as long as some are proved right.

    Args:
        model: in double precision, with one layer and a small state.
        task: gives the right answers.
        length: of the longest words.
        stopping: of the approximate fixed points.
        errors: by how much the steps may be inexact.

    Raises:
        InputError: for several layers or a large state.

    Example:
        >>> from automata.tasks.registry import make_task
        >>> from implicit.runs.loading import load_run
        >>> run = load_run("parity-small")
        >>> stopping = Stopping(rtol=1e-13, max_iterations=2000)
        >>> model, task = run.model.double().implicit, make_task("parity")
        >>> levels = prove_levels(model, task, 3, stopping)
        >>> [int(level.proved.sum()) for level in levels]
        [2, 4, 8]
    """
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


def enclosed_loop(model: FixedPointModel) -> EnclosedClosedLoop:
    """Return the model on balls, if all derivatives by its state can be held at many positions.

    Raises:
        InputError: for several layers or a large state.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> enclosed_loop(load_run("parity-small").model).state_size
        18
    """
    loop = EnclosedClosedLoop(model)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of the model has {loop.state_size} numbers; give a run of at most "
            f"{LARGEST_STATE}, such as parity-small"
        )
    return loop


@torch.no_grad()
def solve_steps(
    model: FixedPointModel, states: Array, tokens: NDArray[np.int64], stopping: Stopping
) -> tuple[Array, Array]:
    """Return the next states and the latents in floating point: centres, of which nothing is assumed.

    Args:
        model: in double precision, with one layer.
        states: ``[steps, n]``.
        tokens: ``[steps]``.
        stopping: of the fixed points.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> model = load_run("parity-small").model.double()
        >>> after, latents = solve_steps(model, np.zeros((2, 18)), np.array([0, 1]), Stopping(rtol=1e-12))
        >>> after.shape, latents.shape
        ((2, 18), (2, 8))
    """
    before = unflatten_state(model, torch.as_tensor(states))
    output = model.run(torch.as_tensor(tokens)[:, None], before, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    return flatten_state(output.state).numpy(), output.solution.latents[:, 0].numpy()


def _bounds(
    loop: EnclosedClosedLoop,
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
