"""Words of every length: a finite list of ellipsoids of states that the closed loop provably cannot leave.

Every token maps every ellipsoid into another one, and the answer is right on all of it
(`theory.rigorous.covers.invariant_cover`). The initial state lies in one, so the answer after any number of
tokens is right. "Maps" means by the iteration that is run (`theory.rigorous.covers.orbits`): from the latent
zero, damped, until the relative tolerance is met, one token after the other.

1. The states that can be reached, up to a coarse distance, form a finite automaton (`reachable_states`).
2. Along it there are metrics in which every step contracts (`theory.rigorous.covers.contracting_metrics`).
3. A set may be as large as the curvature of the step allows, on it and on all that follow; the reachable
   states are taken again, up to a fraction of that.
4. Radii are grown until every step provably leads into its target (`theory.rigorous.covers.radii`).
5. States are bundled until it is proved of every bundle that its orbits from zero stop near the fixed points
   (`theory.rigorous.covers.bundling`).

It is also tried to prove that the iteration tends to the same fixed points from all latents that the last
norm can give, and not from zero alone: by Theorem 2 of docs/when_modes_agree.md the simultaneous mode then
tends to the same answers. That holds where Φ maps all latents into a ball in which it contracts
(`implicit.enclosed.image_ball`), as of a model that was trained for it.

Only the last two steps and this are the proof. It is about the model with its weights as the exact numbers
that their floats are, in real arithmetic and, of the sequential mode, as float64 computes it (``python -m
implicit.answer``), whose rounding is bounded along with it under the assumptions of
`theory.rigorous.float_format`; and about every relative tolerance up to the one that is asked for. The run's
own may be larger, and its float32 is not part of it.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.certificates.certificate import Claim, at_least, at_most
from analysis.certificates.claims.lengths import Lengths
from analysis.certificates.claims.starts import OF_EVERY_START, Starts
from analysis.certificates.iteration import upper_triangle
from analysis.certificates.producing import Found, Proof, stated
from analysis.certificates.proofs.cover_search import IntArray, LengthsSettings, find_cover, for_run
from analysis.certificates.proofs.steps import (
    ProvedIteration,
    asked_of,
    enclosed_loop,
    errors_of,
    prove_iteration,
    solve_steps,
)
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.finding import Rows, for_title
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import RED
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision
from implicit.enclosed.closed_loop import EnclosedClosedLoop
from implicit.enclosed.image_ball import ImageBalls, image_balls
from implicit.fixed_point import Stopping
from implicit.runs.loading import Run
from theory.rigorous.balls import Ball
from theory.rigorous.balls.ball import Array
from theory.rigorous.covers.bundling import Members
from theory.rigorous.covers.invariant_cover import Cover, extents
from theory.rigorous.covers.radii import ClosedCover

STATED_SHARE = 0.95
"""Of the margin that is proved, how much a certificate states: other arithmetic has other roundings."""
STATED_RADIUS = 1.05
"""Of a radius that is proved, what a certificate states, for the same reason."""
AT_ONCE = 256
"""Steps that are bounded together, so that arrays of derivatives stay small."""


def prove_images(loop: EnclosedClosedLoop, cover: Cover) -> ImageBalls | None:
    """Prove at every step of a cover that Φ maps all latents into a ball in which it contracts, or None.

    The balls are around the latents of the cover, with the radii of a certificate, ``[sets, tokens]``.
    """
    sets, tokens = cover.targets.shape
    reach = extents(cover, np.arange(sets))
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


@dataclass(frozen=True, eq=False)
class FoundLengths(Found):
    """What `analyse` returns.

    Attributes:
        found: the cover with what is proved of its steps; None if there is no candidate.
        iteration: what is proved of the iteration over it; None if the cover is not closed.
        images: what is proved of all latents; None if that is not proved, or the rest is not.
    """

    run: RunIdentity
    settings: LengthsSettings
    found: ClosedCover | None
    iteration: ProvedIteration | None
    images: ImageBalls | None
    fault: str
    initial_state: int
    statements: dict[str, dict[str, str]]
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
        if self.proved:
            return f"{self._proved(sets, at_least(float(self.found.bounds.margin.min())))}{self._of_starts()}"
        if self.iteration is not None:
            mapped = f"{sets} sets are mapped into each other by fixed points"
            return f"nothing is proved: {mapped}, but {self.iteration.fault}"
        closed = int(self.found.closed.sum())
        return f"nothing is proved: {closed} of {steps} steps between {sets} sets lead into their targets"

    def _proved(self, sets: int, margin: str) -> str:
        assert self.iteration is not None
        return (
            f"proved right on all words of every length, {self.iteration.scope}: {sets} sets of states "
            f"are mapped into each other, with a margin of at least {margin}"
        )

    def _of_starts(self) -> str:
        """What is proved of the simultaneous mode."""
        if self.images is None:
            return ""
        radius, lipschitz = (
            at_most(float(found.max())) for found in (self.images.radius, self.images.lipschitz)
        )
        return (
            f"; all latents are attracted at all {self.images.radius.size} steps (images within {radius}, "
            f"contracting there by {lipschitz}), so that {OF_EVERY_START}"
        )

    @property
    def limits(self) -> str:
        """What is assumed and what is not covered."""
        if self.iteration is None or not self.proved:
            return ""
        return self.iteration.caveat

    def rows(self) -> list[Rows]:
        """Return the figures of the cover."""
        if self.found is None:
            return []
        found = self.numbers()
        columns = ("sets", "steps", "closed", "margin", "largest_gain", "largest_radius", "median_radius")
        row = [str(found[n]) if isinstance(found[n], int) else number(found[n]) for n in columns]
        return [Rows([name.replace("_", " ") for name in columns], [row], self.run.title)]

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

    @property
    def search(self) -> LengthsSettings:  # type: ignore[override]
        """The settings."""
        return self.settings

    @property
    def claims(self) -> list[Claim]:
        """What is proved of every length, and of every start where that is."""
        if self.found is None or self.iteration is None or not self.proved:
            return []
        cover = self.found.cover
        membership = self.iteration.attraction.membership.reshape(cover.targets.shape)
        lengths = Lengths(
            statements=self.statements["lengths"],
            **self.sets(),
            latents=cover.latents,
            latent_radii=self.found.bounds.latent_radius,
            bundle_of=[[*map(int, row)] for row in membership],
            **self.iteration.fields(),
        )
        if self.images is None:
            return [lengths]
        return [lengths, Starts(statements=self.statements["starts"], image_radii=self.images.radius)]


def analyse(
    run: Run, settings: LengthsSettings | None = None, *, starts: bool = False, **chosen: Any
) -> FoundLengths:
    """Prove that a model answers words of every length as its task does."""
    settings = for_run(settings_from(LengthsSettings, chosen, settings), run)
    began = time.monotonic()
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    loop = enclosed_loop(model)
    asked = asked_of(model, settings.tolerance, settings.dtype)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)

    def step(states: Array, tokens: IntArray) -> tuple[Array, Array]:
        return solve_steps(model, states, tokens, stopping)

    try:
        found, fault = find_cover(step, loop, task, settings, errors_of(asked))
    except FloatingPointError as overflow:
        found, fault = None, str(overflow)
    iteration, images = None, None
    if found is not None and found.closed.all():
        members = Members.of_cover(found.cover, found.bounds.latent_radius)
        iteration = prove_iteration(loop, members, asked, model.stopping)
        if iteration.attraction.holds and starts and isinstance(loop, EnclosedClosedLoop):
            images = prove_images(loop, found.cover)
    seconds = time.monotonic() - began
    statements = {"lengths": stated(Lengths, run), "starts": stated(Starts, run)}
    proved = found, iteration, images, fault, task.initial_state, statements
    return FoundLengths(RunIdentity.of(run), settings, *proved, seconds)


def draw(analysis: FoundLengths, width: float = TEXT_WIDTH) -> Figure:
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
        radius.set(
            title="radius of the sets, in their metrics",
            xlabel="log10 of the radius",
            ylabel="number of sets",
        )
        return figure


def prove_starts(run: Run, settings: LengthsSettings) -> FoundLengths:
    """Prove every start too; where only words of every length are proved, that is what is claimed."""
    return analyse(run, settings, starts=True)


LENGTHS = Proof(
    claim="lengths",
    question="Is a small model right on words of every length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small model is right on words of every length. "
    "The stored run s3-small has defaults of its own.",
    settings=LengthsSettings,
    needs=FIXED_POINTS,
    prove=analyse,
    draw=draw,
    shows="A cover of all states that words of any length reach: by how much each step shrinks or "
    "stretches a set, in the metric of the sets (below 1: contraction), and decimal "
    "logarithms of the radii of all sets in their metrics.",
)
STARTS = replace(
    LENGTHS,
    claim="starts",
    question="Does the simultaneous mode tend to the right answers too? A proof, with a certificate.",
    description="Prove that a small implicit model is right on words of every length and, where all latents "
    "are attracted, that the simultaneous mode tends to the same answers from every start.",
    prove=prove_starts,
)
PROOFS = (LENGTHS, STARTS)
