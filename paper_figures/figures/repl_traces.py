"""Python sessions: is the value of the final reveal right, by model and by the number of commands?"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.framework.run_lines import RUN_LINES, draw_runs
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.repl_training import (
    COMMON,
    FINAL_REVEAL,
    FIVE_GRIDS,
    GROWING,
    IMPLICIT,
    LOSS_GRIDS,
    MAIN_GRIDS,
    RANDOM_GRIDS,
    RANDOM_STEPS,
    SETTINGS,
    SPACING_GRIDS,
    TRAINED_COMMANDS,
)

EXPERIMENT = Experiment(
    "repl_traces",
    (*MAIN_GRIDS, *RANDOM_GRIDS, *FIVE_GRIDS, *LOSS_GRIDS, *SPACING_GRIDS),
    (FINAL_REVEAL,),
)

MAIN = "repl-3-values"
PANELS = {
    MAIN: "3 variables, every 4th",
    "repl-3-values-random": "one in 4 at random",
    "repl-3": "every 4th, loss of all tokens",
    "repl-3-values-1": "every command",
    "repl-3-values-8": "every 8th",
    "repl-5-values": "5 variables, every 4th",
}
"""Tasks, and what is said of them above their panels."""
TESTED_COMMANDS = 4 * TRAINED_COMMANDS
SOLVED_ACCURACY = 0.95
"""A run tracks the variables if its final reveal is right so often after so many commands."""
RANGES = {True: "[-1, 1]", False: "[0, 1]"}
_OTHER_DASHES = (0, (4, 1.2))


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect by task, series and seed; a run that failed is right nowhere.

    Example:
        >>> found = collect([])
        >>> found["tasks"], found["trained_commands"]
        ({}, 16)
    """
    tasks: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, FINAL_REVEAL.name):
        settings = group["settings"]
        series = tasks.setdefault(settings["task"], {})
        accuracies = [accuracy_at(run, TESTED_COMMANDS) for run in group["seeds"].values()]
        series[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "learning_rate": settings.get("learning_rate", COMMON["learning_rate"]),
            "seeds": group["seeds"],
            "failed": group["failed"],
            "solved": sum(accuracy >= SOLVED_ACCURACY for accuracy in accuracies),
            "of": len(accuracies) + len(group["failed"]),
        }
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "trained_commands": TRAINED_COMMANDS,
        "tasks": {task: tasks[task] for task in PANELS if task in tasks},
    }


def series_name(settings: Mapping[str, Any]) -> str:
    """Return what the runs of a line are called: the model, its eigenvalues, and an unusual learning rate.

    Example:
        >>> series_name({"model": "deltanet", "negative_eigenvalues": True, "learning_rate": 0.003})
        'DeltaNet [-1, 1]'
        >>> series_name({"model": "transformer", "learning_rate": 0.001})
        'Transformer, rate 0.001'
    """
    name = model_label(settings["model"]).removeprefix("explicit ")
    reflecting = settings.get("negative_eigenvalues")
    if reflecting is not None:
        name += f" {RANGES[reflecting]}"
    rate = settings.get("learning_rate", COMMON["learning_rate"])
    usual = rate == COMMON["learning_rate"] or settings["model"].startswith("implicit-")
    return name if usual else f"{name}, rate {rate:g}"


