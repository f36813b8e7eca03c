"""Right answers to words of every length, followed in rigorous arithmetic.

Steps and iteration are those of `analysis.certificates.proofs.words`.

**Words of every length.** A finite list of ellipsoids that the closed loop provably cannot leave. The initial
state lies in one, so the answer after any number of tokens is right.

1. The states that can be reached, up to a coarse distance, form a finite automaton (`reachable_states`). From
   the initial state all tokens are followed. A state that lies near one found before, with the same label, is
   taken for it; where the loop forgets, finitely many remain.
2. Along it there are metrics in which every step contracts (`theory.rigorous.covers.contracting_metrics`).
3. A set may be as large as the curvature of the step allows, on it and on all that follow; the reachable
   states are taken again, up to a fraction of that.
4. Radii are grown until every step provably leads into its target (`theory.rigorous.covers.invariant_cover`).
5. States are bundled until it is proved of every bundle that its orbits from zero stop near the fixed points
   (`theory.rigorous.covers.orbits`).

It is also tried to prove that the iteration tends to the same fixed points from all latents that the last
norm can give, and not from zero alone: by Theorem 2 of docs/when_modes_agree.md the simultaneous mode then
tends to the same answers. That holds where Φ maps all latents into a ball in which it contracts
(`implicit.enclosed.image_ball`), as of a model that was trained for it.

Only the last two steps and this are the proof. It holds with every relative tolerance up to the one that is
asked for, which the run's own may exceed, in real arithmetic and, of the sequential mode, as float64 computes
it (``python -m implicit.answer``). Rounding is bounded along with it under the assumptions of
`theory.rigorous.rounded`; the run's float32 is not part of the proof.

A step of an **explicit model** is an evaluation of its own code on balls, and there is no iteration to speak
of. Rounding is covered by an allowance: the sets hold all steps that are off by at most
`EXPLICIT_STEP_ERROR`, that of float64 being far smaller, and logits may be off by less than half the margin.
"""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
import torch
from matplotlib.figure import Figure
from pydantic import Field, PositiveFloat, PositiveInt
from scipy.spatial import cKDTree

from analysis.certificates.claims.lengths import ExplicitLengths, Lengths, Starts
from analysis.certificates.producing import Found, Proof, about
from analysis.certificates.proofs.words import (
    LARGEST_STATE,
    WORD,
    IntArray,
    IterationSettings,
    ProvedIteration,
    check_answers,
    check_run,
    enclosed_loop,
    errors_of,
    iteration_of,
    prove_iteration,
    solve_steps,
    upper_triangle,
)
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.finding import Rows, for_title
from analysis.framework.needs import FIXED_POINTS, Need, as_implicit, word_problem_of
from analysis.framework.palette import RED
from analysis.framework.settings import settings_from
from analysis.framework.visited_states import in_double_precision
from automata.checks import at_least, at_most
from automata.command_line import progress_bar
from automata.errors import InputError
from automata.tasks.word_problem import WordProblem
from implicit.cells.contract import check_reading, close, evaluation_mode, words_of
from implicit.enclosed.any_loop import LARGEST, EnclosedAnyLoop
from implicit.enclosed.closed_loop import EnclosedClosedLoop, flatten_state, unflatten_state
from implicit.enclosed.image_ball import ImageBalls, image_balls
from implicit.fixed_point import Stopping
from implicit.models.interface import SequenceModel
from implicit.models.step_model import StepModel
from implicit.models.torch_rnn import TorchRNN
from implicit.runs.loading import STORED_RUNS, Run
from theory.rigorous.balls import Ball, Dual
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.contracting_metrics import contracting_metrics, step_jacobians
from theory.rigorous.covers.invariant_cover import (
    LEAST_RADIUS,
    ClosedCover,
    Cover,
    EnclosedLoop,
    StepErrors,
    bound_all,
    close_cover,
    reach_and_box,
)
from theory.rigorous.covers.orbits import Members
from theory.rigorous.tensors.agreement import AsReal, compare_beside, compare_in_batches
from theory.rigorous.tensors.enclosed_tensor import Heard, listening

