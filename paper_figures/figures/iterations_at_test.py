"""Accuracy against the self-iterations that are allowed at test, in both modes."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.framework.figures import new_panels, powers_of_two
from analysis.framework.palette import Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import analyse
from implicit.checked_config import CheckedConfig
from implicit.modes import Mode
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.s5_training import FULL_IMPLICIT, TRAINING
from paper_figures.figures.trained import is_small, published_sentences, trained_as, training_of

MODES: tuple[Mode, ...] = ("sequential", "simultaneous")
TASK_LOOKS = {
    "parity": Look("#0077BB", "o"),
    "S3": Look("#EE7733", "s", "--"),
    "S5-generators": Look("#009988", "^", ":"),
    "A5": Look("#EE7733", "s", "--"),
    "S5": Look("#009988", "^", ":"),
}
TASK_LABELS = {"S5-generators": "S5, generators", **{name: name for name in ("parity", "S3", "A5", "S5")}}


class BudgetSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> BudgetSettings().budgets[:4]
        (1, 2, 4, 8)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    budgets: tuple[PositiveInt, ...] = Field(
        default=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512), description="the most self-iterations per token"
    )
    length: PositiveInt = Field(default=128, description="tokens per sequence")
    sequences: PositiveInt = Field(default=64, description="sequences")
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance at which a token stops early")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


SETTINGS = BudgetSettings()


def measure(run: Run, settings: BudgetSettings) -> dict[str, Any]:
    """Measure accuracy and share of converged tokens of a run with every budget, in both modes.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure(load_run("parity"), BudgetSettings(budgets=(1, 32), length=4, sequences=2))
        >>> found["sequential"]["accuracy"]["32"], sorted(found)
        (1.0, ['chance', 'sequential', 'simultaneous'])
    """
    found: dict[str, Any] = {}
    for mode in MODES:
        accuracy, converged = {}, {}
        for budget in settings.budgets:
            (numbers,) = (
                analyse(
                    run,
                    lengths=(settings.length,),
                    sequences=settings.sequences,
                    mode=mode,
                    rtol=settings.rtol,
                    max_iterations=budget,
                    seed=settings.seed,
                )
                .numbers()
                .values()
            )
            accuracy[str(budget)] = numbers["accuracy"][settings.length]
            converged[str(budget)] = numbers["share_converged"][settings.length]
            found["chance"] = numbers["chance"]
        found[mode] = {"accuracy": accuracy, "share_converged": converged}
    return found


SEEDS = range(3)
EXPERIMENT = Experiment(
    "iterations_at_test",
    (
        Grid({"seed": SEEDS}, {"task": "parity", "model": "implicit-mamba2", "carried_share": 0.9}),
        Grid({"seed": SEEDS}, {"task": "S3", "model": "implicit-mamba2"}),
        Grid({"seed": SEEDS}, {"model": "implicit-mamba2", **TRAINING, "layers": 1}),
    ),
    (Measurement("budgets", measure, SETTINGS),),
)
FULL = Experiment(
    EXPERIMENT.name,
    tuple(
        Grid({"seed": SEEDS}, {**FULL_IMPLICIT, "model": "implicit-mamba2", "task": task})
        for task in ("parity", "A5", "S5")
    ),
    EXPERIMENT.measurements,
)
"""Words of 32 tokens over all elements; on S5 it is the training of the figure of length generalization."""


def collect(outcomes: Sequence[Outcome], settings: BudgetSettings = SETTINGS) -> Results:
    """Collect accuracy and convergence by task and seed.

    Example:
        >>> collect([])["tasks"]
        {}
    """
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": trained_as(outcomes, EXPERIMENT),
        "tasks": {
            group["settings"]["task"]: {"seeds": group["seeds"], "failed": group["failed"]}
            for group in grouped(outcomes, "budgets")
        },
    }


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per mode, a line per task, every run thin.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("iterations_at_test").results, 6.75).axes)
        2
    """
    budgets = found["settings"]["budgets"]
    figure, panels = new_panels(width, 2, height=2.4, columns=2)
    for axes, mode in zip(panels, MODES, strict=True):
        for task, group in found["tasks"].items():
            runs = [list(run[mode]["accuracy"].values()) for run in group["seeds"].values()]
            draw_runs(axes, budgets, runs, TASK_LOOKS[task], TASK_LABELS[task], breadth=1.4)
        powers_of_two(axes, budgets)
        axes.set(title=f"{mode} mode", ylim=(-0.04, 1.06))
    for axes in panels if width < 5 else panels[:1]:
        axes.set_ylabel(f"accuracy (last {found['reported_tokens']} tokens)")
    panels[0].set(xlabel="self-iterations per token")
    panels[1].set(xlabel="sweeps over the sequence")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 3
    )
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn, and with how many self-iterations each mode is as right as it gets.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("iterations_at_test").results))
        Accuracy of implicit Mamba-2 against the self-iterations allowed at test: ...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    trained = (
        "Trained at 32 tokens, the first two by their recipes, S5 as in the figure of length generalization "
        "on S5."
        if is_small(training, EXPERIMENT)
        else published_sentences(training)
    )
    return (
        "Accuracy of implicit Mamba-2 against the self-iterations allowed at test: mean over the last "
        f"{found['reported_tokens']} tokens of {settings['sequences']} fresh sequences of "
        f"{settings['length']} tokens (data seed {settings['seed']}). A token stops at a relative residual "
        f"of {settings['rtol']:g} or when its budget is spent; its last iterate is decoded and, in "
        "sequential mode, its state handed on. A sweep of the simultaneous mode iterates all tokens once. "
        f"{RUN_LINES} {interval_sentence(settings['sequences'])} {trained} Least budget with which the "
        f"mean accuracy is within 0.01 of that with the largest: {_least(found)}."
    )


