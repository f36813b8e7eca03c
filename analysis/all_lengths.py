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

import sys
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.table import Table

from analysis.certificates.cover.document import (
    COVER_FORMAT,
    COVER_STATEMENTS,
    CoverCertificate,
)
from analysis.certificates.cover.search import AllLengthsSettings, find_cover, for_run
from analysis.certificates.image_balls.document import IMAGES_FORMAT, IMAGES_STATEMENTS, ImagesCertificate
from analysis.certificates.image_balls.producer import ProvedImages, prove_images
from analysis.certificates.orbits.document import upper_triangle
from analysis.certificates.orbits.producer import ProvedIteration, asked_of, errors_of, prove_iteration
from analysis.certificates.parts import at_least
from analysis.certificates.producing import automaton_of, document_head
from analysis.certificates.verdict import OF_EVERY_START
from analysis.certificates.words.producer import enclosed_loop
from analysis.framework.analysis import RunAnalysis
from analysis.framework.figures import TEXT_WIDTH, legend_below, new_panels, styled
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import RED
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from implicit.runs.loading import Run
from theory.rigorous.covers.bundling import Members
from theory.rigorous.covers.radii import ClosedCover

STATED_SHARE = 0.95
"""Of the margin that is proved, how much a certificate states: other arithmetic has other roundings."""


@dataclass(frozen=True, eq=False)
class AllLengthsAnalysis:
    """What `analyse` returns.

    Attributes:
        run: which run.
        settings: what was chosen.
        found: the cover with what is proved of its steps; None if there is no candidate.
        iteration: what is proved of the iteration over it; None if the cover is not closed.
        attraction: what is proved of all latents; None if that is not proved, or the rest is not.
        fault: why there is none; empty otherwise.
        seconds: how long it took.

    Example:
        `analyse` returns one.
    """

    run: RunIdentity
    settings: AllLengthsSettings
    found: ClosedCover | None
    iteration: ProvedIteration | None
    attraction: ProvedImages | None
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
                f"{self._of_starts()}"
            )
        if self.iteration is not None:
            mapped = f"{sets} sets are mapped into each other by fixed points"
            return f"nothing is proved: {mapped}, but {self.iteration.fault}"
        closed = int(self.found.closed.sum())
        return f"nothing is proved: {closed} of {steps} steps between {sets} sets lead into their targets"

    def _of_starts(self) -> str:
        """What is proved of the simultaneous mode, with the caveat."""
        if self.attraction is None:
            return ""
        return f"; {self.attraction.sentence}, so that {OF_EVERY_START}"

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
        if self.attraction is not None:
            content["all_latents"] = self.attraction.numbers()
        return content

    def certificate(self, run: Run) -> CoverCertificate:
        """Return the cover as a document that `analysis.check_certificate` verifies by other means.

        Args:
            run: the run that was analysed.

        Raises:
            InputError: if nothing is proved.
        """
        claims = self._claims(run)
        return CoverCertificate(format=COVER_FORMAT, statements=COVER_STATEMENTS, **claims).sealed()

    def certificate_of_starts(self, run: Run) -> ImagesCertificate:
        """Return the same with the claim that all latents are attracted.

        Args:
            run: the run that was analysed.

        Raises:
            InputError: if that is not proved.
        """
        if self.attraction is None:
            raise InputError(
                f"of run {run.path.name} it is not proved that all latents are attracted; train with an "
                "image_ball_weight"
            )
        claims = self._claims(run) | self.attraction.fields()
        return ImagesCertificate(format=IMAGES_FORMAT, statements=IMAGES_STATEMENTS, **claims).sealed()

    def _claims(self, run: Run) -> dict[str, Any]:
        """The fields of a certificate of the cover."""
        if self.found is None or self.iteration is None or not self.proved:
            raise InputError(f"of run {run.path.name} nothing is proved; a certificate needs a closed cover")
        cover = self.found.cover
        # the answer to a token is the label of its target
        labels = np.zeros(cover.set_count, dtype=np.int64)
        labels[cover.targets.ravel()] = cover.answers.ravel()
        labels[0] = word_problem_of(run).initial_state
        membership = self.iteration.attraction.membership.reshape(cover.targets.shape)
        return {
            **document_head(run, self.seconds, self.settings),
            "automaton": automaton_of(run),
            "labels": labels.tolist(),
            "targets": cover.targets.tolist(),
            "centres": cover.centres,
            "metrics": upper_triangle(cover.metrics),
            "radii": cover.radii,
            "latents": cover.latents,
            "latent_radii": self.found.bounds.latent_radius,
            "bundle_of": [[*map(int, row)] for row in membership],
            **self.iteration.fields(),
            "margin": float(self.found.bounds.margin.min()) * STATED_SHARE,
        }


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
    settings = for_run(settings_from(AllLengthsSettings, chosen, settings), run)
    began = time.monotonic()
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    loop = enclosed_loop(model)
    asked = asked_of(model, settings.tolerance, settings.dtype)
    try:
        found, fault = find_cover(model, loop, task, settings, errors_of(asked))
    except FloatingPointError as overflow:
        found, fault = None, str(overflow)
    iteration, attraction = None, None
    if found is not None and found.closed.all():
        members = Members.of_cover(found.cover, found.bounds.latent_radius)
        iteration = prove_iteration(loop, members, asked, model.stopping)
        if iteration.attraction.holds:
            images = prove_images(loop, found.cover)
            attraction = images if images.holds else None
    seconds = time.monotonic() - began
    return AllLengthsAnalysis(RunIdentity.of(run), settings, found, iteration, attraction, fault, seconds)


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
        radii = np.log10(analysis.found.cover.radii)
        radius.hist(radii[np.isfinite(radii)], bins=50)
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
    if not found.proved:
        return {}
    certificate = found.certificate(run) if found.attraction is None else found.certificate_of_starts(run)
    return {"certificate.json": certificate.model_dump(mode="json")}


ANALYSIS = RunAnalysis(
    name="all_lengths",
    question="Is a small model right on words of every length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small implicit model is right on words of every length. "
    "The stored run s3-small has defaults of its own.",
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