Step = Callable[[Array, IntArray], tuple[Array, Array]]
Tolerance = Callable[[Array, IntArray], tuple[Array | None, Array]]
NEIGHBOURS = 8  # nearest states in the Euclidean norm that are tried in their own metrics


@dataclass(frozen=True, eq=False)
class ReachableStates:
    """States with their labels, where tokens lead from them, and the latents of these steps."""

    states: Array  # [states, n]; the initial one is the first
    labels: IntArray  # [states]
    targets: IntArray  # the number of the state that stands for the next one, [states, tokens]
    latents: Array  # [states, tokens, d]


def reachable_states(
    step: Step, initial: Array, label: int, table: IntArray, tolerance: Tolerance, limit: int
) -> ReachableStates | None:
    """Follow all tokens from the initial state, and take near states for one; None if there are too many.

    The step gives the next states and the latents, from states ``[m, n]`` and tokens ``[m]``; the table the
    label after a token, ``[labels, tokens]``; the tolerance metrics W ``[m, n, n]`` and radii r ``[m]`` of
    states with their labels; W is the identity if None. A state s lies near c if ‖W (s − c)‖₂ ≤ r.
    """
    tokens = table.shape[1]
    states, labels = initial[None], np.array([label])
    metrics, radii = tolerance(states, labels)
    targets: list[IntArray] = []
    latents: list[Array] = []
    front = np.arange(1)
    bar = progress_bar(desc="states that words reach", unit="state", total=limit)
    while len(front):
        bar.update(len(front))
        read = np.tile(np.arange(tokens), len(front))
        images, found = step(np.repeat(states[front], tokens, axis=0), read)
        if not np.isfinite(images).all():
            raise FloatingPointError("a state that words reach is not a finite number")
        after = table[np.repeat(labels[front], tokens), read]
        own_metrics, own_radii = tolerance(images, after)
        reached = _nearest(images, after, states, labels, metrics, radii)
        added: list[int] = []
        number = np.full(len(images), -1)  # of those added
        tree = cKDTree(images) if own_metrics is None else None
        for row in np.nonzero(reached < 0)[0]:
            others = np.array(added, dtype=np.int64)
            if tree is not None:  # the same result, without a look at those that lie farther
                near = np.sort(tree.query_ball_point(images[row], own_radii.max()))
                others = near[number[near] >= 0]
            away = _measured(own_metrics, others, images[row] - images[others])
            distance = np.linalg.norm(away, axis=1) / own_radii[others]
            distance[after[others] != after[row]] = np.inf
            if len(others) and distance.min() <= 1:
                reached[row] = len(states) + number[others[distance.argmin()]]
                continue
            number[row], reached[row] = len(added), len(states) + len(added)
            added.append(int(row))
            if len(states) + len(added) > limit:
                bar.close()
                return None
        targets.append(reached.reshape(-1, tokens))
        latents.append(found.reshape(len(front), tokens, -1))
        front = np.arange(len(states), len(states) + len(added))
        states, labels = np.concatenate([states, images[added]]), np.concatenate([labels, after[added]])
        if metrics is not None and own_metrics is not None:
            metrics = np.concatenate([metrics, own_metrics[added]])
        radii = np.concatenate([radii, own_radii[added]])
    bar.close()
    return ReachableStates(states, labels, np.concatenate(targets), np.concatenate(latents))


def _measured(metrics: Array | None, of: IntArray, differences: Array) -> Array:
    """Differences of states in the metrics of some of them."""
    return differences if metrics is None else (metrics[of] @ differences[..., None])[..., 0]


