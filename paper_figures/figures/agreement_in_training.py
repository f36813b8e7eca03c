"""Do both modes reach the same fixed points, and with how many self-iterations, while a model is trained?

The training of a run is repeated, and looked at on the way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt

from analysis.agreement import analyse as compare_modes
from analysis.convergence import analyse as follow_both
from analysis.framework.figures import log_axis, new_figure
from analysis.framework.palette import GREY, MODE_LOOKS, Look
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.modes import Mode
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.retraining import runs_on_the_way
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.iterations_at_test import EXPERIMENT as SAME_RUNS
from paper_figures.figures.iterations_at_test import FULL as SAME_FULL_RUNS
from paper_figures.figures.iterations_at_test import TASK_LABELS
from paper_figures.figures.length_generalization import measure as measure_lengths
from paper_figures.figures.published_setting import PUBLISHED_COURSE
from paper_figures.figures.token_iterations import training_course
from paper_figures.figures.trained import (
    Training,
    is_small,
    of_free_phase,
    published_sentences,
    trained_as,
    training_of,
)

PUBLISHED_AGREEMENT = 0.976
"""Share of the tokens at which the modes are said to agree in the largest published model, of 1.3B."""
MODES: tuple[Mode, ...] = ("sequential", "simultaneous")


class CourseSettings(CheckedConfig):
    """When a training run is looked at, and how.

    Example:
        >>> CourseSettings().steps[:4]
        (0, 20, 50, 100)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    steps: tuple[NonNegativeInt, ...] = Field(
        default=(0, 20, 50, 100, 150, 200, 250, 300, 400, 500, 700, 1000),
        description="training steps after which the model is looked at, beside the last one",
    )
    sequences: PositiveInt = Field(default=8, description="sequences that both modes solve")
    length: PositiveInt = Field(default=64, description="tokens of a sequence")
    rtol: PositiveFloat = Field(default=1e-4, description="relative tolerance of both modes, float64")
    max_iterations: PositiveInt = Field(default=1000, description="the most iterations of each mode")
    answered: PositiveInt = Field(default=64, description="sequences that accuracy is measured on")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


SETTINGS = CourseSettings()


def measure(run: Run, settings: CourseSettings) -> dict[str, Any]:
    """Train a run again and compare the modes after some steps.

    Returns:
        ``course``: an entry for each step, in order; ``training``: self-iterations as training recorded them.

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
        >>> found = measure(run, CourseSettings(steps=(0,), sequences=1, length=4, max_iterations=20))
        >>> [entry["step"] for entry in found["course"]], len(found["training"])
        ([0, 2], 1)
    """
    course = runs_on_the_way(run, settings.steps).items()
    return {
        "course": [{"step": step, **_look(seen, settings)} for step, seen in course],
        "training": training_course(run),
    }


def _look(run: Run, settings: CourseSettings) -> dict[str, Any]:
    """Where the modes of a model agree, what they take, and how right it is in sequential mode."""
    how: dict[str, Any] = settings.model_dump(exclude={"steps", "answered"})
    agreement = compare_modes(run, **how, examples=0)
    modes = follow_both(run, **how).modes
    answered = LengthSettings(
        lengths=(settings.length,), sequences=settings.answered, mode="sequential", seed=settings.seed
    )
    lengths = measure_lengths(run, answered)
    return {
        **agreement.shares,
        "same_answer": float(agreement.same_answer.mean()),
        "iterations": {
            "sequential": float(modes["sequential"].iterations.mean()),
            "simultaneous": float(modes["simultaneous"].until(settings.length).mean()),
        },
        "share_converged": {mode: modes[mode].share_converged for mode in MODES},
        "accuracy": lengths["accuracy"][settings.length],
    }


COURSE = Measurement("agreement_course", measure, SETTINGS, trains_again=True)
EXPERIMENT = Experiment("agreement_in_training", SAME_RUNS.grids[:2], (COURSE,))
"""The runs on parity and S3, which train in a minute or two each."""
FULL_SETTINGS = SETTINGS.model_copy(update={"steps": PUBLISHED_COURSE})
FULL = Experiment(EXPERIMENT.name, SAME_FULL_RUNS.grids[::2], (replace(COURSE, settings=FULL_SETTINGS),))
"""Those on parity and S5, looked at after other updates."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect what was measured by task and seed.

    Example:
        >>> collect([])["tasks"]
        {}
    """
    training = trained_as(outcomes, EXPERIMENT)
    settings = SETTINGS if is_small(training, EXPERIMENT) else FULL_SETTINGS
    return {
        "settings": settings.model_dump(mode="json"),
        "training": training,
        "tasks": {
            group["settings"]["task"]: {"seeds": group["seeds"], "failed": group["failed"]}
            for group in grouped(outcomes, "agreement_course")
        },
    }


SHARES = {
    "agree": ("modes reach the same fixed point", Look("#0077BB", "o")),
    "differ": ("different ones", Look("#EE7733", "^", "--")),
    "accuracy": ("accuracy, sequential mode", Look("#009988", "s", ":")),
}
"""Of all tokens; the rest of the first two did not converge in at least one mode."""
IN_TRAINING = Look("#000000", "D", "-.")


