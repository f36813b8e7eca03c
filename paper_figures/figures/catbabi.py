"""catbAbI: does the fixed point help one layer to answer questions about stories, task by task?"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure
from analysis.framework.palette import GREY, MODEL_LOOKS, model_label
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.catbabi_comparison import EXPLICIT, IMPLICIT, shares, tasks_ahead, tasks_apart
from paper_figures.figures.catbabi_measured import StorySettings, measure
from paper_figures.figures.catbabi_training import (
    FILE,
    GRIDS,
    MODELS,
    NOT_TRAINED,
    PIECE,
    SETTINGS_OF_STATE,
    SIZES,
    TRAINING,
)
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped, parameters_of

ANSWERS = Measurement("answers", measure, StorySettings(piece=PIECE))
EXPERIMENT = Experiment("catbabi", GRIDS, (ANSWERS,), data=(FILE,))
UPDATES_PUBLISHED, WIDTH_PUBLISHED = 50_000, 512
CONTROL = "LSTM"
FILLS = {1: None, 2: "white", 4: "#FFD9B0"}
"""Of the marks of explicit Mamba-2, by layers."""
MAIN = "catbabi-answers-carried"
"""The setting that is drawn task by task."""


def series_name(settings: Mapping[str, Any]) -> str:
    """Return the name of a model in the legend, with its layers where there are several.

    Example:
        >>> series_name({"model": "mamba2", "layers": 2}), series_name({"model": "lstm", "layers": 1})
        ('explicit Mamba-2, 2 layers', 'LSTM')
    """
    layers = settings.get("layers", 1)
    return model_label(settings["model"]) + (f", {layers} layers" if layers > 1 else "")


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by setting, model and seed.

    Example:
        >>> collect([])["accuracies"]
        {}
    """
    accuracies: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, ANSWERS.name):
        settings = group["settings"]
        accuracies.setdefault(settings["task"], {})[series_name(settings)] = {
            "model": settings["model"],
            "layers": settings.get("layers", 1),
            "parameters": parameters_of(outcomes, settings),
            "seeds": group["seeds"],
            "failed": group["failed"],
        }
    return {"settings": ANSWERS.settings_json, "accuracies": accuracies}


def draw(found: Results, width: float) -> Figure:
    """Draw the share of right answers over all questions, then task by task.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("catbabi").results, 3.3).axes)
        2
    """
    narrow = width < 5
    figure = new_figure(width, 6.6 if narrow else 3.9)
    whole, by_task = figure.subplots(*((2, 1) if narrow else (1, 2)))
    _draw_whole(whole, found["accuracies"])
    _draw_tasks(by_task, found["accuracies"].get(MAIN, {}))
    handles, labels = whole.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2 if narrow else 5, handlelength=1)
    return figure


def _mark(axes: Axes, series: Mapping[str, Any], x: Any, y: Any, label: str = "_") -> None:
    look = MODEL_LOOKS[series["model"]]
    fill = FILLS[series["layers"]] if series["model"] == "mamba2" else None
    axes.plot(
        x,
        y,
        linestyle="",
        marker=look.marker,
        color=look.color,
        markerfacecolor=look.color if fill is None else fill,
        markersize=4,
        label=label,
    )


def _draw_whole(axes: Axes, accuracies: Mapping[str, Mapping[str, Any]]) -> None:
    """A row for each setting, in it a line of marks for each model, a mark for each run."""
    told: set[str] = set()
    for row, setting in enumerate(SETTINGS_OF_STATE):
        models = accuracies.get(setting, {})
        for number, (name, series) in enumerate(models.items()):
            values = shares(series)
            place = row + 0.15 * (number - (len(models) - 1) / 2)
            _mark(axes, series, values, [place] * len(values), "_" if name in told else name)
            told.add(name)
    axes.set(
        yticks=range(len(SETTINGS_OF_STATE)),
        yticklabels=[words.replace(", ", ",\n") for words in SETTINGS_OF_STATE.values()],
        ylim=(len(SETTINGS_OF_STATE) - 0.5, -0.5),
        xlabel="share of right answers, test stories",
        title="(a) all questions",
    )


def _draw_tasks(axes: Axes, models: Mapping[str, Any]) -> None:
    """A row for each task: mean and range over the runs of one explicit, one implicit layer and the LSTM."""
    count = 20
    for number, name in enumerate((EXPLICIT, IMPLICIT, CONTROL)):
        if name not in models:
            continue
        series = models[name]
        for task in range(1, count + 1):
            values, place = shares(series, task), task + 0.24 * (number - 1)
            if values:
                axes.plot(
                    [min(values), max(values)],
                    [place, place],
                    color=MODEL_LOOKS[series["model"]].color,
                    linewidth=0.8,
                )
                _mark(axes, series, np.mean(values), place)
    axes.axhline(NOT_TRAINED, color=GREY, linewidth=6, alpha=0.2)
    axes.set(
        yticks=range(1, count + 1),
        ylim=(count + 0.6, 0.4),
        xlim=(-0.02, 1.02),
        ylabel="task of bAbI",
        xlabel="share of right answers",
        title="(b) by task, answers in the loss, state carried",
    )


