"""How many hard tokens training needs: models trained on a few of them, tested on more and at few iterations.

The task is a product of a group and a monoid. An *easy* token leaves the group where it is, a *hard* one is
drawn uniformly from all tokens; the probability of a hard one is varied in training and at test.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.figures import new_panels
from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.framework.visited_states import sample_sequences
from automata.tasks.specification import task_from
from implicit.checked_config import CheckedConfig
from implicit.config.run import TrainConfig
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import Run, initial_model
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import TRAINING as OF_TRAINING
from paper_figures.experiments.grid import Experiment, Grid, Measurement, Point
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import grouped
from paper_figures.figures.shortcuts import shortcuts, shortcuts_sentence

MODES: tuple[Mode, ...] = ("sequential", "simultaneous")
NO_LIMIT = "none"
"""The limit that is one of the settings, so large that it is none."""


class HardTrainingSettings(CheckedConfig):
    """What is measured.

    Example:
        >>> HardTrainingSettings().hard_fractions
        (0.1, 0.5)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    hard_fractions: tuple[float, ...] = Field(
        default=(0.1, 0.5), description="probabilities of a hard token at test"
    )
    limits: tuple[PositiveInt, ...] = Field(default=(2, 4, 8, 16), description="the most self-iterations")
    no_limit: PositiveInt = Field(default=2048, description="the most self-iterations where none is set")
    length: PositiveInt = Field(default=256, description="tokens per sequence")
    shorter: tuple[PositiveInt, ...] = Field(
        default=(16, 32, 64, 128), description="lengths of their beginnings, measured without a limit"
    )
    sequences: PositiveInt = Field(default=256, description="sequences, sequential mode")
    swept_sequences: PositiveInt = Field(
        default=64, description="how many of them, the first ones, in simultaneous mode"
    )
    rtol: PositiveFloat = Field(default=1e-3, description="relative tolerance at which a token stops early")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences")


SETTINGS = HardTrainingSettings()


def measure(run: Run, settings: HardTrainingSettings) -> dict[str, Any]:
    """Measure accuracy with every limit, in both modes, and what the tokens take without one.

    Returns:
        By the probability of a hard token: the accuracy by mode and limit; for the sequential mode without a
        limit the mean self-iterations of all, of easy and of hard tokens, the share of tokens that took more
        than each limit, the share that converged, and the accuracy at shorter lengths.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = HardTrainingSettings(
        ...     hard_fractions=(1.0,), limits=(64,), length=4, shorter=(), sequences=2, swept_sequences=1
        ... )
        >>> found = measure(load_run("parity"), small)["1.0"]
        >>> found["sequential"], found["simultaneous"]["none"], found["share_above"]
        ({'64': 1.0, 'none': 1.0}, 1.0, {'64': 0.0})
    """
    model, task = as_implicit(run), word_problem_of(run)
    limits = {**{str(limit): limit for limit in settings.limits}, NO_LIMIT: settings.no_limit}
    measured: dict[str, Any] = {}
    for fraction in settings.hard_fractions:
        tokens, labels = sample_sequences(
            task_from(task, fraction), settings.sequences, settings.length, settings.seed
        )
        found: dict[str, Any] = {}
        for mode in MODES:
            some = slice(settings.swept_sequences if mode == "simultaneous" else None)
            found[mode] = {}
            for name, limit in limits.items():
                solve = Solve(mode, stopping=Stopping(rtol=settings.rtol, max_iterations=limit))
                with torch.no_grad():
                    output = model.run(tokens[some], solve=solve)
                right = (output.logits.argmax(dim=-1) == labels[some]).double()
                found[mode][name] = right[:, -REPORTED_TOKENS:].mean().item()
                if mode == "sequential" and name == NO_LIMIT:
                    assert output.solution is not None
                    easy = torch.isin(tokens, torch.tensor(task.easy_tokens))
                    found |= effort(output.solution.iterations, easy, settings.limits)
                    found["share_converged"] = output.solution.share_converged
                    found["by_length"] = {
                        str(length): right[:, max(0, length - REPORTED_TOKENS) : length].mean().item()
                        for length in (*settings.shorter, settings.length)
                    }
        measured[str(fraction)] = found
    return measured


def effort(iterations: Tensor, easy: Tensor, limits: Sequence[int]) -> dict[str, Any]:
    """Return the mean self-iterations of all, of easy and of hard tokens, and the share above every limit.

    Args:
        iterations: of every token, ``[sequences, length]``.
        easy: which tokens are easy, bool ``[sequences, length]``.
        limits: of self-iterations.

    Example:
        >>> effort(torch.tensor([[3, 9]]), torch.tensor([[True, False]]), [4])
        {'iterations': {'all': 6.0, 'easy': 3.0, 'hard': 9.0}, 'share_above': {'4': 0.5}}
    """
    among = {"all": torch.ones_like(easy), "easy": easy, "hard": ~easy}
    return {
        "iterations": {
            name: iterations[those].double().mean().item() if those.any() else None
            for name, those in among.items()
        },
        "share_above": {str(limit): (iterations > limit).double().mean().item() for limit in limits},
    }


