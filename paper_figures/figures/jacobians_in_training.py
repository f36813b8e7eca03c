"""State-to-state Jacobians of parity models from their initial weights to the end, with and without window.

The training of a run is repeated, and looked at on the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveInt

from analysis.framework.figures import log_axis, new_figure
from analysis.framework.palette import GREY, Look
from analysis.jacobian.measurement import analyse
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.retraining import runs_on_the_way
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.length_generalization import measure as measure_lengths
from paper_figures.figures.published_setting import (
    PUBLISHED_COURSE,
    PUBLISHED_LENGTH,
    PUBLISHED_MAMBA2,
    PUBLISHED_TRAINING,
)
from paper_figures.figures.trained import (
    Training,
    is_small,
    published_sentences,
    trained_as,
    training_of,
)

WINDOWS = {"4": "with window", "1": "without window"}
"""Names of the two models by the width of their convolution, which keeps all tokens but one."""
SEEDS = range(3)


class TrainingSettings(CheckedConfig):
    """When a training run is looked at, and at how many states.

    Example:
        >>> TrainingSettings().steps[:4]
        (0, 10, 30, 60)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    steps: tuple[NonNegativeInt, ...] = Field(
        default=(0, 10, 30, 60, 100, 150, 200, 300, 500, 700),
        description="training steps after which the model is looked at, beside the last one",
    )
    states: PositiveInt = Field(default=8, description="visited states at which Theorem 1 is checked")
    sequences: PositiveInt = Field(default=8, description="sequences that visit them")
    length: PositiveInt = Field(default=32, description="tokens of a sequence")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


SETTINGS = TrainingSettings()


def measure(run: Run, settings: TrainingSettings) -> list[dict[str, Any]]:
    """Train a run again and measure it after some steps: an entry for each, in order.

    Raises:
        InputError: if the training does not end in the weights of the run.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from implicit import recipe
        >>> from implicit.train import train
        >>> sizes = {"d_model": 4, "head_size": 4, "d_state": 2}
        >>> config = recipe("parity", "implicit-mamba2", steps=2, warmup_steps=1, batch_size=4, **sizes)
        >>> with TemporaryDirectory() as folder:
        ...     run = train(config, Path(folder) / "run", progress=False)
        >>> found = measure(run, TrainingSettings(steps=(0,), states=2, sequences=1, length=4))
        >>> [entry["step"] for entry in found], sorted(found[0]["counts"])
        ([0, 2], ['fails', 'holds', 'inconclusive'])
    """
    course = runs_on_the_way(run, settings.steps).items()
    return [{"step": step, **_look(seen, settings)} for step, seen in course]


def _look(run: Run, settings: TrainingSettings) -> dict[str, Any]:
    """What is measured of a model: Theorem 1 at visited states, the blocks of ds'/ds, and accuracy."""
    found = analyse(
        run,
        states=settings.states,
        sequences=settings.sequences,
        length=settings.length,
        seed=settings.seed,
    )
    report = found.theorem1()
    how = LengthSettings(lengths=(settings.length,), sequences=64, mode="sequential", seed=settings.seed)
    lengths = measure_lengths(run, how)
    measured = ("off_diagonal_mass", "nonlinearity", "spectral_radius")
    return {
        "counts": report["counts"],
        **{name: report[name]["median"] if name in report else None for name in measured},
        "blocks": None if found.blocks is None else found.blocks.groups,
        "accuracy": lengths["accuracy"][settings.length],
        "share_converged": lengths["share_converged"][settings.length],
    }


