"""A recipe and its variants: measured, collected by what they change, and drawn with a row for each."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.agreement import AgreementSettings
from analysis.agreement import analyse as compare_modes
from analysis.framework.figures import new_figure
from analysis.framework.palette import GREY, MODEL_LOOKS
from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.figure import Results
from paper_figures.figures.length_generalization import accuracy_at

Variants = Mapping[str, Mapping[str, Any]]
"""What differs from a recipe, by what it is called in the figure."""


def measure(run: Run, settings: LengthSettings) -> dict[str, Any]:
    """Measure the accuracy of a run at every length, and read what its training took.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("s3"), LengthSettings(lengths=(4,), sequences=2))
        >>> found["updates"], sorted(found)
        (1500, ['accuracy', 'share_converged', 'updates'])
    """
    (numbers,) = analyse(run, settings).numbers().values()
    return {
        "accuracy": numbers["accuracy"],
        "share_converged": numbers["share_converged"],
        "updates": run.metrics[-1]["step"],
    }


def measure_agreement(run: Run, settings: AgreementSettings) -> dict[str, Any]:
    """Measure at how many tokens both modes, from zero, reach the same fixed point.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> measure_agreement(load_run("s3"), AgreementSettings(sequences=1, length=4, examples=0))
        {'agree': 1.0, 'same_answer': 1.0}
    """
    found = compare_modes(run, settings)
    return {"agree": found.shares["agree"], "same_answer": float(found.same_answer.mean())}


def variant_of(settings: Mapping[str, Any], variants: Variants) -> str:
    """Return which variant of a recipe a point was trained with.

    Args:
        settings: of the point.
        variants: what differs from the recipe, by name.

    Example:
        >>> settings = {"task": "S3", "model": "implicit-mamba2", "random_starts": 0.0, "seed": 1}
        >>> variant_of(settings, {"recipe": {}, "from zero": {"random_starts": 0.0}})
        'from zero'
    """
    different = {name: value for name, value in settings.items() if name not in ("task", "model", "seed")}
    return next(name for name, variant in variants.items() if variant == different)


def collect_variants(
    outcomes: Sequence[Outcome], variants: Variants, length: int, accuracy: float
) -> dict[str, dict[str, Any]]:
    """Collect the measurements ``accuracy`` and ``agreement`` of every run by variant.

    Args:
        outcomes: what came of the points.
        variants: what differs from the recipe, by name.
        length: at which a run has to be right.
        accuracy: from which on it is; a run that failed is not.

    Example:
        >>> collect_variants([], {"recipe": {}}, length=512, accuracy=0.99)
        {'recipe': {'seeds': {}, 'failed': [], 'solved': 0, 'of': 0}}
    """
    found: dict[str, dict[str, Any]] = {name: {"seeds": {}, "failed": []} for name in variants}
    for outcome in outcomes:
        variant = found[variant_of(outcome.point.all_settings, variants)]
        if outcome.complete and outcome.failure is None:
            values = outcome.values["accuracy"] | outcome.values["agreement"]
            variant["seeds"][str(outcome.point.seed)] = values
        else:
            variant["failed"].append(outcome.point.seed)
    for variant in found.values():
        runs = variant["seeds"].values()
        variant["solved"] = sum(accuracy_at(run, length) >= accuracy for run in runs)
        variant["of"] = len(runs) + len(variant["failed"])
    return found


def solved(found: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return how many runs of every variant are right, and of how many.

    Example:
        >>> solved({"variants": {"recipe": {"solved": 3, "of": 5}}})
        {'recipe': (3, 5)}
    """
    return {name: (variant["solved"], variant["of"]) for name, variant in found["variants"].items()}


def draw_variants(
    found: Results, width: float, *, height: float, length: int, chance: float, most_updates: int
) -> Figure:
    """Draw a row per variant and a mark per run: accuracy, agreement of the modes, updates.

    Args:
        found: with ``variants`` as `collect_variants` returns them.
        width: of the figure, in inches.
        height: of the figure, in inches.
        length: at which the accuracy is drawn.
        chance: accuracy of an answer that does not depend on the state, drawn dotted.
        most_updates: the most that training may take, where the axis ends.

    Example:
        >>> from analysis.framework.figures import styled
        >>> run = {"accuracy": {"512": 1.0}, "agree": 0.9, "updates": 800}
        >>> with styled():
        ...     figure = draw_variants(
        ...         {"variants": {"recipe": {"seeds": {"0": run}}}},
        ...         3.3, height=2.0, length=512, chance=0.5, most_updates=1500,
        ...     )
        >>> [axes.lines[0].get_xdata().tolist() for axes in figure.axes]
        [[1.0], [0.9], [800]]
    """
    figure, narrow = new_figure(width, height), width < 5
    accuracy, agreement, updates = figure.subplots(1, 3, sharey=True)
    names = list(found["variants"])
    for row, name in enumerate(names):
        runs = found["variants"][name]["seeds"].values()
        draw_marks(accuracy, row, [accuracy_at(run, length) for run in runs])
        draw_marks(agreement, row, [run["agree"] for run in runs])
        draw_marks(updates, row, [run["updates"] for run in runs])
    accuracy.axvline(chance, color=GREY, linewidth=0.9, linestyle=":")
    accuracy.set(
        xlabel=f"accuracy,\n{length:,}{'' if narrow else ' tokens'}",
        xlim=(-0.08, 1.08),
        xticks=(0, 0.5, 1),
        yticks=range(len(names)),
        yticklabels=names,
        ylim=(len(names) - 0.5, -0.5),
    )
    agree = "modes\nagree" if narrow else "tokens where\nmodes agree"
    agreement.set(xlabel=agree, xlim=(-0.08, 1.08), xticks=(0, 0.5, 1))
    limit = (0, round(17 / 15 * most_updates))
    ticks = (0, most_updates) if narrow else (0, most_updates // 2, most_updates)
    updates.set(xlabel="training,\nupdates", xlim=limit, xticks=ticks)
    return figure


def draw_marks(axes: Axes, row: int, values: Sequence[float]) -> None:
    """Draw a mark for each run of a row, one below the other.

    Example:
        >>> from matplotlib.figure import Figure
        >>> axes = Figure().subplots()
        >>> draw_marks(axes, 2, [0.5, 1.0])
        >>> axes.lines[0].get_xdata().tolist()
        [0.5, 1.0]
    """
    look = MODEL_LOOKS["implicit-mamba2"]
    places = [row + 0.18 * (number - (len(values) - 1) / 2) for number in range(len(values))]
    axes.plot(values, places, linestyle="", marker=look.marker, color=look.color, markersize=4, alpha=0.8)
