"""Is the model right on every word? ``python -m analysis.all_words RUN --length N``: a proof, not a sample.

All words up to a length are followed in rigorous arithmetic (`theory.rigorous.covers.invariant_cover`), the
weights taken as the exact numbers that their floats are. Every word leads to a small ball that provably holds
the state after it; every token maps it into the next one, by the iteration that is run: from the latent zero,
damped, until the relative tolerance is met (`theory.rigorous.covers.orbits`). There it decodes the right
answer with a margin that is bounded from below. What is proved is about the model in real arithmetic and, as
`theory.rigorous.float_format` assumes that it rounds, in float64, with every relative tolerance up to the one
that is asked for, which the run's own may exceed. It is written as a certificate too, which
``python -m analysis.check_certificate CERTIFICATE RUN`` verifies.
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

from analysis.certificates.orbits.document import DType
from analysis.certificates.orbits.producer import ProvedIteration, asked_of, errors_of
from analysis.certificates.parts import at_least
from analysis.certificates.producing import automaton_of, document_head
from analysis.certificates.words.document import (
    WORDS_FORMAT,
    WORDS_STATEMENTS,
    WordLevel,
    WordsCertificate,
)
from analysis.certificates.words.producer import enclosed_loop, prove_attraction, prove_levels
from analysis.framework.analysis import RunAnalysis
from analysis.framework.figures import TEXT_WIDTH, log_axis, new_panels, styled
from analysis.framework.needs import FIXED_POINTS, as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.palette import RED
from analysis.framework.settings import settings_from
from analysis.framework.terminal import number
from analysis.framework.visited_states import in_double_precision
from automata.errors import InputError
from automata.machines.mealy import word_in_names
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.runs.loading import Run

Array = NDArray[np.float64]


class AllWordsSettings(CheckedConfig):
    """Which words are looked at, and how their states are found.

    Example:
        >>> AllWordsSettings(length=4)
        AllWordsSettings(length=4, tolerance=1e-07, dtype='float64', rtol=1e-13, max_iterations=2000)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    length: PositiveInt = Field(default=12, description="tokens of the longest words; all words are followed")
    tolerance: PositiveFloat = Field(
        default=1e-7, lt=1, description="the largest relative tolerance of the iteration that is proved right"
    )
    dtype: DType = Field(
        default="float64", description="whose rounding is to be covered: float64, or real, for none"
    )
    rtol: PositiveFloat = Field(
        default=1e-13, description="relative tolerance of the approximate fixed points"
    )
    max_iterations: PositiveInt = Field(default=2000, description="the most self-iterations per token")


@dataclass(frozen=True, eq=False)
class AllWordsAnalysis:
    """What `analyse` returns; one row per length, from 1.

    Attributes:
        run: which run.
        settings: what was chosen.
        words: how many words of each length there are.
        proved: at how many of them the state is enclosed and the answer right.
        margin: the least proved difference between the logit of the right answer and another; −∞ where
            nothing is proved of some word.
        radius: the largest distance of a state from the centre of its ellipsoid.
        gain: the largest proved norm of a word's last Jacobian ds'/ds.
        counterexample: a shortest word whose answer is not proved right, token numbers; None if all are.
        token_names: of the task.
        iteration: what is proved of the iteration.
        levels: the claims of the certificate, a level per length up to the proved one.
        seconds: how long it took.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), length=3)
        >>> found.words.tolist(), found.proved_length
        ([2, 4, 8], 3)
    """

    run: RunIdentity
    settings: AllWordsSettings
    words: NDArray[np.int64]
    proved: NDArray[np.int64]
    margin: Array
    radius: Array
    gain: Array
    counterexample: tuple[int, ...] | None
    token_names: tuple[str, ...]
    iteration: ProvedIteration
    levels: tuple[WordLevel, ...]
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
            f"{at_least(float(self.margin[:length].min(initial=np.inf)))}; {self.iteration.caveat}"
        )
        if self.counterexample is None:
            return right
        return f"{right}; nothing is proved of {word_in_names(self.counterexample, self.token_names)}"

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

    def certificate(self, run: Run) -> WordsCertificate:
        """Return what is proved as a document that `analysis.check_certificate` verifies by other means.

        Args:
            run: the run that was analysed.

        Raises:
            InputError: if nothing is proved.
        """
        if not self.levels:
            raise InputError(f"of run {run.path.name} nothing is proved; a certificate needs a proved word")
        certificate = WordsCertificate(
            format=WORDS_FORMAT,
            statements=WORDS_STATEMENTS,
            **document_head(run, self.seconds, self.settings),
            automaton=automaton_of(run),
            levels=list(self.levels),
            length=self.proved_length,
            words=int(self.words[: self.proved_length].sum()),
            margin=min(float(level.margins.min()) for level in self.levels),
            **self.iteration.fields(),
        )
        return certificate.sealed()


