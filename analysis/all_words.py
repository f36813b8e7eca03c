"""Is the model right on every word? ``python -m analysis.all_words RUN --length N``: a proof, not a sample.

All words up to a length are followed in rigorous arithmetic (`theory.invariant_cover`), the weights taken as
the exact numbers that their floats are. Every word leads to a small ball that provably holds the state after
it; every token maps it into the next one, has exactly one fixed point in a box around the latent that the
solver found, and decodes the right answer with a margin that is bounded from below. What is proved is about
the model in real arithmetic with these fixed points: that the solver's iteration from zero tends to them, and
what rounding adds, is not part of it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt
from rich.table import Table

from analysis.command import Analysis, number, settings_from
from analysis.figures import COLORS, RED, new_figure, styled
from analysis.output import RunIdentity
from analysis.visited_states import as_implicit, in_double_precision
from automata.errors import InputError
from automata.mealy import word_in_names
from implicit.closed_loop import EnclosedClosedLoop, flatten_state, unflatten_state
from implicit.command import run_command
from implicit.fixed_point import Stopping
from implicit.model import ImplicitMamba2
from implicit.run_dir import Run
from theory.invariant_cover import Cover, StepBounds, enclose_steps

LARGEST_STATE = 200
"""Matrices of all derivatives by the state are held for hundreds of positions at once."""
FIRST_RADIUS = 1e-13
STEPS_AT_ONCE = 512

Array = NDArray[np.float64]


class AllWordsSettings(BaseModel):
    """Which words are looked at, and how their states are found.

    Example:
        >>> AllWordsSettings(length=4)
        AllWordsSettings(length=4, rtol=1e-13, max_iterations=2000)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    length: PositiveInt = Field(default=12, description="tokens of the longest words; all words are followed")
    rtol: PositiveFloat = Field(
        default=1e-13, description="relative tolerance of the approximate fixed points"
    )
    max_iterations: PositiveInt = Field(default=2000, description="the most self-iterations a token")


