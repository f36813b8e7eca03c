"""Python sessions: is the value of the final reveal right, by model and by the number of commands?"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY, MODEL_LOOKS, Look, model_label
from analysis.framework.run_lines import RUN_LINES, breadths, draw_runs
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.repl_training import (
    CLIPPING,
    COMMON,
    FINAL_REVEAL,
    FIVE_GRIDS,
    GROWING,
    IMPLICIT,
    MAIN_GRIDS,
    SETTINGS,
    TRAINED_COMMANDS,
)

EXPERIMENT = Experiment("repl_traces", (*MAIN_GRIDS, *FIVE_GRIDS), (FINAL_REVEAL,))

MAIN = "repl-3-values"
PANELS = {MAIN: "three variables", "repl-5-values": "five variables"}
"""Tasks, and what is said of them above their panels."""
LETTERS = "ab"
TESTED_COMMANDS = 4 * TRAINED_COMMANDS
SOLVED_ACCURACY = 0.95
"""A run has learnt its task if the final reveal is right so often after so many commands."""
WINDOW = (
    "No long memory is asked for: every swap is odd and their number is known, so that with three variables "
    "the reveal before and the commands since it tell every value (with five they tell 0.40 of them, and the "
    "last five reveals so used 0.96)."
)
"""What a model gets that forgets all but the last commands.

Values are known after the last reveals as if nothing had been swapped, since the commands between are read:
of n places r are looked at, each uniform, and j of them differ. The rest has (n − j)! arrangements, half of
them of the known sign, so that it is known for n − j ≤ 2, and else uniform at every place.
"""
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
        2
    """
    narrow = width < 5
    figure = new_figure(width, 3.6 if narrow else 3.2)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    widths = line_widths(found["tasks"])
    for letter, axes, (task, title) in zip(LETTERS, panels, PANELS.items(), strict=True):
        _panel(axes, found, task, widths)
        axes.set_title(f"({letter}) {title}", fontsize=7)
        axes.set_xlabel("commands")
    panels[0].set_ylabel("accuracy of the final reveal")
    legend_of_all(figure, panels, 2 if narrow else 4)
    return figure


def is_drawn(name: str) -> bool:
    """Return whether a series has a line: those at another learning rate have none.

    Example:
        >>> is_drawn("Transformer"), is_drawn("Transformer, rate 0.001")
        (True, False)
    """
    return ", rate" not in name


def line_widths(tasks: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """Return the breadth of the line of every series, the first the broadest, so that equal ones show.

    Example:
        >>> line_widths({"repl-3": {"LSTM": {}, "Transformer": {}}, "repl-5": {"Transformer": {}}})
        {'LSTM': 2.4, 'Transformer': 0.75}
    """
    names = dict.fromkeys(name for by_series in tasks.values() for name in by_series if is_drawn(name))
    each = breadths(len(names))  # one even for none
    return {name: round(0.75 * breadth, 3) for name, breadth in zip(names, each, strict=False)}


def legend_of_all(figure: Figure, panels: Iterable[Axes], columns: int) -> None:
    """Draw one legend below all panels, with every series once and without the number of its runs.

    Example:
        >>> figure = new_figure(3.3, 2)
        >>> axes = figure.subplots()
        >>> _ = axes.plot([0, 1], label="LSTM, mean of 3 runs")
        >>> legend_of_all(figure, [axes], 1)
        >>> [text.get_text() for text in figure.legends[0].get_texts()]
        ['LSTM']
    """
    handles: dict[str, Any] = {}
    for axes in panels:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.split(", mean of")[0].split(", 1 run")[0], handle)
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, fontsize=7)


