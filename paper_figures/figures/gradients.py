"""What the gradient rule does to length generalisation on S5, and how far back phantom steps give credit.

A phantom gradient of k steps differentiates k more self-iterations from the fixed point. In each of them
every token reads the latents of the tokens before it once: what reaches a token through the latents of n
others needs n + 1 steps, and is left out if k is smaller. What the scan hands on without them is not.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from analysis.framework.figures import new_figure, powers_of_two
from analysis.framework.needs import as_implicit
from analysis.framework.palette import GREY, Look
from analysis.framework.run_lines import RUN_LINES, draw_runs
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.fixed_point import Solution, Stopping
from implicit.gradients import GradientRule, Phantom
from implicit.gradients.factored import FactoredImplicit
from implicit.models.interface import FixedPointModel
from implicit.modes import Solve, Windowed
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.groups import draw_legend, grouped
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.published_setting import PUBLISHED_LENGTH
from paper_figures.figures.s5_training import FULL_IMPLICIT, SEEDS
from paper_figures.figures.shortcuts import shortcuts, shortcuts_sentence
from paper_figures.figures.trained import (
    Training,
    is_small,
    published_sentences,
    trained_as,
    training_of,
)
from paper_figures.figures.variants import measure

TASK, LENGTH = "S5-generators", 40
SETTINGS = LengthSettings(
    lengths=(LENGTH, 64, 128, 256, 512, 1024), sequences=256, mode="sequential", rtol=0.01, seed=0
)
SOLVED_LENGTH, SOLVED_ACCURACY = 256, 0.99
"""A run keeps its state if it is this accurate at that length."""
TIMED_LENGTHS, EXACT_TO_PHANTOM = (8, 40), (0.87, 1.11)
"""The time of an update with the exact gradient over that of one with phantom steps, on a CPU with kernels:
the least and the most ratio of medians on sequences of so many tokens, as stored of the benchmark
``training_step``, which is no part of the package."""


class ReachSettings(CheckedConfig):
    """Between which tokens gradients are compared, and which.

    Example:
        >>> ReachSettings().steps
        (1, 4, 16, 64)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    steps: tuple[PositiveInt, ...] = Field(default=(1, 4, 16, 64), description="steps of phantom gradients")
    sequences: PositiveInt = Field(default=16, description="sequences")
    length: PositiveInt = Field(default=24, description="tokens of a sequence")
    rtol: PositiveFloat = Field(default=1e-9, description="relative tolerance of the fixed points, float64")
    max_iterations: PositiveInt = Field(default=4000, description="the most self-iterations per token")
    seed: NonNegativeInt = Field(default=0, description="seed of the sequences and of the direction")


REACH = ReachSettings()


def measure_reach(run: Run, settings: ReachSettings) -> dict[str, Any]:
    """Compare phantom gradients with the exact one, by the distance between two tokens.

    Of a random direction of the last token's latent, the derivative in the embedding of each token before it
    is taken, in float64, by the exact rule and by phantom steps; the distance between them, over all
    sequences, is divided by the norm of the exact one.

    Returns:
        ``share_converged`` of the tokens; ``norm`` of the exact derivative, and ``distance`` by steps: a
        number for every distance between the two tokens, from 0. Both are empty if some token did not reach
        its fixed point, where no gradient is the exact one.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> found = measure_reach(load_run("parity"), ReachSettings(steps=(1, 64), sequences=2, length=4))
        >>> [round(distance, 2) for distance in found["distance"]["64"]], len(found["distance"]["1"])
        ([0.0, 0.0, 0.0, 0.0], 4)
    """
    model = copy.deepcopy(as_implicit(run)).double()
    drawn = draw_batch(run.task, settings.sequences, settings.length, settings.seed, Stream.TEST)
    tokens = drawn.tokens.to(model.device)
    stopping = Stopping(rtol=settings.rtol, max_iterations=settings.max_iterations)
    with torch.no_grad():
        solution = model.fixed_points(tokens, solve=Solve(Windowed(block=None), stopping=stopping))
    if not bool(solution.converged.all()):
        return {"share_converged": solution.share_converged, "norm": [], "distance": {}}
    generator = torch.Generator().manual_seed(settings.seed)
    direction = torch.randn(solution.value.shape[-1], generator=generator, dtype=torch.float64).to(
        model.device
    )
    exact = _derivative(model, tokens, solution, FactoredImplicit(), direction)
    norm = exact.norm(dim=(0, 2)).flip(0)
    distance = {}
    for steps in settings.steps:
        apart = _derivative(model, tokens, solution, Phantom(steps), direction) - exact
        distance[str(steps)] = (apart.norm(dim=(0, 2)).flip(0) / norm).tolist()
    return {"share_converged": 1.0, "norm": norm.tolist(), "distance": distance}


