"""Does the fixed point lift every cell? Each cell with and without it, on parity."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.length_generalization import LengthSettings
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.published_setting import (
    PUBLISHED_ATTENTION,
    PUBLISHED_DELTA,
    PUBLISHED_MAMBA2,
    PUBLISHED_TRAINING,
)
from paper_figures.figures.shortcuts import shortcuts, shortcuts_sentence
from paper_figures.figures.trained import (
    Training,
    is_small,
    published_sentences,
    trained_as,
    training_of,
)
from paper_figures.figures.variants import measure

TASK = "parity"
SETTINGS = LengthSettings(lengths=(16, 256), sequences=64, mode="sequential", seed=0)
TRAINED, TESTED = 16, 256
SOLVED_ACCURACY = 0.99
ATTENTION = "transformer"
CELLS = ("mamba2", "mamba3", "deltanet", "gated-deltanet", "gated-deltaproduct", ATTENTION)
"""Explicit models; the implicit one of the same cell is called ``implicit-`` and the same."""

TRAINING: dict[str, Any] = {
    "task": TASK,
    "d_model": 32,
    "mlp_size": 0,
    "length": TRAINED,
    "batch_size": 32,
    "steps": 500,
    "growth_accuracy": None,
    "free_mode": "simultaneous",
    "free_max_iterations": 24,
    "free_rtol": 0.02,
    "free_gradient": "phantom",
}
"""The recipe of parity at half the length and half the batch, and with phantom gradients, as the exact one
takes many times as long in cells without a kernel for the CPU; as many updates for all but attention."""
ATTENTION_STEPS = 2000
"""In 500 updates implicit attention was right in 0.75 and 0.66 at 16 tokens, in two trials."""
SEEDS = range(3)


def _twins(cell: str) -> tuple[str, str]:
    return cell, f"implicit-{cell}"


EXPERIMENT = Experiment(
    "implicit_twins",
    (
        Grid({"model": [name for cell in CELLS[:-1] for name in _twins(cell)], "seed": SEEDS}, TRAINING),
        Grid({"model": _twins(ATTENTION), "seed": SEEDS}, {**TRAINING, "steps": ATTENTION_STEPS}),
    ),
    (Measurement("accuracy", measure, SETTINGS),),
)
FULL_CELLS: dict[str, dict[str, Any]] = {
    **{cell: PUBLISHED_MAMBA2 if cell.startswith("mamba") else PUBLISHED_DELTA for cell in CELLS[:-1]},
    ATTENTION: PUBLISHED_ATTENTION,
}
FULL = Experiment(
    EXPERIMENT.name,
    tuple(
        Grid(
            {"model": _twins(cell), "seed": SEEDS},
            {**PUBLISHED_TRAINING, **sizes, "task": TASK, "layers": 1, "mlp_size": 0, "length": TRAINED},
        )
        for cell, sizes in FULL_CELLS.items()
    ),
    EXPERIMENT.measurements,
)
"""The cells at the width of the paper and in its training; the length is that of the small grid."""


def collect(outcomes: Sequence[Outcome], settings: LengthSettings = SETTINGS) -> Results:
    """Collect accuracies and updates by model and seed; a run that failed does not solve parity.

    Example:
        >>> collect([])["models"]
        {}
    """
    models = {}
    for group in grouped(outcomes, "accuracy"):
        accuracies = [accuracy_at(run, TESTED) for run in group["seeds"].values()]
        models[group["settings"]["model"]] = {
            "seeds": group["seeds"],
            "failed": group["failed"],
            "solved": sum(accuracy >= SOLVED_ACCURACY for accuracy in accuracies),
            "of": len(accuracies) + len(group["failed"]),
        }
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": trained_as(outcomes, EXPERIMENT),
        "shortcuts": shortcuts(TASK, TRAINED),
        "models": models,
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a row per cell, with a filled mark per run of the implicit twin and an open one of the explicit.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("implicit_twins").results, 3.3).axes)
        2
    """
    figure = new_figure(width, 2.5)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, length in zip(panels, (TRAINED, TESTED), strict=True):
        for row, cell in enumerate(CELLS):
            for name, shift in ((f"implicit-{cell}", -0.18), (cell, 0.18)):
                runs = found["models"].get(name, {"seeds": {}})["seeds"].values()
                _marks(axes, row + shift, [accuracy_at(run, length) for run in runs], MODEL_LOOKS[name])
        axes.axvline(found["shortcuts"]["majority"], color=GREY, linewidth=0.9, linestyle=":")
        axes.set(xlim=(-0.05, 1.08), xlabel=f"accuracy,\n{length} tokens", ylim=(len(CELLS) - 0.5, -0.5))
    panels[0].set(
        yticks=range(len(CELLS)),
        yticklabels=[model_label(cell).removeprefix("explicit ") for cell in CELLS],
    )
    return figure