def _nearest(
    images: Array, after: IntArray, states: Array, labels: IntArray, metrics: Array | None, radii: Array
) -> IntArray:
    """The number of the state that each image is taken for; −1 for none."""
    reached = np.full(len(images), -1, dtype=np.int64)
    for label in np.unique(after):
        there, here = np.nonzero(labels == label)[0], np.nonzero(after == label)[0]
        if not len(there):
            continue
        count = min(NEIGHBOURS, len(there))
        near = there[cKDTree(states[there]).query(images[here], k=count)[1].reshape(len(here), count)]
        away = _measured(metrics, near, images[here][:, None] - states[near])
        distance = np.linalg.norm(away, axis=-1) / radii[near]
        best = distance.argmin(axis=1)
        rows = np.arange(len(here))
        close = distance[rows, best] <= 1
        reached[here[close]] = near[rows, best][close]
    return reached


OF_STORED_RUNS: dict[str, dict[str, Any]] = {
    "s3-small": {
        "distance": 3e-3,
        "rate": 0.7,
        "fraction": 0.14,
        "sets": 40_000,
        "tolerance": 1e-9,
        "small_radius": 3e-5,
    },
    "parity-elman": {"distance": 0.05, "rate": 0.9},
}
"""Settings with which a proof was found, where they are others than the defaults."""


class LengthsSettings(IterationSettings):
    """Settings of the search for a cover; the statement that is proved does not depend on them."""

    distance: PositiveFloat = Field(default=1e-4, description="of states that are first taken for one")
    rate: PositiveFloat = Field(default=0.86, lt=1, description="contraction per token, to find metrics for")
    gain: PositiveFloat = Field(default=0.93, lt=1, description="a set is as large as keeps gains below this")
    fraction: PositiveFloat = Field(
        default=0.03, lt=1, description="share of that size within which states are taken for one"
    )
    sets: PositiveInt = Field(default=30_000, description="the most sets")
    tolerance: PositiveFloat = Field(
        default=1e-6, lt=1, description="the largest relative tolerance of the iteration that is proved right"
    )
    small_radius: PositiveFloat = Field(
        default=2e-6, description="of sets at which it is measured how gains grow with the radius"
    )


def for_run(settings: LengthsSettings, run: Run) -> LengthsSettings:
    """Return settings in which those that were not chosen are the ones of a stored run, if it has its own."""
    own = OF_STORED_RUNS.get(run.name, {}) if run.path.parent == STORED_RUNS else {}
    return settings.model_copy(update={n: own[n] for n in own if n not in settings.model_fields_set})


class SizedLoop(EnclosedLoop, Protocol):
    """A model on balls that says how many numbers its state has."""

    state_size: int


def find_cover(
    step: Step,
    loop: SizedLoop,
    model: SequenceModel,
    task: WordProblem,
    settings: LengthsSettings,
    errors: StepErrors,
) -> tuple[ClosedCover | None, str]:
    """Return a cover, whose first set holds the model's initial state, or why there is none."""
    with torch.no_grad():
        initial = flatten_state(model.init_state(1))[0].numpy()

    def follow(tolerance: Tolerance) -> ReachableStates | None:
        return reachable_states(step, initial, task.initial_state, task.table, tolerance, settings.sets)

    def coarse_tolerance(states: Array, _labels: IntArray) -> tuple[None, Array]:
        return None, np.full(len(states), settings.distance)

    many = f"more than {settings.sets} states lie farther than"
    unsettled = f"no metrics were found in which every step contracts by {settings.rate}"
    coarse = follow(coarse_tolerance)
    if coarse is None:
        remedy = "train on where answers are right (--target-accuracy none), or raise --sets"
        return None, f"{many} {settings.distance} from each other; {remedy}"
    cover = _with_metrics(loop, coarse, task.table, settings.rate)
    if cover is None:
        return None, unsettled
    largest = _largest_radii(loop, cover, settings.gain, settings.small_radius)

    def fine_tolerance(states: Array, labels: IntArray) -> tuple[Array, Array]:
        nearest = np.zeros(len(states), dtype=np.int64)
        for label in np.unique(labels):
            there, here = np.nonzero(coarse.labels == label)[0], np.nonzero(labels == label)[0]
            nearest[here] = there[cKDTree(coarse.states[there]).query(states[here])[1]]
        return cover.metrics[nearest], settings.fraction * largest[nearest]

    fine = follow(fine_tolerance)
    if fine is None:
        return None, f"{many} their sets may be wide from each other"
    whole = _with_metrics(loop, fine, task.table, settings.rate)
    if whole is None:
        return None, unsettled
    return close_cover(loop, whole, errors=errors), ""