def caption(found: Results) -> str:
    """Tell what is drawn and how the models were trained.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("catbabi").results))
        catbAbI, the stories of bAbI one after the other: share of the tokens after "?" that are predicted ...
    """
    settings, training = found["settings"], TRAINING
    asked = {
        run["asked"]
        for models in found["accuracies"].values()
        for series in models.values()
        for run in series["seeds"].values()
    }
    counts = "; ".join(
        f"{SETTINGS_OF_STATE[setting]}: {ahead} of {count} ({behind} behind), by every run {above} ({below})"
        for setting, models in found["accuracies"].items()
        if IMPLICIT in models and EXPLICIT in models
        for (ahead, behind, count), (above, below) in [(tasks_ahead(models), tasks_apart(models))]
    )
    return (
        'catbAbI, the stories of bAbI one after the other: share of the tokens after "?" that are predicted '
        f"right, over all {max(asked, default=0):,} questions of the test stories (a, a mark per run) and by "
        "task (b, mean and range over the runs; task 3, shaded, has no training stories here and counts in a "
        "as in the published tables). In the loss are the answers alone (QM) or all words (LM). State "
        f"carried: training batches of {training['batch_size']} rows go on where the last ended, {PIECE} "
        "tokens at a time, whether or not fixed points were reached, and the test is one row; state reset: "
        f"every {PIECE} tokens are read from the initial state, in training at places drawn at random, in "
        "the test in their order. One run's share is sure to ±0.007 (95%), of a task to ±0.03, as if "
        "questions were independent. "
        f"{training['steps']:,} updates of {training['batch_size']} x {PIECE} tokens, the same for all "
        f"models of a seed, where the published protocol takes {UPDATES_PUBLISHED:,} and tests the "
        "checkpoint that is best on the validation stories; here the last is tested. Mamba-2 of width "
        f"{SIZES['d_model']} with state {SIZES['d_state']} (of published Mamba: {WIDTH_PUBLISHED}), LSTM of "
        f"width {MODELS[-1]['d_model']}; parameters, which are not matched: {_parameters(found)}; peak rate "
        f"{training['learning_rate']:g} for all, chosen for explicit Mamba-2 and the LSTM on validation "
        "stories. The implicit layer is trained with phantom gradients of "
        f"{training['phantom_steps']} steps at up to {training['free_max_iterations']} self-iterations, and "
        f"read token by token to a relative tolerance of {settings['rtol']:g} within "
        f"{settings['max_iterations']}; {_converged(found)}. Tasks on which one implicit layer is ahead of "
        f"one explicit layer, by means over the seeds, and by every run of one and every run of the other: "
        f"{counts or 'no runs'}."
    )


def _parameters(found: Mapping[str, Any]) -> str:
    counts = {
        name: series["parameters"]
        for models in found["accuracies"].values()
        for name, series in models.items()
        if series["parameters"] is not None
    }
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "no runs"


def _converged(found: Mapping[str, Any]) -> str:
    reached = [
        run["share_converged"]
        for models in found["accuracies"].values()
        for series in models.values()
        for run in series["seeds"].values()
        if run["share_converged"] is not None
    ]
    if not reached:
        return "no run was measured"
    return (
        f"at {int(1000 * min(reached)) / 1000:.3f} of the tokens of a run at least the last step is below "
        "it, whatever the tokens before have reached"
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that one implicit layer beats one explicit layer on most tasks.

    Reproduced if in every setting it is ahead on more than half of the 19 tasks that were trained, by means
    over the seeds; not reproduced if in none; partly otherwise.

    Example:
        >>> judge({"accuracies": {}}).word
        'not reproduced'
    """
    counts = {
        setting: (*tasks_ahead(models), tasks_apart(models)[0])
        for setting, models in found["accuracies"].items()
        if IMPLICIT in models and EXPLICIT in models
    }
    most = [2 * ahead > count for ahead, _, count, _ in counts.values()]
    because = "tasks on which one implicit layer is ahead of one explicit (in brackets: by every run): " + (
        "; ".join(
            f"{SETTINGS_OF_STATE[setting]} {ahead} of {count} ({above})"
            for setting, (ahead, _, count, above) in counts.items()
        )
        or "no runs"
    )
    if not any(most):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if all(most) and len(most) == len(SETTINGS_OF_STATE) else "partly", because)


FIGURE = PaperFigure(
    title="catbAbI: questions about stories",
    claim=Claim(
        "on catbAbI a one-layer implicit model beats a one-layer explicit one on most of the tasks",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
