"""Is the model right on words of every length? ``python -m analysis.all_lengths RUN``: a proof by induction.

A finite list of ellipsoids of states is found that the closed loop cannot leave: every token maps every
ellipsoid into another one, and the answer is right on all of it (`theory.rigorous.covers.invariant_cover`).
The initial state lies in one, so the answer after any number of tokens is right. "Maps" means by the
iteration that is run: from the latent zero, damped, until the relative tolerance is met, one token after the
other (`theory.rigorous.covers.orbits`). How the ellipsoids are found:

1. the states that can be reached, up to a coarse distance, form a finite automaton (`reachable_states`);
2. along it there are metrics in which every step contracts (`theory.rigorous.covers.contracting_metrics`);
3. a set may be so large as the curvature of the step allows, on it and on all that follow; the reachable
   states are taken again, up to a fraction of that;
4. their radii are grown until every step provably leads into its target (`theory.rigorous.covers.radii`).

5. the states are bundled until of every bundle it is proved that its orbits from zero stop near the fixed
   points (`theory.rigorous.covers.bundling`).

Only the last two steps are the proof. It is about the model in real arithmetic, its weights as the exact
numbers that their floats are, and about every relative tolerance up to the one that is asked for; the run's
own may be larger. What rounding adds is not part of it.
"""

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, PositiveFloat, PositiveInt
from rich.table import Table
from scipy.spatial import cKDTree

from analysis.certificates.cover.document import (
    COVER_FORMAT,
    COVER_STATEMENTS,
    CoverCertificate,
)
from analysis.certificates.cover.reachable_states import ReachableStates, Tolerance, reachable_states
from analysis.certificates.orbits.document import DType, upper_triangle
from analysis.certificates.orbits.producer import ProvedIteration, asked_of, errors_of, prove_iteration
from analysis.certificates.parts import at_least
from analysis.certificates.producing import automaton_of, document_head
from analysis.certificates.words.producer import enclosed_loop, solve_steps
from analysis.framework.analysis import RunAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import RED
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.fixed_point import Stopping
from implicit.runs.loading import Run
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.bundling import Members
from theory.rigorous.covers.contracting_metrics import contracting_metrics, step_jacobians
from theory.rigorous.covers.invariant_cover import Cover, with_radii
from theory.rigorous.covers.radii import LEAST_RADIUS, ClosedCover, bound_all, close_cover

IntArray = NDArray[np.int64]
STATED_SHARE = 0.95
"""Of the margin that is proved, how much a certificate states: other arithmetic has other roundings."""
SMALL_RADIUS = 2e-6
"""At it the growth of gains with the radius is measured."""


class AllLengthsSettings(CheckedConfig):
    """How the cover is searched for; what is proved does not depend on it.

    Example:
        >>> AllLengthsSettings().rate
        0.86
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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
    dtype: DType = Field(
        default="float64", description="whose rounding is to be covered: float64, or real, for none"
    )
    rtol: PositiveFloat = Field(default=1e-13, description="tolerance of the approximate fixed points")
    max_iterations: PositiveInt = Field(default=2000, description="the most self-iterations per token")


@dataclass(frozen=True, eq=False)
class AllLengthsAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        found: the cover with what is proved of its steps; None if there is no candidate.
        iteration: what is proved of the iteration over it; None if the cover is not closed.
        fault: why there is none; empty otherwise.
        seconds: how long it took.

    Example:
        `analyse` returns one.
    """

    run: RunIdentity
    settings: AllLengthsSettings
    found: ClosedCover | None
    iteration: ProvedIteration | None
    fault: str
    seconds: float

    @property
    def proved(self) -> bool:
        """Whether the answers to all words of every length are proved right."""
        closed = self.found is not None and bool(self.found.closed.all())
        return closed and self.iteration is not None and self.iteration.attraction.holds

    @property
    def sentence(self) -> str:
        """The finding."""
        if self.found is None:
            return f"nothing is proved: {self.fault}"
        sets, steps = self.found.cover.set_count, len(self.found.closed)
        if self.iteration is not None and self.proved:
            return (
                f"proved right on all words of every length, {self.iteration.scope}: {sets} sets of states "
                "are mapped into each other, with a margin of at least "
                f"{at_least(float(self.found.bounds.margin.min()))}; {self.iteration.caveat}"
            )
        if self.iteration is not None:
            mapped = f"{sets} sets are mapped into each other by fixed points"
            return f"nothing is proved: {mapped}, but {self.iteration.fault}"
        closed = int(self.found.closed.sum())
        return f"nothing is proved: {closed} of {steps} steps between {sets} sets lead into their targets"

    def numbers(self) -> dict[str, Any]:
        """Return everything but the sets, for JSON."""
        content: dict[str, Any] = {"sentence": self.sentence, "proved": self.proved, "fault": self.fault}
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
        return content

    def certificate(self, run: Run) -> CoverCertificate:
        """Return the cover as a document that `analysis.check_certificate` verifies by other means.

        Args:
            run: the run that was analysed.

        Raises:
            InputError: if nothing is proved.
        """
        if self.found is None or self.iteration is None or not self.proved:
            raise InputError(f"of run {run.path.name} nothing is proved; a certificate needs a closed cover")
        cover = self.found.cover
        # the answer to a token is the label of its target
        labels = np.zeros(cover.set_count, dtype=np.int64)
        labels[cover.targets.ravel()] = cover.answers.ravel()
        labels[0] = word_problem_of(run).initial_state
        certificate = CoverCertificate(
            format=COVER_FORMAT,
            statements=COVER_STATEMENTS,
            **document_head(run, self.seconds, self.settings),
            automaton=automaton_of(run),
            labels=labels.tolist(),
            targets=cover.targets.tolist(),
            centres=cover.centres,
            metrics=upper_triangle(cover.metrics),
            radii=cover.radii,
            latents=cover.latents,
            latent_radii=self.found.bounds.latent_radius,
            bundle_of=[
                [*map(int, row)] for row in self.iteration.attraction.membership.reshape(cover.targets.shape)
            ],
            **self.iteration.fields(),
            margin=float(self.found.bounds.margin.min()) * STATED_SHARE,
        )
        return certificate.sealed()