COURSE = Measurement("training_course", measure, SETTINGS, trains_again=True)
EXPERIMENT = Experiment(
    "jacobians_in_training",
    (Grid({"d_conv": [4, 1], "seed": SEEDS}, {"task": "parity", "model": "implicit-mamba2"}),),
    (COURSE,),
)
FULL_SIZES: dict[str, Any] = {**PUBLISHED_MAMBA2, "expand": 2, "d_state": 4, "layers": 1}
FULL_SETTINGS = SETTINGS.model_copy(update={"steps": PUBLISHED_COURSE})
FULL = Experiment(
    EXPERIMENT.name,
    (
        Grid(
            {"d_conv": [4, 1], "seed": SEEDS},
            {
                **PUBLISHED_TRAINING,
                **FULL_SIZES,
                "task": "parity",
                "model": "implicit-mamba2",
                "length": PUBLISHED_LENGTH,
            },
        ),
    ),
    (replace(COURSE, settings=FULL_SETTINGS),),
)
"""Width and training of the paper, and a smaller state: ds'/ds is formed, and that of the paper's cell, whose
h has 131,072 entries, would take 137 GB. With 2,048 and the window it stays below the 4,096 up to which the
windows are part of the matrix."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by width of the convolution and seed.

    Example:
        >>> collect([])["models"]
        {}
    """
    training = trained_as(outcomes, EXPERIMENT)
    settings = SETTINGS if is_small(training, EXPERIMENT) else FULL_SETTINGS
    return {
        "settings": settings.model_dump(mode="json"),
        "training": training,
        "models": {
            str(group["settings"]["d_conv"]): {"seeds": group["seeds"], "failed": group["failed"]}
            for group in grouped(outcomes, "training_course")
        },
    }


ROW_LABELS = ("share", "median of the states", "share of ‖ds'/ds‖")
"""Of the rows: accuracy and verdicts, quantities of ∂h'/∂h, masses of the blocks of ds'/ds."""
QUANTITIES = {
    "off_diagonal_mass": ("off-diagonal mass", Look("#0077BB", "o")),
    "nonlinearity": ("non-linearity", Look("#EE7733", "^", "--")),
    "spectral_radius": ("spectral radius of the iteration", Look("#009988", "s", ":")),
}
BLOCKS = {
    "h to h": (("diagonal", "within heads, off the diagonal", "across heads"), Look("#000000", "o")),
    "h to window": (("state to window",), Look("#D55E00", "^", "--")),
    "window to h": (("window to state",), Look("#56B4E9", "s", ":")),
    "window to window": (("window to window",), Look("#CC79A7", "D", "-.")),
}
"""Masses of ds'/ds, from what to what; those of the state itself are summed up."""


def draw(found: Results, width: float) -> Figure:
    """Draw a column per model: accuracy and verdicts, quantities of ∂h'/∂h, masses of the blocks of ds'/ds.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("jacobians_in_training").results, 6.75).axes)
        6
    """
    models = found["models"]
    figure = new_figure(width, 6.6 if width < 5 else 5.6)
    panels = figure.subplots(len(ROW_LABELS), max(1, len(models)), sharex="col", sharey="row", squeeze=False)
    for column, (convolution, group) in zip(panels.T, models.items(), strict=False):
        column[0].set_title(WINDOWS[convolution])
        for course in group["seeds"].values():
            _draw_shares(column[0], course, found["settings"]["states"])
            for name, (_, look) in QUANTITIES.items():
                _line(column[1], course, [entry[name] for entry in course], look)
            for parts, look in BLOCKS.values():
                _line(column[2], course, [_mass(entry["blocks"], parts) for entry in course], look)
        column[2].set_xlabel("training step")
        for axes in column[1:]:
            log_axis(axes)
    for axes, name in zip(panels[:, 0], ROW_LABELS, strict=True):
        axes.set_ylabel(name)
    panels[0, 0].set(ylim=(-0.04, 1.06))
    looks = {
        "accuracy": ACCURACY_LOOK,
        "states where Theorem 1 holds": HOLDS_LOOK,
        **dict(QUANTITIES.values()),
        **{name: look for name, (_, look) in BLOCKS.items()},
    }
    handles = [_name(panels[0, 0], name, look) for name, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if width < 5 else 3)
    return figure


ACCURACY_LOOK = Look("#EE3377", "s")
HOLDS_LOOK = Look("#882255", "o", "--")


def _draw_shares(axes: Axes, course: Sequence[Mapping[str, Any]], states: int) -> None:
    _line(axes, course, [entry["accuracy"] for entry in course], ACCURACY_LOOK)
    _line(axes, course, [entry["counts"]["holds"] / states for entry in course], HOLDS_LOOK)
    axes.axhline(0.5, color=GREY, linewidth=0.9, linestyle=":")