def look_of(series: Mapping[str, Any]) -> Look:
    """Return the look of a line: that of its model, dashed where eigenvalues are not negative.

    Example:
        >>> look_of({"model": "deltanet", "reflecting": True}).dashes
        '-'
    """
    look = MODEL_LOOKS[series["model"]]
    return Look(look.color, "x", _OTHER_DASHES) if series["reflecting"] is False else look


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per task with every run as a thin line, and one legend for all of them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("repl_traces").results, 3.3).axes)
        7
    """
    narrow = width < 5
    rows, columns = (4, 2) if narrow else (2, 4)
    figure = new_figure(width, 6.6 if narrow else 4.0)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True).ravel()
    # the legend has the place of a panel at the end of the first row; of the last row where there are four
    spare = [panels[-1], panels[-2]] if narrow else [panels[3], panels[7]]
    shown = [axes for axes in panels if axes not in spare]
    handles: dict[str, Any] = {}
    for number, (axes, (task, title)) in enumerate(zip(shown, PANELS.items(), strict=True)):
        _panel(axes, found, task)
        axes.set_title(f"({'abcdef'[number]}) {title}", fontsize=7)
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.split(", mean of")[0].split(", 1 run")[0], handle)
    for axes in spare[1:]:
        axes.remove()
    spare[0].axis("off")
    spare[0].legend(handles.values(), handles.keys(), loc="center", fontsize=7, title="model")
    figure.supxlabel("commands before the final reveal", fontsize=7.5)
    figure.supylabel("accuracy of the final reveal", fontsize=7.5)
    return figure


def _panel(axes: Axes, found: Results, task: str) -> None:
    commands = found["settings"]["commands"]
    for name, series in found["tasks"].get(task, {}).items():
        runs = list(series["seeds"].values())
        if not runs or ", rate" in name:
            continue
        known = [number for number in commands if str(number) in runs[0]["accuracy"]]
        values = [[accuracy_at(run, number) for number in known] for run in runs]
        draw_runs(axes, known, values, look_of(series), name, breadth=1.2)
    axes.axhline(1 / (5 if task == "repl-5-values" else 3), color=GREY, linewidth=0.9, linestyle=":")
    axes.axvline(found["trained_commands"], color=GREY, linewidth=0.9, linestyle="--")
    powers_of_two(axes, commands)
    axes.set(ylim=(0, 1.05))


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and which track the variables.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("repl_traces").results))
        Python sessions that swap variables: share of the sessions whose final reveal ...
    """
    settings = found["settings"]
    counts = "; ".join(
        f"{PANELS[task]}: "
        + ", ".join(f"{name} {series['solved']} of {series['of']}" for name, series in by_series.items())
        for task, by_series in found["tasks"].items()
    )
    return (
        "Python sessions that swap variables: share of the sessions whose final reveal (the value that "
        "print('a', a) shows) is predicted right, by the number of commands before it; mean over "
        f"{settings['sequences']} fresh sessions, data seed {settings['seed']}, the same for all models; "
        f"implicit models in {settings['mode']} mode. {RUN_LINES} {interval_sentence(settings['sequences'])} "
        f"Dotted: chance; dashed: the {found['trained_commands']} commands of the longest training "
        "sequences. Tested with a reveal after every 4th command (in d every, in e every 8th), in (b) too, "
        "where in training one follows each command with probability 1/4. Width 64 (LSTM: 128), two layers "
        "(LSTM and implicit Mamba-2: one), not matched in parameters; the loss is that of the revealed "
        f"values alone, in (c) that of every next token. Batches of {GROWING['batch_size']}; sequences begin "
        "with as many commands as have a reveal, at least 4 (in b with 40 tokens, growing by 16), and grow "
        f"by as many whenever the accuracy in their last third passes {GROWING['growth_accuracy']}, so that "
        "lengths and the number of updates differ by model: training ends "
        f"{GROWING['final_steps']} updates after that accuracy at full length, at the latest after "
        f"{GROWING['steps']} (b: {RANDOM_STEPS:,}); in (c) they grow every 200 updates for all. A peak rate "
        f"of {COMMON['learning_rate']:g} (implicit Mamba-2: {IMPLICIT['learning_rate']:g}), tried on "
        "DeltaNet [-1, 1] and implicit Mamba-2 before; DeltaNet [0, 1] and the Transformer were trained at "
        "0.001, too, which is not drawn. At least "
        f"{SOLVED_ACCURACY} after {TESTED_COMMANDS} commands: {counts}."
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that DeltaNet learns sparse reveals with eigenvalues in [-1, 1], and only with them.

    Reproduced if every run of DeltaNet [-1, 1] tracks three variables with a reveal after every fourth
    command, in `SOLVED_ACCURACY` of the sessions with `TESTED_COMMANDS` commands, and no run of DeltaNet
    [0, 1] nor of the Transformer, at any rate tried, does; not reproduced if no run of DeltaNet [-1, 1]
    does; partly otherwise.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    series = found["tasks"].get(MAIN, {})
    lifted = series.get("DeltaNet [-1, 1]", {"solved": 0, "of": 0})
    others = {name: one for name, one in series.items() if name.startswith(("DeltaNet [0, 1]", "Transf"))}
    because = f"at least {SOLVED_ACCURACY} after {TESTED_COMMANDS} commands: " + ", ".join(
        f"{name} {one['solved']} of {one['of']}" for name, one in series.items()
    )
    best = [accuracy_at(run, TESTED_COMMANDS) for one in others.values() for run in one["seeds"].values()]
    if best:
        because += f"; the best run of DeltaNet [0, 1] and of the Transformer has {max(best):.3f}"
    if not lifted["solved"]:
        return Verdict("not reproduced", because)
    complete = lifted["solved"] == lifted["of"] and others and not any(o["solved"] for o in others.values())
    return Verdict("reproduced" if complete else "partly", because)


FIGURE = PaperFigure(
    title="Python sessions, by model",
    claim=Claim(
        "DeltaNet with eigenvalues in [-1, 1] learns permutations from sessions with sparse reveals; with "
        "[0, 1] it does not, nor does a Transformer",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