def analyse(run: Run, settings: AllLengthsSettings | None = None, **chosen: Any) -> AllLengthsAnalysis:
    """Prove that a model answers words of every length as its task does.

    Args:
        run: a loaded run of an implicit model of one layer with a small state, that forgets.
        settings: how the proof is searched for.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, a model that is not implicit, has several layers or a large state, or a
            task that is no word problem.

    Example:
        A minute and some hundred megabytes for the stored run; too few sets are told at once.

        >>> from implicit.runs.loading import load_run
        >>> analyse(load_run("parity-small"), sets=100).sentence
        'nothing is proved: more than 100 states lie farther than 0.0001 from each other'
    """
    settings = settings_from(AllLengthsSettings, chosen, settings)
    began = time.monotonic()
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    loop = enclosed_loop(model)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    asked = asked_of(model, settings.tolerance, settings.dtype)

    def follow(tolerance: Tolerance) -> ReachableStates | None:
        return reachable_states(
            lambda states, tokens: solve_steps(model, states, tokens, stopping),
            np.zeros(loop.state_size),
            task.initial_state,
            task.table,
            tolerance,
            settings.sets,
        )

    def outcome(found: ClosedCover | None, fault: str = "") -> AllLengthsAnalysis:
        iteration = None
        if found is not None and found.closed.all():
            members = Members.of_cover(found.cover, found.bounds.latent_radius)
            iteration = prove_iteration(loop, members, asked, model.stopping)
        seconds = time.monotonic() - began
        return AllLengthsAnalysis(RunIdentity.of(run), settings, found, iteration, fault, seconds)

    def coarse_tolerance(states: Array, _labels: IntArray) -> tuple[Array, Array]:
        shape = (len(states), loop.state_size, loop.state_size)
        return np.broadcast_to(np.eye(loop.state_size), shape), np.full(len(states), settings.distance)

    many = f"more than {settings.sets} states lie farther than"
    unsettled = f"no metrics were found in which every step contracts by {settings.rate}"
    coarse = follow(coarse_tolerance)
    if coarse is None:
        return outcome(None, f"{many} {settings.distance} from each other")
    cover = _with_metrics(loop, coarse, task.table, settings.rate)
    if cover is None:
        return outcome(None, unsettled)
    room = _room(loop, cover, settings.gain)

    def fine_tolerance(states: Array, labels: IntArray) -> tuple[Array, Array]:
        nearest = np.zeros(len(states), dtype=np.int64)
        for label in np.unique(labels):
            there, here = np.nonzero(coarse.labels == label)[0], np.nonzero(labels == label)[0]
            nearest[here] = there[cKDTree(coarse.states[there]).query(states[here])[1]]
        return cover.metrics[nearest], settings.fraction * room[nearest]

    fine = follow(fine_tolerance)
    if fine is None:
        return outcome(None, f"{many} their sets may be wide from each other")
    whole = _with_metrics(loop, fine, task.table, settings.rate)
    if whole is None:
        return outcome(None, unsettled)
    return outcome(close_cover(loop, whole, errors=errors_of(asked)))