@dataclass(frozen=True, eq=False)
class AllWordsAnalysis:
    """What `analyse` returns; one row a length, from 1.

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

    Example:
        >>> from implicit.run_dir import load_run
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

    @property
    def proved_length(self) -> int:
        """The greatest N such that the answers to all words of up to N tokens are proved right."""
        whole = self.proved == self.words
        return len(whole) if whole.all() else int(whole.argmin())

    @property
    def sentence(self) -> str:
        """The finding."""
        length = self.proved_length
        right = (
            f"proved right on all {int(self.words[:length].sum())} words of up to {length} tokens, "
            f"with a margin of at least {self.margin[:length].min(initial=np.inf):.3g}"
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
        }


def analyse(run: Run, settings: AllWordsSettings | None = None, **chosen: Any) -> AllWordsAnalysis:
    """Prove that a model answers every word up to a length as its task does.

    Args:
        run: a loaded run of an implicit model of one layer with a small state.
        settings: how far to go.
        chosen: settings by name, instead.

    Raises:
        InputError: for a bad setting, or a model that is not implicit, has several layers or a large state.

    Example:
        >>> from implicit.run_dir import load_run
        >>> found = analyse(load_run("parity-small"), length=2)
        >>> bool((found.margin > 1).all()), found.counterexample
        (True, None)
    """
    settings = settings or settings_from(AllWordsSettings, chosen)
    model = in_double_precision(as_implicit(run))
    assert isinstance(model, ImplicitMamba2)
    loop = EnclosedClosedLoop(model)
    if loop.state_size > LARGEST_STATE:
        raise InputError(
            f"the state of run {run.path.name} has {loop.state_size} numbers; give a run of at most "
            f"{LARGEST_STATE}, such as parity-small"
        )
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    tokens = np.arange(run.task.vocabulary_size)
    centres = flatten_state(model.init_state(1)).numpy()
    labels, words = np.array([run.task.initial_state]), np.zeros((1, 0), dtype=np.int64)
    radii = np.full(1, FIRST_RADIUS)
    rows: list[tuple[int, int, float, float, float]] = []
    counterexample = None
    for _ in range(settings.length):
        if not len(words):
            break
        sources, read = np.repeat(np.arange(len(words)), len(tokens)), np.tile(tokens, len(words))
        after, latents = _solve(model, centres[sources], read, stopping)
        answers = run.task.table[labels[sources], read]
        bounds = _bounds(loop, centres, radii, after, latents, answers, sources, read)
        proved = bounds.exists & np.isfinite(bounds.image) & (bounds.margin > 0)
        reached = np.where(proved, bounds.image, 0.0)
        margin = bounds.margin.min() if proved.all() else -np.inf
        gain = np.where(proved, bounds.gain, 0.0).max()
        rows.append((len(proved), int(proved.sum()), float(margin), float(reached.max()), float(gain)))
        words = np.concatenate([words[sources], read[:, None]], axis=1)
        if counterexample is None and not proved.all():
            counterexample = tuple(words[proved.argmin()].tolist())
        centres, radii, labels, words = after[proved], bounds.image[proved], answers[proved], words[proved]
    lengths = np.arange(1, len(rows) + 1)
    total = len(tokens) ** lengths
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
        run.task.token_names,
    )


@torch.no_grad()
def _solve(
    model: ImplicitMamba2, states: Array, tokens: NDArray[np.int64], stopping: Stopping
) -> tuple[Array, Array]:
    """The next states and the latents in floating point: centres, of which nothing is assumed."""
    solution = model.solve(
        torch.as_tensor(tokens)[:, None],
        "sequential",
        state=unflatten_state(model, torch.as_tensor(states)),
        stopping=stopping,
    )
    return flatten_state(solution.state).numpy(), solution.latents[:, 0].numpy()


def _bounds(
    loop: EnclosedClosedLoop,
    centres: Array,
    radii: Array,
    after: Array,
    latents: Array,
    answers: NDArray[np.int64],
    sources: NDArray[np.int64],
    read: NDArray[np.int64],
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
        parts.append(enclose_steps(loop, cover, sources[rows] - first, read[rows]))
    return StepBounds(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in ("exists", "latent_radius", "offset", "gain", "image", "margin")
        )
    )


def draw(found: AllWordsAnalysis) -> Figure:
    """Draw how far states lie from their centres, and the least margins, against the length of the words.

    Example:
        >>> from implicit.run_dir import load_run
        >>> found = analyse(load_run("parity-small"), length=2)
        >>> [axes.get_title() for axes in draw(found).axes]
        ['radius of the enclosures', 'least margin of the right answer']
    """
    with styled():
        figure = new_figure(9, 3.6, f"{found.run.title}\n{found.sentence}")
        if found.counterexample is not None:
            for text in figure.texts:
                text.set_color(RED)
        radius, margin = figure.subplots(1, 2)
        x = np.arange(1, len(found.words) + 1)
        radius.plot(x, np.maximum(found.radius, 1e-16), "o-", color=COLORS[0])
        radius.set(title="radius of the enclosures", xlabel="length of the words (tokens)", yscale="log")
        margin.plot(x, np.where(np.isfinite(found.margin), found.margin, np.nan), "o-", color=COLORS[2])
        margin.set(title="least margin of the right answer", xlabel="length of the words (tokens)")
        margin.set_ylim(bottom=0)
        return figure


def tables(found: AllWordsAnalysis) -> list[Table | str]:
    """Return a line for every length, for the terminal.

    Example:
        >>> from implicit.run_dir import load_run
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
    return [table, found.sentence]


ANALYSIS = Analysis(
    "all_words",
    "Prove in rigorous arithmetic that a small implicit model is right on every word up to a length.",
    AllWordsSettings,
    analyse,
    draw,
    tables,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code.

    Example:
        The exit code is 2 for bad input; the sentence that says why goes to standard error.

        >>> main(["no/such/run"])
        2
    """
    return run_command(ANALYSIS.command, argv)


if __name__ == "__main__":
    sys.exit(main())