def _with_metrics(loop: SizedLoop, found: ReachableStates, table: IntArray, rate: float) -> Cover | None:
    """A cover around these states; its radii are still to be found."""
    count = len(found.states)
    identity = np.broadcast_to(np.eye(loop.state_size), (count, loop.state_size, loop.state_size))
    answers = table[found.labels]
    plain = Cover(found.states, identity, identity, np.zeros(count), found.targets, answers, found.latents)
    metrics = contracting_metrics(step_jacobians(loop, plain), found.targets, rate)
    if metrics is None:
        return None
    return Cover(found.states, *metrics, np.zeros(count), found.targets, answers, found.latents)


def _largest_radii(loop: SizedLoop, cover: Cover, share: float, small_radius: float) -> Array:
    """Bound the radius of each set, so that its gains and those of all sets that follow stay below a share.

    The gain grows about linearly with the radius; a set of radius r leads into one of radius gain · r.
    """
    shape = cover.targets.shape
    gains, larger = (
        bound_all(loop, replace(cover, radii=np.full(cover.set_count, radius))).gain.reshape(shape)
        for radius in (LEAST_RADIUS, small_radius)
    )
    slopes = np.nan_to_num((larger - gains) / small_radius, nan=np.inf).clip(1)
    radii: Array = ((share - gains).clip(0.02) / slopes).min(axis=1)
    for _ in range(1000):
        followed = np.minimum(radii, (share * radii[cover.targets] / gains).min(axis=1))
        if np.allclose(followed, radii, rtol=1e-6, atol=0):
            break
        radii = followed
    return radii


STATED_SHARE = 0.95  # stated over proved margin: a check in other arithmetic has other roundings
STATED_RADIUS = 1.05  # stated over proved radius, for the same reason
COLUMNS = (
    "closed: steps (a set with a token) that lead into their target set. margin: lead of the right answer; "
    f"the certificate states {STATED_SHARE:.0%} of it, since its check rounds otherwise. gain: stretch of a "
    "set in a step. radius: of the sets."
)
AT_ONCE = 256  # steps that are bounded together, so that arrays of derivatives stay small