def _with_metrics(
    loop: EnclosedClosedLoop, found: ReachableStates, table: IntArray, rate: float
) -> Cover | None:
    """A cover around these states; its radii are still to be found."""
    count = len(found.states)
    identity = np.broadcast_to(np.eye(loop.state_size), (count, loop.state_size, loop.state_size))
    answers = table[found.labels]
    plain = Cover(found.states, identity, identity, np.zeros(count), found.targets, answers, found.latents)
    metrics = contracting_metrics(step_jacobians(loop, plain), found.targets, rate)
    if metrics is None:
        return None
    return Cover(found.states, *metrics, np.zeros(count), found.targets, answers, found.latents)


def _room(loop: EnclosedClosedLoop, cover: Cover, share: float) -> Array:
    """How large each set may be, so that its gains and those of all sets that follow stay below a share.

    The gain grows about linearly with the radius; a set of radius r leads into one of radius gain · r.
    """
    shape = cover.targets.shape
    gains, larger = (
        bound_all(loop, with_radii(cover, np.full(cover.set_count, radius))).gain.reshape(shape)
        for radius in (LEAST_RADIUS, SMALL_RADIUS)
    )
    slopes = np.nan_to_num((larger - gains) / SMALL_RADIUS, nan=np.inf).clip(1)
    room: Array = ((share - gains).clip(0.02) / slopes).min(axis=1)
    for _ in range(1000):
        followed = np.minimum(room, (share * room[cover.targets] / gains).min(axis=1))
        if np.allclose(followed, room, rtol=1e-6, atol=0):
            break
        room = followed
    return room


def draw(analysis: AllLengthsAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw the gains of all steps and the radii of all sets.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> len(draw(analyse(load_run("parity-small"), sets=100)).axes)
        0
    """
    with styled():
        title, color = f"{analysis.run.title}\n{analysis.sentence}", "black" if analysis.proved else RED
        panels = 0 if analysis.found is None else 2
        figure, axes = new_panels(width, panels, title, color=color)
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
        radius.hist(np.log10(analysis.found.cover.radii), bins=50)
        radius.set(
            title="radius of the sets, in their metrics",
            xlabel="log10 of the radius",
            ylabel="number of sets",
        )
        return figure


def caption(analysis: AllLengthsAnalysis) -> str:
    """Tell what is drawn, and the finding.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> caption(analyse(load_run("parity-small"), sets=100)).split(",")[0]
        'A cover of all states that words of any length reach: nothing is proved: more than 100 states ...'
    """
    return (
        f"A cover of all states that words of any length reach: {analysis.sentence}. By how much each step "
        "shrinks or stretches a set, in the metric of the sets (below 1: contraction), and decimal "
        "logarithms of the "
        "radii of all sets in their metrics."
    )


def tables(analysis: AllLengthsAnalysis) -> list[Table | str]:
    """Return the figures of the cover, for the terminal.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> tables(analyse(load_run("parity-small"), sets=100))[-1]
        'nothing is proved: more than 100 states lie farther than 0.0001 from each other'
    """
    if analysis.found is None:
        return [analysis.sentence]
    table = Table(title=analysis.run.title, title_justify="left")
    found = analysis.numbers()
    columns = ("sets", "steps", "closed", "margin", "largest_gain", "largest_radius", "median_radius")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    table.add_row(*(str(found[n]) if isinstance(found[n], int) else number(found[n]) for n in columns))
    return [table, analysis.sentence]


def _documents(run: Run, found: AllLengthsAnalysis) -> dict[str, Any]:
    return {"certificate.json": found.certificate(run).model_dump(mode="json")} if found.proved else {}


ANALYSIS = RunAnalysis(
    name="all_lengths",
    question="Is a small model right on words of every length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small implicit model is right on words of every length.",
    settings=AllLengthsSettings,
    measure=analyse,
    draw=draw,
    caption=caption,
    tables=tables,
    documents=_documents,
    needs=FIXED_POINTS,
)
main = ANALYSIS.main

if __name__ == "__main__":
    sys.exit(main())
