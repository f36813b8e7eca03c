"""Python sessions: is a revealed value right, by model, by loss and by how often values are revealed?"""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY
from analysis.framework.run_lines import RUN_LINES, draw_runs
from paper_figures.experiments.grid import Experiment
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.repl_traces import convergence, legend_of_all, line_widths, look_of, series_name
from paper_figures.figures.repl_training import (
    CLIPPING,
    COMMON,
    GROWING,
    IMPLICIT,
    IMPLICIT_MAMBA2,
    LSTM,
    NOT_REFLECTING_DELTANET,
    REFLECTING,
    REFLECTING_DELTANET,
    REFLECTING_GATED_DELTANET,
    TRAINED_COMMANDS,
    TRANSFORMER,
    seeds_of,
    session_tokens,
)
from paper_figures.figures.spacing_measured import REVEALS, SETTINGS, Test

VALUES, ALL = "repl-3-values-random", "repl-3-random"
FIVE, FIVE_ALL = "repl-5-values-random", "repl-5-random"
"""Tasks of training. Reveals follow commands with probability 1/4: short sequences ask for a single swap."""


def _growing(task: str, full: str, start: int) -> dict[str, Any]:
    """The lengths of training: those that hold one command with its reveal, up to some 16 commands."""
    return {
        "task": task,
        "length": session_tokens(full, TRAINED_COMMANDS) + 1,
        "start_length": start,
        "length_growth": 16,
    }


BY_ACCURACY: dict[str, Any] = {**GROWING, "steps": 2000}
BY_UPDATES: dict[str, Any] = {**BY_ACCURACY, "growth_accuracy": None, "length_growth_every": 100}
"""Where every token is in the loss, commands are random, and no accuracy tells when to grow."""
MODELS: tuple[dict[str, Any], ...] = (
    REFLECTING_DELTANET,
    NOT_REFLECTING_DELTANET,
    TRANSFORMER,
    LSTM,
    IMPLICIT_MAMBA2,
    {"model": "mamba2", "layers": 2},
    REFLECTING_GATED_DELTANET,
    {"model": "gated-deltaproduct", "layers": 2, **REFLECTING},
    {**NOT_REFLECTING_DELTANET, "model": "implicit-deltanet", "layers": 1, **IMPLICIT},
)
"""What is trained in every way."""
GRIDS = (
    *seeds_of(*MODELS, **BY_ACCURACY, **_growing(VALUES, "repl-3-values", 40)),
    *seeds_of(*MODELS, **BY_UPDATES, **_growing(ALL, "repl-3-values", 40)),
    *seeds_of(*MODELS, **BY_ACCURACY, **_growing(FIVE, "repl-5-values", 50)),
    *seeds_of(*MODELS, **BY_UPDATES, **_growing(FIVE_ALL, "repl-5-values", 50)),
)
EXPERIMENT = Experiment("repl_spacing", GRIDS, (REVEALS,))

PANELS: tuple[tuple[str, Test, str], ...] = (
    (VALUES, "1", "after every command"),
    (VALUES, "4", "after every 4th"),
    (VALUES, "8", "after every 8th"),
    (VALUES, "random", "one in 4, at random"),
    (ALL, "4", "after every 4th,\nloss of all tokens"),
    (ALL, "random", "one in 4, at random,\nloss of all tokens"),
    (FIVE, "4", "after every 4th,\nfive variables"),
    (FIVE, "random", "one in 4, at random,\nfive variables"),
    (FIVE_ALL, "4", "after every 4th, five,\nloss of all tokens"),
    (FIVE_ALL, "random", "at random, five,\nloss of all tokens"),
)
"""Of every panel: the task of training, the test, and its title."""
LETTERS = "abcdefghij"
WINDOW = (
    "With three variables no long memory is asked for: every swap is odd, so that the reveal before and the "
    "commands since it tell every value, given whether the number of all commands is even, which the "
    "spacing of b, c and e gives away and that of a, d and f does not (without it they tell two thirds of "
    "the values)."
)
"""What a model gets that forgets all but the last commands.

Of three places one is known; the others hold the other two values in the order that the sign decides.
"""
LOSSES = {VALUES: "revealed values", ALL: "every token"}
"""With three variables: what is in the loss, by task of training."""
SPARSE: tuple[Test, ...] = ("4", "8", "random")
TESTED_COMMANDS = 4 * TRAINED_COMMANDS
SOLVED_ACCURACY = 0.95
"""A run is right in a test if the final reveal is right so often after so many commands."""