def _panel(axes: Axes, found: Results, task: str, widths: Mapping[str, float]) -> None:
    commands = found["settings"]["commands"]
    for name, series in found["tasks"].get(task, {}).items():
        runs = list(series["seeds"].values())
        if not runs or not is_drawn(name):
            continue
        known = [number for number in commands if str(number) in runs[0]["accuracy"]]
        values = [[accuracy_at(run, number) for number in known] for run in runs]
        draw_runs(axes, known, values, look_of(series), name, breadth=widths[name])
    axes.axhline(1 / (5 if task == "repl-5-values" else 3), color=GREY, linewidth=0.9, linestyle=":")
    axes.axvline(found["trained_commands"], color=GREY, linewidth=0.9, linestyle="--")
    powers_of_two(axes, commands)
    axes.set(ylim=(0, 1.05))


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and which are right beyond their training.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("repl_traces").results))
        Python sessions that swap variables: share of the sessions whose final reveal ...
    """
    settings = found["settings"]
    letters = dict(zip(PANELS, LETTERS, strict=True))
    counts = "; ".join(
        f"({letters[task]}) "
        + ", ".join(f"{name}: {series['solved']} of {series['of']}" for name, series in by_series.items())
        for task, by_series in found["tasks"].items()
    )
    return (
        "Python sessions that swap variables: share of the sessions whose final reveal (the value that "
        "print('a', a) shows) is predicted right, by the number of commands before it, the true values of "
        f"the reveals before it being read; mean over the first commands of the same {settings['sequences']} "
        f"freshly drawn sessions, data seed {settings['seed']}, in a panel the same for all models; "
        f"{convergence(found)}. {RUN_LINES} Lines are drawn broader the earlier they stand in the legend. "
        f"{interval_sentence(settings['sequences'])} Dotted: chance; dashed: the "
        f"{found['trained_commands']} commands of the longest training sequences. A reveal follows every 4th "
        f"command, in training and test. {WINDOW} Width 64 (LSTM: 128), two layers (LSTM and implicit "
        "Mamba-2: one), MLPs in the Transformer only, not matched in parameters; the loss is that of the "
        f"revealed values alone. Batches of {GROWING['batch_size']}; training sequences begin with 4 "
        "commands and grow by as many whenever the running mean of the training accuracy in their last third "
        f"passes {GROWING['growth_accuracy']}, so that lengths and the number of updates differ by run: "
        f"training ends {GROWING['final_steps']} updates after that accuracy at full length, at the latest "
        f"after {GROWING['steps']}; who does not learn 4 commands never sees more. Peak rates of "
        f"{COMMON['learning_rate']:g} (implicit Mamba-2: {IMPLICIT['learning_rate']:g}) were tried on "
        "DeltaNet [-1, 1] and implicit Mamba-2 before; in a DeltaNet [0, 1] and the Transformer were trained "
        f"at 0.001, too, which is counted below and not drawn; all {CLIPPING}. Runs that are right "
        f"in at least {SOLVED_ACCURACY} of the sessions after {TESTED_COMMANDS} commands: {counts}."
    )


def convergence(found: Results) -> str:
    """Return how implicit models were solved, and the least share of tokens that reached the tolerance.

    Example:
        >>> convergence({"settings": {"mode": "sequential", "rtol": 0.001}, "tasks": {}})
        'implicit models in sequential mode'
    """
    settings = found["settings"]
    shares = [
        run["share_converged"]
        for by_series in found["tasks"].values()
        for series in by_series.values()
        for run in series["seeds"].values()
        if run.get("share_converged") is not None
    ]
    said = f"implicit models in {settings['mode']} mode"
    if not shares:
        return said
    return (
        f"{said}, of whose tokens a share of at least {math.floor(1e4 * min(shares)) / 1e4:.4f} of each run "
        f"reached the relative tolerance {settings['rtol']:g}"
    )


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that DeltaNet learns sparse reveals with eigenvalues in [-1, 1], and only with them.

    Reproduced if with three variables and a reveal after every fourth command every run of DeltaNet [-1, 1]
    is right in `SOLVED_ACCURACY` of the sessions with `TESTED_COMMANDS` commands, and no run of DeltaNet
    [0, 1] nor of the Transformer is, at any rate tried, of each of which one at least ended well; not
    reproduced if no run of DeltaNet [-1, 1] is; partly otherwise.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    series = found["tasks"].get(MAIN, {})
    lifted = series.get("DeltaNet [-1, 1]", {"solved": 0, "of": 0})
    controls = ("DeltaNet [0, 1]", "Transformer")
    others = {name: one for name, one in series.items() if name.startswith(controls)}
    because = f"at least {SOLVED_ACCURACY} after {TESTED_COMMANDS} commands: " + (
        ", ".join(f"{name}: {one['solved']} of {one['of']}" for name, one in series.items()) or "no runs"
    )
    best = [accuracy_at(run, TESTED_COMMANDS) for one in others.values() for run in one["seeds"].values()]
    if best:
        because += f"; the best run of DeltaNet [0, 1] and of the Transformer has {max(best):.3f}"
    if not lifted["solved"]:
        return Verdict("not reproduced", because)
    compared = all(
        any(one["seeds"] for name, one in others.items() if name.startswith(control)) for control in controls
    )
    only = compared and not any(one["solved"] for one in others.values())
    return Verdict("reproduced" if only and lifted["solved"] == lifted["of"] else "partly", because)


FIGURE = PaperFigure(
    title="Python sessions, by model",
    claim=Claim(
        "by the loss of the revealed values, DeltaNet with eigenvalues in [-1, 1] learns permutations from "
        "sessions with sparse reveals; with [0, 1] it does not, nor does a Transformer",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