def draw(found: Results, width: float) -> Figure:
    """Draw a column per task: shares of the tokens, and self-iterations, over the updates of training.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("agreement_in_training").results, 6.75).axes)
        4
    """
    tasks, rtol = found["tasks"], found["settings"]["rtol"]
    figure = new_figure(width, 4.3 if width < 5 else 3.9)
    panels = figure.subplots(2, max(1, len(tasks)), sharex="col", sharey="row", squeeze=False)
    for (top, bottom), (task, group) in zip(panels.T, tasks.items(), strict=False):
        top.set(title=TASK_LABELS[task], ylim=(-0.04, 1.06))
        for run in group["seeds"].values():
            course = run["course"]
            steps = [entry["step"] for entry in course]
            for name, (_, look) in SHARES.items():
                _line(top, steps, [entry[name] for entry in course], look)
            for mode in MODES:
                _line(bottom, steps, [entry["iterations"][mode] for entry in course], MODE_LOOKS[mode])
            recorded = run["training"]
            _line(
                bottom,
                [entry["step"] for entry in recorded],
                [entry["iterations"] for entry in recorded],
                IN_TRAINING,
            )
        bottom.axhline(found["settings"]["max_iterations"], color=GREY, linewidth=0.9, linestyle=":")
        bottom.set_xlabel("training step")
    log_axis(panels[1, 0])
    panels[0, 0].set_ylabel("share of the tokens")
    panels[1, 0].set_ylabel("self-iterations")
    looks = {
        **dict(SHARES.values()),
        f"sequential, to {rtol:g}": MODE_LOOKS["sequential"],
        f"simultaneous, to {rtol:g}": MODE_LOOKS["simultaneous"],
        "in training, to its tolerance": IN_TRAINING,
    }
    handles = [
        Line2D([], [], color=look.color, marker=look.marker, linestyle=look.dashes, markersize=3, label=name)
        for name, look in looks.items()
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=1 if width < 5 else 2)
    return figure


def _line(axes: Axes, steps: Sequence[int], values: Sequence[float], look: Look) -> None:
    axes.plot(
        steps,
        np.asarray(values, float),
        color=look.color,
        marker=look.marker,
        linestyle=look.dashes,
        linewidth=0.9,
        markersize=2.5,
        alpha=0.85,
    )


def caption(found: Results) -> str:
    """Tell what is drawn, and what each task begins and ends with.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("agreement_in_training").results))
        Both modes of implicit Mamba-2 while it learns parity and S3...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    small = is_small(training, EXPERIMENT)
    learnt = (
        "parity and S3 at 32 tokens by their recipes, which penalise slow contraction"
        if small
        else f"{' and '.join(map(TASK_LABELS.__getitem__, found['tasks']))} at {training['length']} tokens"
    )
    batch = "at 32 tokens and from random latents, to a tolerance of 0.01" if small else "from zero"
    how_long = "Training ends by accuracy, sooner in some runs than in others" if small else _full(training)
    ends = "; ".join(f"{TASK_LABELS[task]} {_ends(group)}" for task, group in found["tasks"].items())
    return (
        f"Both modes of implicit Mamba-2 while it learns {learnt}; a line per seed. Top: shares of the "
        f"tokens of {settings['sequences']} sequences of {settings['length']} (data seed {settings['seed']}, "
        f"float64, relative tolerance {settings['rtol']:g}, from zero) at which both modes reach the same "
        "fixed point, or different ones; in the rest at least one mode did not converge within "
        f"{settings['max_iterations']:,} iterations (dotted). Accuracy: last {REPORTED_TOKENS} tokens of "
        f"{settings['answered']} sequences. Bottom: self-iterations per token, in simultaneous mode sweeps "
        f"until the last token is done; black: mean over a batch{of_free_phase(training)} of training, "
        f"{batch}. {how_long}; what happens between the marks was not seen. Shares that agree, at first / "
        f"least after that / at the end: {ends}."
    )


def _full(training: Training) -> str:
    """How long the training at the size of the paper is; the last sentence is open."""
    return f"{published_sentences(training)} Every training was repeated for this figure"


def _ends(group: Mapping[str, Any]) -> str:
    shares_of = [[entry["agree"] for entry in run["course"]] for run in group["seeds"].values()]
    said = [
        ", ".join(f"{share:.2f}" for share in chosen)
        for chosen in zip(*((of[0], min(of[1:] or of), of[-1]) for of in shares_of), strict=True)
    ]
    return " / ".join(said) or "none"


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that both modes of a trained model compute the same.

    A run shows it if at the end of training both modes, from zero, reach the same fixed point at least at
    the share `PUBLISHED_AGREEMENT` of the tokens. Reproduced if all runs do, not reproduced if none does;
    partly otherwise. The rule was written before the runs were measured. The least share after any of the
    steps stands beside it.

    Example:
        >>> judge({"tasks": {}}).word
        'not reproduced'
    """
    counts: dict[str, tuple[int, int]] = {}
    least: list[float] = []
    for task, group in found["tasks"].items():
        courses = [run["course"] for run in group["seeds"].values()]
        shown = sum(course[-1]["agree"] >= PUBLISHED_AGREEMENT for course in courses)
        counts[TASK_LABELS[task]] = (shown, len(courses) + len(group["failed"]))
        least += [entry["agree"] for course in courses for entry in course]
    because = (
        f"runs whose modes agree at {PUBLISHED_AGREEMENT:.1%} of the tokens or more at the end: "
        f"{shares(counts) or 'none'}"
    )
    if least:
        because += f"; least share on the way: {min(least):.3f}"
    if not any(shown for shown, _ in counts.values()):
        return Verdict("not reproduced", because)
    everywhere = all(shown == of for shown, of in counts.values())
    return Verdict("reproduced" if everywhere else "partly", because)


FIGURE = PaperFigure(
    title="Agreement of the modes through training",
    claim=Claim(
        "the simultaneous and the sequential mode of a trained implicit SSM reach the same fixed points",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