def prove_images(loop: EnclosedClosedLoop, cover: Cover) -> ImageBalls | None:
    """Prove at every step of a cover that Φ maps all latents into a ball in which it contracts, or None.

    The balls are around the latents of the cover, with the radii of a certificate, ``[sets, tokens]``.
    """
    sets, tokens = cover.targets.shape
    _, reach = reach_and_box(cover, np.arange(sets))
    index, token = np.divmod(np.arange(sets * tokens), tokens)
    parts: list[tuple[Array, Array]] = []
    for start in range(0, sets * tokens, AT_ONCE):
        i, x = index[start : start + AT_ONCE], token[start : start + AT_ONCE]
        boxes, centres = Ball.around(cover.centres[i], reach[i]), cover.latents[i, x]
        found = image_balls(loop, x, boxes, centres, STATED_RADIUS)
        parts.append((found.radius, found.lipschitz))
    radius, lipschitz = (np.concatenate(part).reshape(sets, tokens) for part in zip(*parts, strict=True))
    balls = ImageBalls(radius, lipschitz)
    return balls if balls.attracts.all() else None


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundLengths(Found):
    """The result of `prove_lengths`."""

    found: ClosedCover | None  # the cover with what is proved of its steps; None if there is no candidate
    no_cover: str  # why there is none
    iteration: ProvedIteration | None = None  # what is proved of it over the cover; None if that is open
    images: ImageBalls | None = None  # what is proved of all latents; None if that is not proved
    initial_state: int

    @property
    def proved(self) -> bool:
        """Return whether the answers to all words of every length are proved right."""
        closed = self.found is not None and bool(self.found.closed.all())
        return closed and self.iteration is not None and self.iteration.attraction.holds

    @property
    def fault(self) -> str:
        """Why nothing is proved."""
        if self.found is None:
            return self.no_cover
        sets, steps = self.found.cover.set_count, len(self.found.closed)
        if self.iteration is not None:
            return f"{sets} sets are mapped into each other by fixed points, but {self.iteration.fault}"
        closed = int(self.found.closed.sum())
        wrong = int((self.found.bounds.margin < 0).sum())
        errs = f"; {wrong} of the steps have a margin below 0, so look at the accuracy first" if wrong else ""
        return f"{closed} of {steps} steps between {sets} sets lead into their targets{errs}"

    def rows(self) -> list[Rows]:
        """Return the figures of the cover."""
        if self.found is None:
            return []
        found = self.numbers()
        columns = ("sets", "steps", "closed", "margin", "largest_gain", "largest_radius", "median_radius")
        row = [
            str(found[n]) if isinstance(found[n], int) else (at_least if n == "margin" else at_most)(found[n])
            for n in columns
        ]
        return [Rows([name.replace("_", " ") for name in columns], [row], self.run.title, COLUMNS)]

    def numbers(self) -> dict[str, Any]:
        """Return everything but the sets, for JSON."""
        content: dict[str, Any] = {"sentence": self.sentence, "proved": self.proved, "fault": self.no_cover}
        if self.found is not None:
            bounds, radii = self.found.bounds, self.found.cover.radii
            content |= {
                "sets": self.found.cover.set_count,
                "steps": len(self.found.closed),
                "closed": int(self.found.closed.sum()),
                "margin": float(bounds.margin.min()),
                "largest_gain": float(bounds.gain.max()),
                "largest_radius": float(radii.max()),
                "median_radius": float(np.median(radii)),
            }
        if self.iteration is not None:
            content |= {
                "bundles": self.iteration.attraction.bundles.count,
                "iterations": self.iteration.attraction.iterations,
                "tolerance": self.iteration.iteration.tolerance,
                "latent_error": self.iteration.iteration.latent_error,
            }
        if self.images is not None:
            content["all_latents"] = {
                "proved": True,
                "steps": self.images.radius.size,
                "largest_image_radius": float(self.images.radius.max()),
                "largest_lipschitz_constant": float(self.images.lipschitz.max()),
            }
        return content

    def sets(self) -> dict[str, Any]:
        """Return the lines of a certificate that say what the sets are, where they lead, and the margin."""
        assert self.found is not None
        cover = self.found.cover
        # the answer to a token is the label of its target
        labels = np.zeros(cover.set_count, dtype=np.int64)
        labels[cover.targets.ravel()] = cover.answers.ravel()
        labels[0] = self.initial_state
        return {
            "labels": labels.tolist(),
            "targets": cover.targets.tolist(),
            "centres": cover.centres,
            "metrics": upper_triangle(cover.metrics),
            "radii": cover.radii,
            "margin": float(self.found.bounds.margin.min()) * STATED_SHARE,
        }

    @cached_property
    def claims(self) -> list[Any]:
        """The claim on words of every length, and that on every start if it is proved."""
        if self.found is None or self.iteration is None or not self.proved:
            return []
        cover = self.found.cover
        membership = self.iteration.attraction.membership.reshape(cover.targets.shape)
        lengths = Lengths(
            statements=Lengths.stated(self.config),
            **self.sets(),
            latents=cover.latents,
            latent_radii=self.found.bounds.latent_radius,
            bundle_of=[[*map(int, row)] for row in membership],
            **self.iteration.fields(),
        )
        if self.images is None:
            return [lengths]
        return [lengths, Starts(statements=Starts.stated(self.config), image_radii=self.images.radius)]