def _marks(axes: Axes, row: float, values: Sequence[float], look: Look) -> None:
    places = [row + 0.08 * (number - (len(values) - 1) / 2) for number in range(len(values))]
    axes.plot(values, places, linestyle="", marker=look.marker, color=look.color, markersize=4, alpha=0.8)


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how many runs solve the task.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("implicit_twins").results))
        Cells with the fixed point (circles) and without (squares; attention: crosses) on parity: ...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    trained = _small(training) if is_small(training, EXPERIMENT) else _full(training)
    return (
        f"Cells with the fixed point (circles) and without (squares; attention: crosses) on {TASK}: accuracy "
        f"at {TRAINED} and {TESTED} tokens (mean over the last {found['reported_tokens']} tokens of "
        f"{settings['sequences']} fresh sequences, data seed {settings['seed']}, {settings['mode']} mode), a "
        f"mark per run; dotted: chance. {interval_sentence(settings['sequences'])} {trained} Explicit models "
        "have no fixed point and ignore what speaks of it. The delta rules have eigenvalues in "
        f"[0, 1]{_rotations(found)}. {shortcuts_sentence(found['shortcuts'])} Runs with at least "
        f"{SOLVED_ACCURACY} at {TRAINED} and at {TESTED} tokens, of all: {_counts(found)}."
    )


def _counts(found: Results) -> str:
    """How many runs of every model are right at either length."""
    parts = []
    for name, group in found["models"].items():
        runs = group["seeds"].values()
        trained = sum(accuracy_at(run, TRAINED) >= SOLVED_ACCURACY for run in runs)
        parts.append(f"{model_label(name)} {trained} and {group['solved']} of {group['of']}")
    return "; ".join(parts)


def _accuracies(group: Mapping[str, Any], length: int) -> list[float]:
    return [accuracy_at(run, length) for run in group["seeds"].values()]


def _small(training: Training) -> str:
    """How the models of the small grid were trained."""
    return (
        f"One layer of width {training['width']} each, without an MLP, {training['steps']} updates "
        f"(attention, with and without the fixed point: {ATTENTION_STEPS:,}) of {training['batch_size']} "
        f"sequences of {training['length']} tokens, otherwise the recipe of "
        "implicit Mamba-2, which was chosen for that model, but with phantom gradients of four steps at "
        f"fixed points of at most {training['free_max_iterations']} sweeps over all tokens, to a relative "
        f"tolerance of {training['free_rtol']:g}, and without an end by accuracy; the loss of a sequence "
        "ends at its first wrong answer."
    )


def _full(training: Training) -> str:
    """How they are trained at the size of the paper."""
    return (
        f"One layer each. {published_sentences(training)} The setting is that of implicit Mamba-2, whichever "
        "the cell."
    )


def _rotations(found: Results) -> str:
    """What explicit Mamba-3 could have learnt, if it did not."""
    group = found["models"].get("mamba3")
    if group is not None and (group["solved"] or not group["seeds"]):
        return ""
    return "; explicit Mamba-3, whose rotations can express parity, did not learn it so"


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that the fixed point lifts every cell tried.

    Reproduced if every run of every implicit twin solves parity and no explicit run does; not reproduced if
    no implicit run does; partly otherwise.

    Example:
        >>> judge({"models": {}}).word
        'not reproduced'
    """
    models = found["models"]
    twins = {name: group for name, group in models.items() if name.startswith("implicit-")}
    lifted = [name for name, group in twins.items() if group["solved"] == group["of"]]
    explicit = sum(group["solved"] for name, group in models.items() if name not in twins)
    because = (
        f"cells whose implicit runs all reach {SOLVED_ACCURACY} at {TESTED} tokens: {len(lifted)} of "
        f"{len(twins)}; explicit runs that do: {explicit}"
    )
    if others := [name for name in twins if name not in lifted]:
        because += f"; the others at {TRAINED} tokens: " + ", ".join(
            f"{model_label(name)} {', '.join(f'{value:.2f}' for value in _accuracies(twins[name], TRAINED))}"
            for name in others
        )
    if not any(group["solved"] for group in twins.values()):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if len(lifted) == len(twins) and not explicit else "partly", because)


FIGURE = PaperFigure(
    title="Cells with and without the fixed point",
    claim=Claim(
        "on parity the fixed point lifts other cells than the diagonal one, too",
        "asked by this toolkit, 2026; claimed by nobody that we know of",
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