def _derivative(
    model: FixedPointModel, tokens: Tensor, solution: Solution, rule: GradientRule, direction: Tensor
) -> Tensor:
    """The derivative of a direction of the last latent in the embeddings of all tokens."""
    embedded: list[Tensor] = []
    hook = model.get_submodule("embedding").register_forward_hook(
        lambda _module, _inputs, output: embedded.append(output)
    )
    try:
        problem = model.problem(tokens)
    finally:
        hook.remove()
    value = rule.attach(problem, model.solver, model.stopping, solution).value
    (found,) = torch.autograd.grad((value[:, -1] @ direction).sum(), embedded[-1])
    return found


RULES = {
    "implicit": ("exact gradient", Look("#0072B2", "o")),
    "phantom": ("4 phantom steps", Look("#D55E00", "s", "--")),
}
"""Names and looks of the gradients that models were trained with."""
EXPERIMENT = Experiment(
    "gradients",
    (
        Grid(
            {"free_gradient": list(RULES), "seed": SEEDS},
            {"task": TASK, "model": "implicit-mamba2", "carried_share": 0.0},
        ),
    ),
    (Measurement("accuracy", measure, SETTINGS), Measurement("gradient_reach", measure_reach, REACH)),
)
FULL_SETTINGS = SETTINGS.model_copy(update={"lengths": (PUBLISHED_LENGTH, *SETTINGS.lengths[1:])})
"""From the length of training on, as the small ones are."""
FULL = Experiment(
    EXPERIMENT.name,
    (
        Grid(
            {"free_gradient": list(RULES), "seed": SEEDS},
            {
                "model": "implicit-mamba2",
                **{name: value for name, value in FULL_IMPLICIT.items() if name != "free_gradient"},
            },
        ),
    ),
    (replace(EXPERIMENT.measurements[0], settings=FULL_SETTINGS), *EXPERIMENT.measurements[1:]),
)
"""S5 at 32 tokens; with phantom gradients it is the training of the figure of length generalization on S5."""

STEP_LOOKS = (
    Look("#CC79A7", "v", ":"),
    Look("#D55E00", "s", "--"),
    Look("#009988", "^", "-."),
    Look("#000000", "o"),
)
"""Of the numbers of phantom steps, ascending."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect accuracy, updates and distances of gradients by the rule of training and seed.

    Example:
        >>> collect([])["rules"]
        {}
    """
    reach = {
        (group["settings"]["free_gradient"], seed): found
        for group in grouped(outcomes, "gradient_reach")
        for seed, found in group["seeds"].items()
    }
    rules, training = {}, trained_as(outcomes, EXPERIMENT)
    settings = SETTINGS if is_small(training, EXPERIMENT) else FULL_SETTINGS
    for group in grouped(outcomes, "accuracy"):
        rule = group["settings"]["free_gradient"]
        accuracies = [accuracy_at(run, SOLVED_LENGTH) for run in group["seeds"].values()]
        rules[rule] = {
            "seeds": group["seeds"],
            "reach": {seed: reach[rule, seed] for seed in group["seeds"] if (rule, seed) in reach},
            "failed": group["failed"],
            "solved": sum(accuracy >= SOLVED_ACCURACY for accuracy in accuracies),
            "of": len(accuracies) + len(group["failed"]),
        }
    return {
        "settings": settings.model_dump(mode="json"),
        "reach_settings": REACH.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": training,
        "training_length": training["length"],
        "shortcuts": shortcuts(training["task"], training["length"]),
        "rules": rules,
    }


def draw(found: Results, width: float) -> Figure:
    """Draw accuracy against length by the gradient of training, and how far off phantom gradients are.

    Example:
        >>> from analysis.framework.figures import styled
        >>> from paper_figures.stored_results import StoredResults
        >>> with styled():
        ...     len(draw(StoredResults.read("gradients").results, 6.75).axes)
        2
    """
    narrow = width < 5
    figure = new_figure(width, 5.0 if narrow else 2.7)
    accuracy, reach = figure.subplots(*((2, 1) if narrow else (1, 2)))
    lengths = found["settings"]["lengths"]
    for rule, group in found["rules"].items():
        label, look = RULES[rule]
        runs = [[accuracy_at(run, length) for length in lengths] for run in group["seeds"].values()]
        draw_runs(accuracy, lengths, runs, look, label)
    powers_of_two(accuracy, lengths)
    accuracy.axhline(found["shortcuts"]["majority"], color=GREY, linewidth=0.9, linestyle=":")
    accuracy.set(
        xlabel="tokens", ylabel=f"accuracy (last {found['reported_tokens']} tokens)", ylim=(-0.04, 1.06)
    )
    draw_legend(accuracy)
    _draw_reach(reach, found)
    return figure