FRACTION_LOOKS = {
    0.02: Look("#CC79A7", "v", ":"),
    0.1: Look("#0072B2", "o"),
    0.5: Look("#D55E00", "s", "--"),
    1.0: Look("#009E73", "^", "-."),
}
"""By the probability of a hard token in training."""

TRAINED, TESTED, ENOUGH = 0.1, 0.5, 8
"""What is claimed: probabilities of a hard token in training and at test, and self-iterations that suffice."""
SOLVED_ACCURACY = 0.99
"""A run solves the task if it is this accurate."""

SEEDS = range(3)
TASK = "S3xM"
TRAINING: dict[str, Any] = {
    "task": TASK,
    "d_model": 32,
    "expand": 2,
    "d_state": 16,
    "head_size": 16,
    "d_conv": 4,
    "batch_size": 64,
    "length": 32,
    "steps": 1200,
    "start_length": 8,
    "length_growth": 8,
    "length_growth_every": 300,
    "growth_accuracy": None,
    "learning_rate": 3e-3,
    "bounded_steps": 0,
    "free_max_iterations": 60,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "random_starts": 1.0,
    "loss_until_error": True,
    "contraction_weight": 0.02,
    "contraction_scales": [0.1, 1.0],
    "contraction_power": 2.0,
    "carried_share": 0.9,
    "carried_right": True,
    "carried_after": 900,
    "evaluate_every": 400,
}
"""Lengths follow the number of the update: answering "no change" is right at nearly all tokens where few are
hard, so that sequences which grow by accuracy would grow before the group is learnt, and the models would see
different data. What ends a sequence's loss, and which sequences go on, is each model's own."""
EXPERIMENT = Experiment(
    "hard_tokens_in_training",
    (Grid({"hard_fraction": list(FRACTION_LOOKS), "seed": SEEDS}, {"model": "implicit-mamba2", **TRAINING}),),
    (Measurement("limits", measure, SETTINGS),),
)

FULL = Grid(
    {"hard_fraction": [0.02, 0.05, 0.1, 0.25, 0.5, 1.0], "seed": SEEDS},
    {
        "task": "A5xM",
        "model": "implicit-mamba2",
        "d_model": 256,
        "expand": 4,
        "d_state": 128,
        "head_size": 64,
        "length": 256,
        "batch_size": 512,
        "steps": 16384,
        "warmup_steps": 1638,
        "learning_rate": 1e-3,
        "bounded_steps": 4005,
        "bounded_iterations": 4,
        "free_mode": "simultaneous",
        "free_max_iterations": 32,
        "free_rtol": 0.05,
        "phantom_steps": 4,
        "contraction_weight": 0.0,
        "carried_share": 0.0,
    },
)
"""The setting of the paper as its authors' public code has it, without their dropout and weight norm: A5 times
a four-element monoid, 240 tokens, 8.4 million sequences of 256 tokens. Nothing here was trained in it; each
point's `command` does so, given a GPU. What it would cost is estimated by `full_cost`."""


def full_cost(seconds_per_token: float) -> dict[str, float]:
    """Estimate what a run in the setting of `FULL` costs from what a token of ours costs.

    The cost of a token is taken to grow with the number of the cell's weights, each of which is used once per
    self-iteration; that the iterations are as many as in ours is assumed.

    Args:
        seconds_per_token: of training, on the processor that it was measured on.

    Returns:
        The tokens of a run, how many times our weights its cell has, and days on that processor.

    Example:
        >>> cost = full_cost(3e-5)
        >>> cost["tokens"], 100 < cost["weights_ratio"] < 130
        (2147483648, True)
    """
    ours, paper = (_cell_weights(grid.points[0]) for grid in (EXPERIMENT.grids[0], FULL))
    config = FULL.points[0].config
    tokens = config.steps * config.batch_size * config.length
    ratio = paper / ours
    return {
        "tokens": tokens,
        "weights_ratio": ratio,
        "days": tokens * ratio * seconds_per_token / 86400,
    }


def _cell_weights(point: Point) -> int:
    model = initial_model(point.config, point.config.build_task())
    return sum(weights.numel() for name, weights in model.named_parameters() if name.startswith("mixers."))