def _line(
    axes: Axes, course: Sequence[Mapping[str, Any]], values: Sequence[float | None], look: Look
) -> None:
    """Draw what was measured; where nothing was, the line is broken."""
    shown = [np.nan if value is None else value for value in values]
    steps = [entry["step"] for entry in course]
    axes.plot(
        steps, shown, color=look.color, marker=look.marker, linestyle=look.dashes, linewidth=1, markersize=3
    )


def _name(axes: Axes, name: str, look: Look) -> Line2D:
    """The handle of a look in the legend."""
    (line,) = axes.plot(
        [], [], color=look.color, marker=look.marker, linestyle=look.dashes, markersize=3, label=name
    )
    return line


def _mass(groups: Mapping[str, float] | None, parts: Sequence[str]) -> float | None:
    """The root of the sum of squares of some masses; None where it is 0, or nothing was measured."""
    return (sum(groups[part] ** 2 for part in parts) ** 0.5 or None) if groups is not None else None


def caption(found: Results) -> str:
    """Tell what is drawn, and what each model ends with.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("jacobians_in_training").results))
        Implicit Mamba-2 learning parity, from its initial weights to the end of training...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    how_long = (
        "Training ends by accuracy, sooner in some runs than in others."
        if is_small(training, EXPERIMENT)
        else _full(training)
    )
    ends = "; ".join(f"{WINDOWS[width]} {_ends(group)}" for width, group in found["models"].items())
    return (
        "Implicit Mamba-2 learning parity, from its initial weights to the end of training, with a "
        "convolution over four tokens, whose window is part of the state s beside h, and without one (width "
        f"1); a line per seed. Top: accuracy at {settings['length']} tokens (last 10 of 64 sequences; "
        f"dotted: chance) and share of {settings['states']} visited states (of {settings['sequences']} "
        f"sequences, data seed {settings['seed']}, float64) at which the conclusions of Theorem 1 hold, "
        "conditions C1 to C3 included. Middle: off-diagonal mass and non-linearity of ∂h'/∂h, as shares of "
        "its norm, and spectral radius of the damped iteration; medians. Bottom: norms of the blocks of "
        "ds'/ds as shares of the whole, from what to what, root mean square over at most five of the "
        f"states. {how_long} At the end: {ends}."
    )


def _full(training: Training) -> str:
    """How the models are trained at the size of the paper, and where theirs is larger."""
    return (
        f"{published_sentences(training)} Every training was repeated for this figure. The state h has "
        f"{_entries(FULL_SIZES):,} entries, that of the paper's cell {_entries(PUBLISHED_MAMBA2):,}, for "
        "which the matrix ds'/ds is too large."
    )


def _entries(sizes: Mapping[str, int]) -> int:
    """How many entries h has: those of every channel."""
    return sizes["expand"] * sizes["d_model"] * sizes["d_state"]


def _ends(group: Mapping[str, Any]) -> str:
    last = [course[-1] for course in group["seeds"].values()]
    steps = ", ".join(f"{entry['step']}" for entry in last)
    holds = ", ".join(f"{entry['counts']['holds']}" for entry in last)
    return f"after {steps or 'no'} steps, states where it holds {holds or 'none'}"


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that trained models are non-linear and non-diagonal, by h alone, without a window, too.

    Reproduced if the conclusions hold at every visited state at the end of every run, not reproduced if at
    none; partly otherwise.

    Example:
        >>> judge({"models": {}, "settings": {"states": 8}}).word
        'not reproduced'
    """
    states = found["settings"]["states"]
    ends, counts, before = [], {}, 0
    for width, group in found["models"].items():
        held = [course[-1]["counts"]["holds"] for course in group["seeds"].values()]
        held += [0] * len(group["failed"])
        counts[WINDOWS[width]] = (sum(held), states * len(held))
        ends += held
        before += sum(course[0]["counts"]["holds"] for course in group["seeds"].values())
    states_in_all = sum(of for _, of in counts.values())
    because = (
        f"states at which the conclusions hold at the end of training: {shares(counts) or 'no runs'}; with "
        f"the initial weights at {before} of {states_in_all}"
    )
    if 2 * before > states_in_all:
        because += ", so that training is not what makes them hold"
    if not any(ends):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if all(held == states for held in ends) else "partly", because)


FIGURE = PaperFigure(
    title="Jacobians through training",
    claim=Claim(
        "the transition of a trained implicit SSM is non-linear and non-diagonal in h",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