def _draw_reach(axes: Axes, found: Results) -> None:
    followed, left_out = _reach_runs(found)
    for steps, look in zip(found["reach_settings"]["steps"], STEP_LOOKS, strict=True):
        label = f"{steps} step{'s' * (steps > 1)}"
        for run in followed:
            apart = run["distance"][str(steps)]
            axes.plot(
                range(len(apart)),
                apart,
                color=look.color,
                linestyle=look.dashes,
                linewidth=0.9,
                label=label,
            )
            label = "_nolegend_"
    axes.set(
        xlabel="tokens back",
        ylabel="distance from the exact gradient,\nrelative to its norm",
        ylim=(-0.04, 1.3),
    )
    nothing = "no run reached all fixed points" if left_out else "no run ended well"
    draw_legend(axes, columns=2, nothing=nothing)


def _reach_runs(found: Results) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was measured between tokens: of runs whose fixed points were all reached, and of the others."""
    runs = [run for group in found["rules"].values() for run in group["reach"].values()]
    return [run for run in runs if run["distance"]], [run for run in runs if not run["distance"]]


def caption(found: Results) -> str:
    """Tell what is drawn, how the models were trained, and how many runs keep their state.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("gradients").results))
        Implicit Mamba-2 trained on S5 with the exact gradient and with phantom gradients of four steps. ...
    """
    settings, reach, training = found["settings"], found["reach_settings"], training_of(found, EXPERIMENT)
    return (
        "Implicit Mamba-2 trained on S5 with the exact gradient and with phantom gradients of four steps. "
        f"One panel: accuracy (mean over the last {found['reported_tokens']} tokens of "
        f"{settings['sequences']} fresh sequences, data seed {settings['seed']}, {settings['mode']} mode to "
        f"a relative tolerance of {settings['rtol']:g}, {_tolerance(training)}; dotted: chance). {RUN_LINES} "
        f"{interval_sentence(settings['sequences'])} "
        f"{_small(found) if is_small(training, EXPERIMENT) else _full(training)} "
        f"Other panel, a line per run and number of steps, {_followed(found)}: how far the phantom gradient "
        "of a direction of the last latent in the embedding of an earlier token is from the exact one, over "
        f"{reach['sequences']} sequences of {reach['length']} tokens, at the end of training, in float64. "
        f"{shortcuts_sentence(found['shortcuts'])} At least {SOLVED_ACCURACY} at {SOLVED_LENGTH} tokens: "
        f"{shares(_solved(found)) or 'no runs'}."
    )


def _followed(found: Results) -> str:
    """Of how many runs the panel is, and why not of others whose training ended."""
    followed, left_out = _reach_runs(found)
    settings, of = found["reach_settings"], sum(group["of"] for group in found["rules"].values())
    told = f"{len(followed)} of {of} runs"
    if not left_out:
        return told
    shares = ", ".join(f"{run['share_converged']:.3f}" for run in left_out)
    return (
        f"{told} (share of the tokens that reach their fixed points to {settings['rtol']:g} in "
        f"{settings['max_iterations']:,} self-iterations in the others that were trained: {shares})"
    )


def _tolerance(training: Training) -> str:
    """How the tolerance at test compares with that of training."""
    same = training["free_rtol"] == SETTINGS.rtol
    return "that of training" if same else f"in training {training['free_rtol']:g}"


def _small(found: Results) -> str:
    """How the models of the small grid were trained."""
    updates = "; ".join(
        f"{RULES[rule][0]} {', '.join(str(run['updates']) for run in group['seeds'].values())}"
        for rule, group in found["rules"].items()
    )
    (shortest, longest), (least, most) = TIMED_LENGTHS, EXACT_TO_PHANTOM
    return (
        f"Both by the recipe of {TASK} but without state passing: lengths grow by accuracy from 4 to "
        f"{found['training_length']} tokens, and training ends 500 updates after that is passed, so that the "
        f"number of updates depends on the run ({updates}); on a CPU an update with the exact gradient takes "
        f"{least:.2f} to {most:.2f} of the time of one with phantom steps ({shortest} to {longest} tokens, "
        "benchmark training_step)."
    )


def _full(training: Training) -> str:
    """How they are trained at the size of the paper."""
    rule = f"the exact gradient or {training['phantom_steps']} phantom steps"
    return f"{published_sentences(training, rule)} The bounded phase is the same in both."


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that phantom gradients of four steps train an implicit SSM that keeps its state.

    Reproduced if every run trained so is at least 0.99 accurate at 256 tokens, not reproduced if none is;
    partly otherwise.

    Example:
        >>> judge({"rules": {}}).word
        'not reproduced'
    """
    counts = _solved(found)
    solved, of = counts.get(RULES["phantom"][0], (0, 0))
    because = f"at least {SOLVED_ACCURACY} at {SOLVED_LENGTH} tokens: {shares(counts) or 'no runs'}"
    if solved == 0:
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if solved == of else "partly", because)


def _solved(found: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {RULES[rule][0]: (group["solved"], group["of"]) for rule, group in found["rules"].items()}


FIGURE = PaperFigure(
    title="Exact and phantom gradients on S5",
    claim=Claim(
        "phantom gradients of four steps train an implicit SSM that tracks S5 beyond its training length",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
