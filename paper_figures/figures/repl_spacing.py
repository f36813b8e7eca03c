"""Python sessions: is a revealed value right, by model, by loss and by how often values are revealed?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.palette import GREY
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import wilson_interval
from automata.checks import check_type
from automata.errors import InputError
from automata.monoids.cayley import IntArray
from automata.repl.commands import PROMPT
from automata.tasks.repl_language import ReplLanguage
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import CODE_AND_LINEAR_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.repl_traces import legend_of_all, line_widths, look_of, series_name
from paper_figures.figures.repl_training import (
    COMMON,
    GROWING,
    IMPLICIT,
    LSTM,
    NOT_REFLECTING_DELTANET,
    REFLECTING,
    REFLECTING_DELTANET,
    TRAINED_COMMANDS,
    TRANSFORMER,
    seeds_of,
    session_tokens,
)

Test = Literal["1", "4", "8", "random"]
"""How often values are revealed in the test: after every k-th command, or after one in four at random."""


class SpacingSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> SpacingSettings().tests
        ('1', '4', '8', 'random')
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    tests: tuple[Test, ...] = Field(
        default=("1", "4", "8", "random"), min_length=1, description="how often values are revealed"
    )
    commands: tuple[PositiveInt, ...] = Field(
        default=(4, 8, 16, 32, 64, 128), min_length=1, description="commands before the final reveal"
    )
    sequences: PositiveInt = Field(default=256, description="sessions per test")
    batch_size: PositiveInt = Field(default=64, description="sessions at a time")
    mode: Mode = Field(default="sequential", description="of implicit models: how fixed points are sought")
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance of the fixed points")
    max_iterations: PositiveInt = Field(default=200, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sessions")


def session_task(task: ReplLanguage, test: Test, commands: int) -> ReplLanguage:
    """Return sessions as those of a task, of so many commands, with reveals as often as the test says.

    Example:
        >>> session_task(ReplLanguage(3), "8", 16)
        <ReplLanguage repl: 3 variables, 15 tokens>
        >>> session_task(ReplLanguage(3), "8", 16).form.reveal_every
        8
    """
    when = (
        {"spacing": "random", "reveal_every": 4}
        if test == "random"
        else {"spacing": "fixed", "reveal_every": int(test)}
    )
    fields = {**task.form.to_fields(), **when, "commands": commands, "predict": "values"}
    return ReplLanguage.from_fields(fields)


def commands_before(task: ReplLanguage, tokens: IntArray, asked: NDArray[np.bool_]) -> IntArray:
    """Return the number of commands before the reveal of every value that is asked, else 0.

    Args:
        task: the sessions, with reveals of one value, of which none comes before any command.
        tokens: ``[sessions, length]``.
        asked: where the value of a reveal is asked, ``[sessions, length]``.

    Returns:
        int64, ``[sessions, length]``.

    Example:
        >>> task = ReplLanguage(3, commands=8, predict="values")
        >>> batch = task.batch(1, task.longest_session, np.random.default_rng(0))
        >>> commands_before(task, batch.tokens, batch.counted)[batch.counted].tolist()
        [4, 8]
    """
    prompts = (tokens == task.tokenizer.numbers[PROMPT]).cumsum(axis=1)
    return np.where(asked, prompts - asked.cumsum(axis=1) - len(task.form.preamble), 0)


def final_reveals(before: IntArray, commands: int) -> NDArray[np.bool_]:
    """Return where the last value is revealed within the first so many commands, ``[batch, length]``.

    Example:
        >>> final_reveals(np.array([[0, 4, 0, 8, 12]]), 8).astype(int)
        array([[0, 0, 0, 1, 0]])
        >>> final_reveals(np.array([[0, 4, 0, 8, 12]]), 2).any()  # nothing is revealed so soon
        np.False_
    """
    within = np.where(before <= commands, before, 0)
    return (within > 0) & (within == within.max(axis=1, keepdims=True))


@torch.no_grad()
def measure(run: Run, settings: SpacingSettings) -> dict[str, Any]:
    """Measure how often the value of the last reveal within n commands is right, by n, in every test.

    The first n commands of a longer session are distributed as a session of n commands up to its last
    reveal, so that one set of sessions tells of all n. Numbers of commands within which nothing is revealed
    are left out; of sessions with reveals at random those that have none so soon are.

    Raises:
        InputError: the task has no sessions with reveals of one value.

    Example:
        >>> from pathlib import Path
        >>> from implicit.config.recipes import recipe
        >>> from implicit.runs.loading import initial_model
        >>> config = recipe("repl-3-values-random", "lstm", d_model=4)
        >>> task = config.build_task()
        >>> run = Run(Path("runs/lstm"), config, initial_model(config, task), task, [])
        >>> found = measure(run, SpacingSettings(tests=("8",), commands=(4, 8), sequences=16))
        >>> list(found["tests"]["8"]), found["tests"]["8"]["8"]["sessions"]
        (['8'], 16)
    """
    check_type("task", run.task, ReplLanguage, "give a run on Python sessions, such as of repl-3-values")
    assert isinstance(run.task, ReplLanguage)
    if run.task.form.reveal == "full":
        raise InputError("reveal is 'full'; give a run on sessions with reveals of one value")
    solve = Solve(
        settings.mode, stopping=Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    )
    converged: list[float] = []
    tests = {test: _in_test(run, run.task, settings, solve, test, converged) for test in settings.tests}
    return {
        "tests": tests,
        "share_converged": float(np.mean(converged)) if converged else None,
        "updates": run.metrics[-1]["step"] if run.metrics else 0,
        "trained_tokens": run.metrics[-1]["length"] if run.metrics else 0,
    }


def _in_test(
    run: Run,
    trained: ReplLanguage,
    settings: SpacingSettings,
    solve: Solve,
    test: Test,
    converged: list[float],
) -> dict[str, dict[str, Any]]:
    task = session_task(trained, test, max(settings.commands))
    answers: dict[int, list[NDArray[np.bool_]]] = {commands: [] for commands in settings.commands}
    for index, first in enumerate(range(0, settings.sequences, settings.batch_size)):
        size = min(settings.batch_size, settings.sequences - first)
        batch = draw_batch(
            task, size, task.longest_session, settings.seed, Stream.TEST, settings.tests.index(test), index
        )
        if batch.lengths is not None:  # rows hold a reveal after every command, which random sessions lack
            longest = int(batch.lengths.max())
            batch = batch._replace(
                tokens=batch.tokens[:, :longest],
                targets=batch.targets[:, :longest],
                weights=batch.weights[:, :longest],
            )
        output = run.model.run(batch.tokens, solve=solve, lengths=batch.lengths)
        if output.solution is not None:
            converged.append(output.solution.share_converged)
        right = (output.logits.argmax(dim=-1) == batch.targets).numpy()
        before = commands_before(task, batch.tokens.numpy(), batch.counted.numpy())
        for commands, found in answers.items():
            found.append(right[final_reveals(before, commands)])
    measured = {}
    for commands, found in answers.items():
        each = np.concatenate(found)
        if each.size:
            share = float(each.mean())
            measured[str(commands)] = {
                "accuracy": share,
                "sessions": int(each.size),
                "interval": wilson_interval(share, each.size),
            }
    return measured


SETTINGS = SpacingSettings()
REVEALS = Measurement("reveals_by_spacing", measure, SETTINGS)

LENGTH = session_tokens("repl-3-values", TRAINED_COMMANDS) + 1
"""Tokens of the longest training sequences: about 16 commands with their reveals."""
IMPLICIT_MAMBA2: dict[str, Any] = {"model": "implicit-mamba2", "layers": 1, **IMPLICIT}
RANDOM: dict[str, Any] = {**GROWING, "steps": 2000, "length": LENGTH, "start_length": 40, "length_growth": 16}
"""A reveal follows a command with probability 1/4, so that the shortest sequences ask for one swap."""
ALL_TOKENS: dict[str, Any] = {**RANDOM, "growth_accuracy": None, "length_growth_every": 100}
"""Commands are random, so that no accuracy tells when to grow: lengths follow the number of the update."""
VALUES, ALL = "repl-3-values-random", "repl-3-random"
GRIDS = (
    *seeds_of(
        REFLECTING_DELTANET,
        NOT_REFLECTING_DELTANET,
        TRANSFORMER,
        LSTM,
        IMPLICIT_MAMBA2,
        {"model": "mamba2", "layers": 2},
        {"model": "gated-deltanet", "layers": 2, **REFLECTING},
        {"model": "gated-deltaproduct", "layers": 2, **REFLECTING},
        **RANDOM,
        task=VALUES,
    ),
    *seeds_of(
        REFLECTING_DELTANET,
        NOT_REFLECTING_DELTANET,
        TRANSFORMER,
        LSTM,
        **ALL_TOKENS,
        task=ALL,
    ),
)
"""Loss of the revealed values, and of every token."""
EXPERIMENT = Experiment("repl_spacing", GRIDS, (REVEALS,))

LOSSES = {VALUES: "values", ALL: "all"}
"""What is in the loss, by the task of training."""
PANELS: tuple[tuple[str, Test, str], ...] = (
    ("values", "1", "after every command"),
    ("values", "4", "after every 4th"),
    ("values", "8", "after every 8th"),
    ("values", "random", "after one in 4, at random"),
    ("all", "4", "after every 4th,\nloss of all tokens"),
    ("all", "random", "after one in 4, at random,\nloss of all tokens"),
)
"""Of every panel: what was in the loss, the test, and its title."""
LETTERS = "abcdef"
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
    """Collect by loss, series and seed; a run that failed is right nowhere.

    Example:
        >>> found = collect([])
        >>> found["losses"], found["trained_commands"]
        ({}, 16)
    """
    losses: dict[str, dict[str, Any]] = {}
    for group in grouped(outcomes, REVEALS.name):
        settings = group["settings"]
        runs = list(group["seeds"].values())
        losses.setdefault(LOSSES[settings["task"]], {})[series_name(settings)] = {
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
        "losses": losses,
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per test and loss, and one legend for all of them.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("repl_spacing").results, 3.3).axes)
        6
    """
    narrow = width < 5
    figure = new_figure(width, 6.2 if narrow else 4.6)
    panels = figure.subplots(*((3, 2) if narrow else (2, 3)), sharex=True, sharey=True)
    widths = line_widths(found["losses"])
    commands = found["settings"]["commands"]
    for letter, axes, (loss, test, title) in zip(LETTERS, panels.ravel(), PANELS, strict=True):
        for name, series in found["losses"].get(loss, {}).items():
            runs = list(series["seeds"].values())
            if not runs:
                continue
            known = [number for number in commands if str(number) in runs[0]["tests"][test]]
            values = [[accuracy_of(run, test, number) for number in known] for run in runs]
            draw_runs(axes, known, values, look_of(series), name, breadth=widths[name])
        axes.axhline(1 / 3, color=GREY, linewidth=0.9, linestyle=":")
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
        Python sessions that swap three variables: share of the sessions whose final reveal ...
    """
    settings = found["settings"]
    return (
        "Python sessions that swap three variables: share of the sessions whose final reveal (the last value "
        "that a print shows within so many commands) is predicted right, the true values of the reveals "
        "before it being read. Every model is trained once, on sessions in which a reveal follows each "
        "command with probability 1/4, and tested with a reveal after every command (a), every 4th (b), "
        "every 8th (c), and as in training (d); e and f are b and d of runs whose loss is that of every "
        f"token, values weighing as much as any other. {settings['sequences']} freshly drawn sessions per "
        f"test, data seed {settings['seed']}, the same for all models; at random, those with no reveal so "
        f"soon are left out. {RUN_LINES} Lines are drawn broader the earlier they stand in the legend. "
        f"{interval_sentence(settings['sequences'])} Dotted: chance; dashed: the commands of the longest "
        f"training sequences, some {found['trained_commands']}. With three variables no long memory is "
        "asked for: every swap is odd, so that the reveal before and the commands since it tell every value. "
        f"{_training()} Implicit models in {settings['mode']} mode"
        f"{_convergence(found)}. Runs that are right in at least {SOLVED_ACCURACY} of the sessions after "
        f"{TESTED_COMMANDS} commands: {_counts(found)}."
    )


def _training() -> str:
    return (
        "Width 64 (LSTM: 128), two layers (LSTM and implicit Mamba-2: one), MLPs in the Transformer only, "
        f"not matched in parameters. Batches of {RANDOM['batch_size']}; peak rates of "
        f"{COMMON['learning_rate']:g} (implicit Mamba-2: {IMPLICIT['learning_rate']:g}), chosen on DeltaNet "
        f"[-1, 1] and implicit Mamba-2. In a to d sequences of {RANDOM['start_length']} tokens grow by "
        f"{RANDOM['length_growth']} whenever the running mean of the training accuracy in their last third "
        f"passes {RANDOM['growth_accuracy']}, to {RANDOM['length']}, so that lengths and the number of "
        f"updates differ by run: training ends {RANDOM['final_steps']} updates after that accuracy at full "
        f"length, at the latest after {RANDOM['steps']:,}. In e and f they grow every "
        f"{ALL_TOKENS['length_growth_every']} updates, for {ALL_TOKENS['steps']:,} updates."
    )


def _convergence(found: Results) -> str:
    """The least share of tokens of implicit models that reached the tolerance, as the end of a sentence."""
    shares = [
        run["share_converged"]
        for by_series in found["losses"].values()
        for series in by_series.values()
        for run in series["seeds"].values()
        if run["share_converged"] is not None
    ]
    if not shares:
        return ""
    return (
        f", of whose tokens a share of at least {math.floor(1e4 * min(shares)) / 1e4:.4f} of each run "
        f"reached the relative tolerance {found['settings']['rtol']:g}"
    )


def _counts(found: Results) -> str:
    parts = []
    for letter, (loss, test, _) in zip(LETTERS, PANELS, strict=True):
        series = found["losses"].get(loss, {})
        solved = [f"{name} {one['solved'][test]}" for name, one in series.items() if one["solved"][test]]
        parts.append(f"({letter}) {', '.join(solved) or 'none'}")
    of = {one["of"] for series in found["losses"].values() for one in series.values()}
    return "; ".join(parts) + (f", of {max(of)} each" if of else "")


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that DeltaNet learns sparse reveals wherever they come, and only with eigenvalues in [-1, 1].

    Reproduced if of the runs with the loss of the revealed values every one of DeltaNet [-1, 1] is right in
    the three sparse tests, and none of DeltaNet [0, 1] nor of the Transformer in any of them, of each of
    which one at least ended well; not reproduced if no run of DeltaNet [-1, 1] is right in all three; partly
    otherwise. Right is a run whose final reveal is right in `SOLVED_ACCURACY` of the sessions after
    `TESTED_COMMANDS` commands.

    Example:
        >>> judge({"losses": {}}).word
        'not reproduced'
    """
    series = found["losses"].get("values", {})
    right = {
        name: [
            [accuracy_of(run, test) >= SOLVED_ACCURACY for test in SPARSE] for run in one["seeds"].values()
        ]
        for name, one in series.items()
    }
    because = (
        f"at least {SOLVED_ACCURACY} after {TESTED_COMMANDS} commands with reveals after every 4th, every "
        "8th and at random: "
    ) + (
        ", ".join(f"{name} {sum(map(all, runs))} of {series[name]['of']}" for name, runs in right.items())
        or "no runs"
    )
    lifted = right.get("DeltaNet [-1, 1]", [])
    if not any(map(all, lifted)):
        return Verdict("not reproduced", because)
    controls = [right.get(name, []) for name in ("DeltaNet [0, 1]", "Transformer")]
    only = all(controls) and not any(map(any, [run for runs in controls for run in runs]))
    every = sum(map(all, lifted)) == series["DeltaNet [-1, 1]"]["of"]
    return Verdict("reproduced" if only and every else "partly", because)


FIGURE = PaperFigure(
    title="Python sessions, by spacing of reveals and by loss",
    claim=Claim(
        "DeltaNet with eigenvalues in [-1, 1] learns permutations from sessions however sparse the reveals; "
        "with [0, 1] it does not, nor does a Transformer",
        CODE_AND_LINEAR_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