def _least(found: Mapping[str, Any]) -> str:
    words = []
    for task, group in found["tasks"].items():
        of_task = [f"{mode} {_sufficient(group, mode)}" for mode in MODES if group["seeds"]]
        words.append(f"{TASK_LABELS[task]} {', '.join(of_task) or 'no run'}")
    return "; ".join(words)


def _sufficient(group: Mapping[str, Any], mode: str) -> str:
    """The least budget that suffices, or that none below the largest does, and what that reaches."""
    budget = sufficient_budget(group, mode)
    runs = [run[mode]["accuracy"] for run in group["seeds"].values()]
    if all(str(budget) == list(accuracies)[-1] for accuracies in runs):
        reached = sum(accuracies[str(budget)] for accuracies in runs) / len(runs)
        return f"none below {budget}, the largest, with which the mean is {reached:.3f}"
    return str(budget)


def sufficient_budget(group: Mapping[str, Any], mode: str) -> int:
    """Return the least budget with which the mean accuracy is within 0.01 of that with the largest.

    Example:
        >>> runs = {"0": {"sequential": {"accuracy": {"1": 0.2, "8": 0.995, "16": 1.0}}}}
        >>> sufficient_budget({"seeds": runs}, "sequential")
        8
    """
    runs = [run[mode]["accuracy"] for run in group["seeds"].values()]
    means = {int(budget): sum(run[budget] for run in runs) / len(runs) for budget in runs[0]}
    best = means[max(means)]
    return next(budget for budget, mean in means.items() if mean >= best - 0.01)


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that accuracy rises with the self-iterations allowed at test.

    Reproduced if in every run and both modes the largest budget is at least 0.1 more accurate than the least
    and no budget is more than 0.02 less accurate than a smaller one; not reproduced if in no run the largest
    is more accurate than the least; partly otherwise.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    lines = [
        list(run[mode]["accuracy"].values())
        for group in found["tasks"].values()
        for run in group["seeds"].values()
        for mode in MODES
    ]
    failed = sum(len(group["failed"]) for group in found["tasks"].values())
    rising = sum(line[-1] >= line[0] + 0.1 and _never_falls(line) for line in lines)
    of = len(lines) + failed * len(MODES)
    higher = sum(line[-1] >= line[0] + 0.1 for line in lines)
    because = (
        f"rises by 0.1 or more in {higher} of {of} runs and modes, in {rising} of them without a fall of "
        "more than 0.02 on the way (falls at the level of chance count, too)"
    )
    if not any(line[-1] > line[0] for line in lines):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if rising == len(lines) and not failed else "partly", because)


def _never_falls(line: Sequence[float]) -> bool:
    return all(later >= before - 0.02 for place, before in enumerate(line) for later in line[place + 1 :])


FIGURE = PaperFigure(
    title="Test-time compute",
    claim=Claim("quality rises with the self-iterations allowed at test", IMPLICIT_ARE_RNNS, judge),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