def prove_lengths(
    run: Run, settings: LengthsSettings | None = None, *, starts: bool = False, **chosen: Any
) -> FoundLengths:
    """Prove that a model answers words of every length as its task does."""
    settings = for_run(settings_from(LengthsSettings, chosen, settings), run)
    began = time.monotonic()
    check_answers(run.model)
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    loop = enclosed_loop(as_implicit(run))
    run_iteration = iteration_of(model, settings.tolerance, settings.dtype)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)

    def step(states: Array, tokens: IntArray) -> tuple[Array, Array]:
        return solve_steps(model, states, tokens, stopping)

    try:
        found, fault = find_cover(step, loop, model, task, settings, errors_of(run_iteration))
    except FloatingPointError as overflow:
        found, fault = None, str(overflow)
    iteration, images = None, None
    if found is not None and found.closed.all():
        members = Members.of_cover(found.cover, found.bounds.latent_radius)
        iteration = prove_iteration(loop, members, run_iteration, model.stopping)
        if iteration.attraction.holds:
            check_run(model, loop, stopping)
        if iteration.attraction.holds and starts and isinstance(loop, EnclosedClosedLoop):
            images = prove_images(loop, found.cover)
    return FoundLengths(
        found=found,
        no_cover=fault,
        iteration=iteration,
        images=images,
        initial_state=task.initial_state,
        **about(run, settings, began),
    )


def draw_cover(analysis: FoundLengths, width: float = TEXT_WIDTH) -> Figure:
    """Draw the gains of all steps and the radii of all sets."""
    with styled():
        title = for_title(analysis.run.title, analysis.finding)
        figure, axes = new_panels(width, 0 if analysis.found is None else 2, **title)
        if analysis.found is None:
            return figure
        gain, radius = axes
        gains = analysis.found.bounds.gain
        gain.hist(gains[np.isfinite(gains)], bins=50)  # of a step without a bound there is nothing to draw
        gain.axvline(1, color=RED, label="no contraction")
        legend_below(gain)
        gain.set(
            title="gain of the steps, in their metrics", xlabel="gain per token", ylabel="number of steps"
        )
        radii = np.log10(analysis.found.cover.radii)
        radius.hist(radii[np.isfinite(radii)], bins=50)
        radius.set(title="radius of the sets, in their metrics", xlabel="log10 of the radius")
        radius.set_ylabel("number of sets")
        return figure


EXPLICIT_STEP_ERROR = 1e-9
CONTEXT = 4096  # tokens of two words in which `embed` is compared with itself on single tokens
POINTS = 16  # sets at whose centres the code is compared with itself on floats


@dataclass(frozen=True, eq=False, kw_only=True)
class FoundExplicit(FoundLengths):
    """The result for an explicit model: no iteration, and no starts."""

    @property
    def proved(self) -> bool:
        """Return whether the answers to all words of every length are proved right."""
        return self.found is not None and bool(self.found.closed.all())

    @cached_property
    def claims(self) -> list[ExplicitLengths]:
        """The claim on words of every length."""
        if not self.proved:
            return []
        statements = ExplicitLengths.stated(self.config)
        return [ExplicitLengths(statements=statements, step_error=EXPLICIT_STEP_ERROR, **self.sets())]


def prove_explicit(run: Run, settings: LengthsSettings | None = None) -> FoundExplicit:
    """Prove that an explicit model answers words of every length as its task does."""
    settings, began = for_run(settings or LengthsSettings(), run), time.monotonic()
    check_answers(run.model)
    model, task = in_double_precision(run.model), word_problem_of(run)
    loop = EnclosedAnyLoop(model)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of the model has {loop.state_size} numbers; give at most {LARGEST_STATE}"
        )

    @torch.no_grad()
    def step(states: Array, tokens: IntArray) -> tuple[Array, Array]:
        before = unflatten_state(model, torch.as_tensor(states))
        after, _ = model.step(before, torch.as_tensor(tokens))
        # `step` may name the parts in another order
        vectors = flatten_state({name: after[name] for name in before}).numpy()
        return vectors, vectors

    # the next state is what answers are read from, the latent here: its error moves logits as well
    errors = StepErrors(EXPLICIT_STEP_ERROR, EXPLICIT_STEP_ERROR)
    found, fault = find_cover(step, loop, model, task, settings, errors)
    if found is not None and found.closed.all():
        sets = np.arange(found.cover.set_count)
        reach = np.abs(found.cover.centres) + reach_and_box(found.cover, sets)[1]
        if not reach.max() + found.bounds.latent_radius.max() <= LARGEST:
            found, fault = None, f"states are larger than {LARGEST:g}"
        else:
            _compare(model, loop, found.cover.centres[:POINTS], task.vocabulary_size)
            with evaluation_mode(run.model), torch.no_grad():
                check_reading(run.model, words_of(run.model, secrets.randbits(63), WORD), steps=model)
    return FoundExplicit(
        found=found, no_cover=fault, initial_state=task.initial_state, **about(run, settings, began)
    )