def analyse(run: Run, settings: AllWordsSettings | None = None, **chosen: Any) -> AllWordsAnalysis:
    """Prove that a model answers every word up to a length as its task does.

    Args:
        run: a loaded run of an implicit model of one layer with a small state.
        settings: how far to go.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, or a model that is not implicit, has several layers or a large state,
            or a task that is no word problem.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), length=2)
        >>> bool((found.margin > 1).all()), found.counterexample
        (True, None)
    """
    settings = settings_from(AllWordsSettings, chosen, settings)
    began = time.monotonic()
    model, task = in_double_precision(as_implicit(run)), word_problem_of(run)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    loop = enclosed_loop(model)  # refuses what has no form on balls
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
    return AllWordsAnalysis(
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
        time.monotonic() - began,
    )


def draw(found: AllWordsAnalysis, width: float = TEXT_WIDTH) -> Figure:
    """Draw how far states lie from their centres, and the least margins, against the length of the words.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = analyse(load_run("parity-small"), length=2)
        >>> [axes.get_title() for axes in draw(found).axes]
        ['radius of the enclosures', 'least margin of the right answer']
    """
    with styled():
        color = "black" if found.counterexample is None else RED
        figure, (radius, margin) = new_panels(width, 2, f"{found.run.title}\n{found.sentence}", color=color)
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


def caption(found: AllWordsAnalysis) -> str:
    """Tell what is drawn, and the finding.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> caption(analyse(load_run("parity-small"), length=2)).split(":")[0]
        'Rigorous enclosures of all states after every word of up to 2 tokens'
    """
    return (
        f"Rigorous enclosures of all states after every word of up to {len(found.words)} tokens: "
        f"{found.sentence}. "
        "The largest radius of any enclosure, and the least proved margin of the right answer over any "
        "other, in "
        "logits, by the length of the words in tokens."
    )


def tables(found: AllWordsAnalysis) -> list[Table | str]:
    """Return a line for every length, for the terminal.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> table = tables(analyse(load_run("parity-small"), length=2))[0]
        >>> list(table.columns[1].cells)
        ['2', '4']
    """
    table = Table(title=found.run.title, title_justify="left")
    for heading in ("length", "words", "proved right", "least margin", "largest radius", "largest gain"):
        table.add_column(heading, justify="right")
    columns = (found.words, found.proved, found.margin, found.radius, found.gain)
    for length, (words, proved, margin, radius, gain) in enumerate(zip(*columns, strict=True), start=1):
        shown = number(margin) if np.isfinite(margin) else "–"
        table.add_row(str(length), str(words), str(proved), shown, number(radius), number(gain))
    lines: list[Table | str] = [table, found.sentence]
    if found.levels:
        lines.append("certificate.json says so exactly; verify it: python -m analysis.check_certificate")
    return lines


def _documents(run: Run, found: AllWordsAnalysis) -> dict[str, Any]:
    return {"certificate.json": found.certificate(run).model_dump(mode="json")} if found.levels else {}


ANALYSIS = RunAnalysis(
    name="all_words",
    question="Is a small model right on every word up to a length? A proof, with a certificate.",
    description="Prove in rigorous arithmetic that a small implicit model is right on every word up to "
    "a length.",
    settings=AllWordsSettings,
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