def collect(outcomes: Sequence[Outcome], settings: HardTrainingSettings = SETTINGS) -> Results:
    """Collect what was measured by the hard tokens of training, audit the tests, and tell the cost.

    Example:
        >>> found = collect([])
        >>> found["groups"], found["seconds_per_token"], found["shortcuts"]["0.5"]["length"]
        ([], None, 256)
    """
    seconds = [outcome.records[OF_TRAINING].seconds for outcome in outcomes if OF_TRAINING in outcome.records]
    trained = [outcome.point.config for outcome in outcomes if OF_TRAINING in outcome.records]
    tokens = sum(tokens_trained(config) for config in trained)
    return {
        "settings": settings.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "seconds_per_token": sum(seconds) / tokens if tokens else None,
        "shortcuts": {
            str(fraction): shortcuts(TASK, settings.length, fraction) for fraction in settings.hard_fractions
        },
        "groups": grouped(outcomes, "limits"),
    }


def tokens_trained(config: TrainConfig) -> int:
    """Return how many tokens a run is trained on whose sequences grow by step number.

    Example:
        >>> config = TrainConfig.of(
        ...     task="S3", model="lstm", steps=3, warmup_steps=1, batch_size=2, length=8, start_length=4,
        ...     length_growth=4, length_growth_every=2,
        ... )
        >>> tokens_trained(config)
        32
    """
    lengths = (config.curriculum.phase(step, config.length).length for step in range(1, config.steps + 1))
    return config.batch_size * sum(lengths)


def draw(found: Results, width: float) -> Figure:
    """Draw a row of panels per mode, a panel per test and a line per training, every run thin.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("hard_tokens_in_training").results, 6.75).axes)
        4
    """
    settings = found["settings"]
    limits = [*map(str, settings["limits"]), NO_LIMIT]
    asked = [(mode, str(fraction)) for mode in MODES for fraction in settings["hard_fractions"]]
    figure, panels = new_panels(width, len(asked), height=1.7 if width < 5 else 2.1, columns=2)
    for axes, (mode, fraction) in zip(panels, asked, strict=True):
        for group in found["groups"]:
            in_training = group["settings"]["hard_fraction"]
            runs = [list(run[fraction][mode].values()) for run in group["seeds"].values()]
            label = f"trained on {_percent(in_training)} hard"
            draw_runs(axes, range(len(limits)), runs, FRACTION_LOOKS[in_training], label, breadth=1.4)
        axes.axhline(found["shortcuts"][fraction]["accuracy"], color=GREY, linewidth=0.9, linestyle=":")
        axes.set_xticks(range(len(limits)), limits)
        axes.set(title=f"{mode}, {_percent(fraction)} hard at test", ylim=(-0.04, 1.06))
    beside = 1 if width < 5 else 2
    for number, axes in enumerate(panels):
        if number % beside == 0:
            axes.set_ylabel(f"accuracy (last {found['reported_tokens']})")
    for axes in panels[-beside:]:
        axes.set_xlabel("self-iterations at most")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=1 if width < 5 else 2
    )
    return figure


def _percent(fraction: float | str) -> str:
    return f"{100 * float(fraction):g}%"


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how few self-iterations hard tokens take.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("hard_tokens_in_training").results))
        Accuracy of implicit Mamba-2 on S3 times a memory ...
    """
    return "Accuracy of implicit Mamba-2 on S3 times a memory."


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that training on 10% hard tokens generalises to 50%, and that 8 self-iterations suffice there.

    A run trained at 0.1 shows it in a mode if, with 0.5 at test, it is right at no less than 0.99 of the last
    tokens of the sequences without a limit, and with at most 8 self-iterations no more than 0.01 less often.
    Reproduced if all of these runs show it in both modes; not reproduced if none does in either; partly
    otherwise.

    Example:
        >>> judge({"groups": []}).word
        'not reproduced'
    """
    group = next((g for g in found["groups"] if g["settings"]["hard_fraction"] == TRAINED), None)
    runs = [] if group is None else [run[str(TESTED)] for run in group["seeds"].values()]
    of = len(runs) + (0 if group is None else len(group["failed"]))
    shown = {mode: sum(_shows(run[mode]) for run in runs) for mode in MODES}
    because = f"of {of} runs trained on {_percent(TRAINED)} hard tokens and tested on {_percent(TESTED)}: "
    because += "; ".join(
        f"{mode} mode {sum(run[mode][NO_LIMIT] >= SOLVED_ACCURACY for run in runs)} right at "
        f"{SOLVED_ACCURACY:g} without a limit, {shown[mode]} with {ENOUGH} self-iterations too"
        for mode in MODES
    )
    if not any(shown.values()):
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if min(shown.values()) == of else "partly", because)


def _shows(accuracy: Mapping[str, float]) -> bool:
    unlimited = accuracy[NO_LIMIT]
    return unlimited >= SOLVED_ACCURACY and accuracy[str(ENOUGH)] >= unlimited - 0.01


FIGURE = PaperFigure(
    title="Few hard tokens in training",
    claim=Claim(
        "trained on 10% hard tokens, implicit SSMs generalise to 50%, and 8 self-iterations suffice at 256 "
        "tokens",
        f"{IMPLICIT_ARE_RNNS} (the numbers from a secondary source)",
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
)