def accuracy_of(run: Mapping[str, Any], test: Test, commands: int = TESTED_COMMANDS) -> float:
    """Return how often the final reveal is right, of one run.

    Example:
        >>> accuracy_of({"tests": {"8": {"64": {"accuracy": 0.5}}}}, "8")
        0.5
    """
    return float(run["tests"][test][str(commands)]["accuracy"])


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect by task, series and seed; a run that failed is right nowhere.

    Example:
        >>> found = collect([])
        >>> found["tasks"], found["trained_commands"]
        ({}, 16)
    """
    tasks: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, REVEALS.name):
        settings = group["settings"]
        runs = list(group["seeds"].values())
        tasks.setdefault(settings["task"], {})[series_name(settings)] = {
            "model": settings["model"],
            "reflecting": settings.get("negative_eigenvalues"),
            "seeds": group["seeds"],
            "failed": group["failed"],
            "of": len(runs) + len(group["failed"]),
            "solved": {
                test: sum(accuracy_of(run, test) >= SOLVED_ACCURACY for run in runs)
                for test in SETTINGS.tests
            },
        }
    return {
        "settings": SETTINGS.model_dump(mode="json"),
        "trained_commands": TRAINED_COMMANDS,
        "tasks": tasks,
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per test and task, and one legend for all of them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("repl_spacing").results, 3.3).axes)
        10
    """
    narrow = width < 5
    figure = new_figure(width, 9.4 if narrow else 4.4)
    panels = figure.subplots(*((5, 2) if narrow else (2, 5)), sharex=True, sharey=True)
    widths = line_widths(found["tasks"])
    commands = found["settings"]["commands"]
    for letter, axes, (task, test, title) in zip(LETTERS, panels.ravel(), PANELS, strict=True):
        for name, series in found["tasks"].get(task, {}).items():
            runs = list(series["seeds"].values())
            if not runs:
                continue
            known = [number for number in commands if str(number) in runs[0]["tests"][test]]
            values = [[accuracy_of(run, test, number) for number in known] for run in runs]
            draw_runs(axes, known, values, look_of(series), name, breadth=widths[name])
        axes.axhline(1 / (5 if task in (FIVE, FIVE_ALL) else 3), color=GREY, linewidth=0.9, linestyle=":")
        axes.axvline(found["trained_commands"], color=GREY, linewidth=0.9, linestyle="--")
        powers_of_two(axes, commands)
        axes.set(ylim=(0, 1.05))
        axes.set_title(f"({letter}) {title}", fontsize=7)
    for axes in panels[-1]:
        axes.set_xlabel("commands")
    for axes in panels[:, 0]:
        axes.set_ylabel("accuracy of the final reveal")
    legend_of_all(figure, panels.ravel(), 2 if narrow else 4)
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and which are right beyond their training.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("repl_spacing").results))
        Python sessions that swap variables: share of the sessions whose final reveal ...
    """
    settings = found["settings"]
    return (
        "Python sessions that swap variables: share of the sessions whose final reveal (the last value "
        "that a print shows within so many commands) is predicted right, the true values of the reveals "
        "before it being read. Every model is trained once, on sessions in which a reveal follows each "
        "command with probability 1/4, and tested with a reveal after every command (a), every 4th (b), "
        "every 8th (c), and as in training (d); e and f are b and d of runs whose loss is that of every "
        "token, values weighing as much as any other; g to j are b and d with five variables in place of "
        f"three, i and j by the loss of every token. {settings['sequences']} freshly drawn sessions per "
        f"test, data seed {settings['seed']}, the same for all models; at random, those with no reveal so "
        f"soon are left out; {convergence(found)}. {RUN_LINES} Lines are drawn broader the earlier they "
        "stand in the legend. "
        f"{interval_sentence(settings['sequences'])} Dotted: chance; dashed: the commands of the longest "
        f"training sequences, some {found['trained_commands']}. {WINDOW} {_training()} "
        f"Runs that are right in at least {SOLVED_ACCURACY} of the sessions after "
        f"{TESTED_COMMANDS} commands: {_counts(found)}."
    )


def _training() -> str:
    three, five = _growing(VALUES, "repl-3-values", 40), _growing(FIVE, "repl-5-values", 50)
    return (
        "Width 64 (LSTM: 128), two layers (LSTM and implicit models: one), MLPs in the Transformer only, "
        f"not matched in parameters. Batches of {BY_ACCURACY['batch_size']}; peak rates of "
        f"{COMMON['learning_rate']:g} (implicit models: {IMPLICIT['learning_rate']:g}), chosen on DeltaNet "
        f"[-1, 1] and implicit Mamba-2, {CLIPPING}. Sequences of {three['start_length']} tokens (g to j: "
        f"{five['start_length']}) grow by {three['length_growth']} whenever the running mean of the training "
        f"accuracy in their last third passes {BY_ACCURACY['growth_accuracy']}, to {three['length']} "
        f"({five['length']}), so that lengths and the number of updates differ by run: training ends "
        f"{BY_ACCURACY['final_steps']} updates after that accuracy at full length, at the latest after "
        f"{BY_ACCURACY['steps']:,}. In e, f, i and j, where commands that nobody can foresee are in the "
        f"loss, they grow every {BY_UPDATES['length_growth_every']} updates, for "
        f"{BY_UPDATES['steps']:,} updates."
    )


def _counts(found: Results) -> str:
    parts = []
    for letter, (task, test, _) in zip(LETTERS, PANELS, strict=True):
        series = found["tasks"].get(task, {})
        solved = [f"{name} {one['solved'][test]}" for name, one in series.items() if one["solved"][test]]
        parts.append(f"({letter}) {', '.join(solved) or 'none'}")
    of = {one["of"] for series in found["tasks"].values() for one in series.values()}
    return "; ".join(parts) + (f", of {max(of)} each" if of else "")


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that DeltaNet learns sparse reveals wherever they come, and only with eigenvalues in [-1, 1].

    Right is a run whose final reveal is right in `SOLVED_ACCURACY` of the sessions after `TESTED_COMMANDS`
    commands. Reproduced if with three variables and either loss every run of DeltaNet [-1, 1] is right in the
    three sparse tests, and none of DeltaNet [0, 1] nor of the Transformer in any of them, of each of which
    one at least ended well; not reproduced if no run of DeltaNet [-1, 1] is right in all three; partly
    otherwise.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    tasks = {task: found["tasks"].get(task, {}) for task in LOSSES}
    because = (
        f"runs with at least {SOLVED_ACCURACY} after {TESTED_COMMANDS} commands with reveals after every "
        "4th, every 8th and at random, by the loss of "
    ) + "; ".join(f"{LOSSES[task]}: {_all_right(series)}" for task, series in tasks.items())
    lifted = [series.get("DeltaNet [-1, 1]", {"seeds": {}, "of": 1}) for series in tasks.values()]
    solved = [sum(map(all, _right(one))) for one in lifted]
    if not any(solved):
        return Verdict("not reproduced", because)
    controls = [
        _right(series.get(name, {"seeds": {}}))
        for series in tasks.values()
        for name in ("DeltaNet [0, 1]", "Transformer")
    ]
    only = all(controls) and not any(map(any, [run for runs in controls for run in runs]))
    every = solved == [one["of"] for one in lifted]
    return Verdict("reproduced" if only and every else "partly", because)


def _all_right(series: Mapping[str, Any]) -> str:
    """How many runs of which series are right in all of the sparse tests, in words."""
    counts = {name: (sum(map(all, _right(one))), one["of"]) for name, one in series.items()}
    told = [f"{name} {right} of {of}" for name, (right, of) in counts.items() if right]
    if len(told) < len(counts):
        told.append("the others none" if told else "none")
    return ", ".join(told) or "no runs"


def _right(series: Mapping[str, Any]) -> list[list[bool]]:
    """Of every run that ended well, in which of the sparse tests it is right."""
    return [
        [accuracy_of(run, test) >= SOLVED_ACCURACY for test in SPARSE] for run in series["seeds"].values()
    ]


FIGURE = PaperFigure(
    title="Python sessions, by spacing of reveals and by loss",
    claim=Claim(
        "DeltaNet with eigenvalues in [-1, 1] learns permutations from sessions, by the loss of every token "
        "or of the revealed values, however sparse the reveals; with [0, 1] it does not, nor does a "
        "Transformer",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