@torch.no_grad()
def _compare(model: SequenceModel, loop: EnclosedAnyLoop, centres: Array, tokens: int) -> None:
    """Refuse code that is another function on balls than on float64 tensors."""
    states, read = np.repeat(centres, tokens, axis=0), np.tile(np.arange(tokens), len(centres))
    parts: Mapping[str, Any] = unflatten_state(model, torch.as_tensor(states))
    where = torch.as_tensor(read)
    with AsReal():
        precise = model.transitions(where)
    sizes = [sum(parts[name][0].numel() for name in names) for names in precise.layer_states]
    compare_beside(
        precise,
        loop.transitions(read),
        {name: part.numpy() for name, part in parts.items()},
        np.zeros((len(read), 0)),
        [np.arange(len(read)) % size for size in sizes],
    )
    heard = Heard()
    with listening(heard):  # of what is done with the state, which comes with a derivative
        logits = loop.decoded(Dual.constant(Ball.exact(states), 1)).value
    reader: Any = model
    with AsReal():
        expected = reader.read(parts).numpy()
    if not (np.abs(logits.midpoint - expected) <= logits.radius + 1e-9 * (1 + np.abs(expected))).all():
        raise InputError("read gives other logits on balls than on tensors; write one formula for both")
    if isinstance(model, StepModel):
        words = words_of(model, secrets.randbits(63), CONTEXT)
        if not close(model, model.embed(words), model.embed(torch.arange(tokens))[words]):
            raise InputError(
                f"embed of {type(model).__name__} gives a token of a word of {CONTEXT} tokens other "
                "inputs than alone; let it take each token for itself"
            )
        compare_in_batches(model.update, parts, precise.inputs["embedded"])
        compare_in_batches(lambda state, _: model.read(state), parts, where, heard)


LENGTHS = Proof(
    claim="lengths",
    question="Is a small model right on words of every length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small model is right on words of every length. "
    "The stored run s3-small has defaults of its own.",
    settings=LengthsSettings,
    needs=FIXED_POINTS,
    prove=prove_lengths,
    draw=draw_cover,
    shows="A cover of all states that words of any length reach: by how much each step shrinks or "
    "stretches a set, in the metric of the sets (below 1: contraction), and decimal "
    "logarithms of the radii of all sets in their metrics.",
)
EXPLICIT = replace(
    LENGTHS,
    needs=Need(
        lambda model: isinstance(model, StepModel | TorchRNN),
        "of whose steps nothing can be proved",
        "give the run of an implicit model, of an elman, gru or lstm, or of a StepModel, as which a module "
        "of implicit.wrap can be written",
    ),
    prove=prove_explicit,
)
STARTS = replace(
    LENGTHS,
    claim="starts",
    question="Does the simultaneous mode tend to the right answers too? A proof, with a certificate.",
    description="Prove that a small implicit model is right on words of every length and, where all latents "
    "are attracted, that the simultaneous mode tends to the same answers from every start.",
    # where only words of every length are proved, that is what is claimed
    prove=partial(prove_lengths, starts=True),
)
PROOFS = (EXPLICIT, LENGTHS, STARTS)
