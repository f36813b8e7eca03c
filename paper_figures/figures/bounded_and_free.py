"""When to switch from the bounded phase to the free one: quality against what the training cost."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.framework.figures import new_figure
from analysis.framework.palette import GREY, MODEL_LOOKS
from automata.tasks.registry import make_task
from implicit.training.evaluation import REPORTED_TOKENS
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import curricula
from paper_figures.figures.bounded_measured import (
    BOUNDED_ITERATIONS,
    BoundedSettings,
    measure_bounded,
    measure_cost,
)
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.published_setting import PUBLISHED_TRAINING
from paper_figures.figures.s5_training import FULL_IMPLICIT, SEEDS
from paper_figures.figures.trained import (
    Training,
    free_words,
    is_small,
    left_out_words,
    trained_as,
    training_of,
    updates_words,
)
from paper_figures.figures.training_cost import GRADIENT_WEIGHT
from paper_figures.figures.variants import measure, variant_of

LENGTHS = (32, 512)
"""The training length and a far longer one."""
TASK = "S3"
UPDATES = 1500
COMMON: dict[str, Any] = {
    "growth_accuracy": None,
    "start_length": 4,
    "length_growth_every": 125,
    "steps": UPDATES,
    "bounded_length": 0,
    "bounded_iterations": BOUNDED_ITERATIONS,
    "free_gradient": "phantom",
    "free_max_iterations": 24,
    "free_rtol": 0.05,
    "random_starts": 0.0,
    "loss_until_error": False,
    "contraction_weight": 0.0,
    "carried_share": 0.0,
    "learning_rate": 1.5e-3,
    "evaluate_every": 50,
}
"""What all curricula by step number have in common."""

BOUNDED, PUBLISHED, FREE, RECIPE = "bounded only", "switch at 80%", "free only", "by accuracy"
BOUNDED_SHARES = {BOUNDED: 1.0, PUBLISHED: 0.8, "switch at 50%": 0.5, "switch at 20%": 0.2, FREE: 0.0}
"""The share of the updates in the bounded phase, by what the curriculum is called in the figure."""
CURRICULA: dict[str, dict[str, Any]] = {
    **{name: {**COMMON, "bounded_steps": round(share * UPDATES)} for name, share in BOUNDED_SHARES.items()},
    RECIPE: {},
}
"""What differs from the recipe of S3."""
FULL_UPDATES: int = PUBLISHED_TRAINING["steps"]
CODE_UPDATES: int = PUBLISHED_TRAINING["bounded_steps"]
"""Of the bounded phase in the authors' public code."""
CODE = f"switch at {CODE_UPDATES / FULL_UPDATES:.0%}"
FULL_CURRICULA: dict[str, dict[str, Any]] = {
    name: {"bounded_steps": updates}
    for name, updates in sorted(
        {
            **{name: round(share * FULL_UPDATES) for name, share in BOUNDED_SHARES.items()},
            CODE: CODE_UPDATES,
        }.items(),
        key=lambda curriculum: -curriculum[1],
    )
}
"""At the size of the paper: those by step number, and that of the paper's word problems among them."""
AS_TRAINED = f"{BOUNDED},\n{BOUNDED_ITERATIONS} sweeps at test"
TOLERANCE = 0.01
"""By how much a run may be less accurate than another of the same quality."""


EXPERIMENT = Experiment(
    "bounded_and_free",
    tuple(
        Grid({"seed": SEEDS}, {"task": TASK, "model": "implicit-mamba2", **different})
        for different in CURRICULA.values()
    ),
    (
        Measurement("accuracy", measure, curricula.SETTINGS),
        Measurement("bounded_accuracy", measure_bounded, BoundedSettings()),
        Measurement("training_cost", measure_cost),
    ),
)
FULL = Experiment(
    EXPERIMENT.name,
    (
        Grid(
            {"bounded_steps": [switch["bounded_steps"] for switch in FULL_CURRICULA.values()], "seed": SEEDS},
            {
                "model": "implicit-mamba2",
                **{name: value for name, value in FULL_IMPLICIT.items() if name != "bounded_steps"},
            },
        ),
    ),
    EXPERIMENT.measurements,
)
"""S5 at 32 tokens, from which the bounded phase alone differs; that of the public code, 4,005 updates, is the
training of the figure of length generalization on S5."""


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect accuracy and cost of every run by curriculum.

    Example:
        >>> collect([])["curricula"]["free only"]
        {'seeds': {}, 'failed': []}
    """
    training = trained_as(outcomes, EXPERIMENT)
    known = CURRICULA if training["task"] == TASK else FULL_CURRICULA
    found: dict[str, Any] = {name: {"seeds": {}, "failed": []} for name in known}
    for outcome in outcomes:
        group = found[variant_of(outcome.point.settings, known)]
        if outcome.complete and outcome.failure is None:
            values = outcome.values
            group["seeds"][str(outcome.point.seed)] = {
                "accuracy": values["accuracy"]["accuracy"],
                "share_converged": values["accuracy"]["share_converged"],
                "bounded_accuracy": values["bounded_accuracy"],
                "cost": values["training_cost"],
            }
        else:
            group["failed"].append(outcome.point.seed)
    return {
        "settings": curricula.SETTINGS.model_dump(mode="json"),
        "reported_tokens": REPORTED_TOKENS,
        "training": training,
        "curricula": found,
    }


def draw(found: Results, width: float) -> Figure:
    r"""Draw a row per curriculum and a mark per run: accuracy at both lengths, and cost.

    Example:
        >>> from analysis.framework.figures import styled
        >>> with styled():
        ...     [axes.get_xlabel() for axes in draw(collect([]), 6.75).axes]
        ['accuracy,\n32 tokens', 'accuracy,\n512 tokens', 'evaluations,\nmillions']
    """
    figure = new_figure(width, 2.5)
    *accuracies, cost = figure.subplots(1, len(LENGTHS) + 1, sharey=True)
    names = _rows(found)
    for row, runs in enumerate(names.values()):
        for axes, length in zip(accuracies, LENGTHS, strict=True):
            _marks(axes, row, [accuracy_at(run, length) for run in runs])
        _marks(cost, row, _costs([runs]))
    for axes, length in zip(accuracies, LENGTHS, strict=True):
        axes.axvline(_chance(found), color=GREY, linewidth=0.9, linestyle=":")
        axes.set(xlabel=f"accuracy,\n{length} tokens", xlim=(-0.08, 1.08), xticks=(0, 0.5, 1))
    accuracies[0].set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    cost.set(xlabel="evaluations,\nmillions", xlim=(0, 1.1 * max(_costs(names.values()), default=1.0)))
    cost.locator_params(axis="x", nbins=4)
    return figure


def _chance(found: Results) -> float:
    """How often a guess is right: as often as for any other element of the group."""
    return 1 / make_task(training_of(found, EXPERIMENT)["task"]).output_size


def _rows(found: Results) -> dict[str, list[dict[str, Any]]]:
    """The runs of every row; bounded only has a second one, with the self-iterations of its training."""
    rows = {}
    for name, group in found["curricula"].items():
        rows[name] = list(group["seeds"].values())
        if name == BOUNDED:
            rows[AS_TRAINED] = [{**run, "accuracy": run["bounded_accuracy"]} for run in rows[name]]
    return rows


def _costs(rows: Iterable[Sequence[Mapping[str, Any]]]) -> list[float]:
    """The cost of every run, in millions of evaluations."""
    return [run["cost"]["total"] / 1e6 for runs in rows for run in runs]


def _marks(axes: Axes, row: int, values: Sequence[float]) -> None:
    look = MODEL_LOOKS["implicit-mamba2"]
    places = row + 0.2 * (np.arange(len(values)) - (len(values) - 1) / 2)
    axes.plot(values, places, linestyle="", marker=look.marker, color=look.color, markersize=3.5, alpha=0.8)


def caption(found: Results) -> str:
    """Tell what is drawn, what the curricula are, what is counted, and what each cost and reached.

    Example:
        >>> from paper_figures.stored_results import StoredResults
        >>> print(caption(StoredResults.read("bounded_and_free").results))
        Accuracy of implicit Mamba-2 on S3 and what its training cost, a mark per run: ...
    """
    settings, training = found["settings"], training_of(found, EXPERIMENT)
    task = training["task"]
    return (
        f"Accuracy of implicit Mamba-2 on {task} and what its training cost, a mark per run: mean over the "
        f"last {found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}), {settings['mode']} mode to a relative residual of {settings['rtol']:g}, at "
        f"most {settings['max_iterations']} self-iterations per token, which {_converged(found)}; the second "
        f"row: {BOUNDED_ITERATIONS} sweeps over the sequence, as in bounded training. "
        f"{interval_sentence(settings['sequences'])} Dotted: chance. "
        f"{_small(found) if is_small(training, EXPERIMENT) else _full(training)} "
        f"Accuracy at {LENGTHS[-1]} tokens and mean cost: {_reached(found)}."
    )


def _small(found: Mapping[str, Any]) -> str:
    """What the curricula of the small grid are, and what is counted of them."""
    return (
        f"The first five curricula take the same {UPDATES:,} updates on the same batches of 64, at lengths "
        f"that grow by 4 every 125 updates to 32. Bounded: {BOUNDED_ITERATIONS} self-iterations, all "
        "differentiated. Free: at most 24 to a tolerance of 0.05, then 4 phantom steps. No penalty, no state "
        f"passing. They switch after that share of the updates, or {_shares_of_tokens(found)} of the tokens: "
        "early sequences are short. By accuracy: the recipe of S3, which takes fewer updates, all of 32 "
        "tokens, and differs in loss, penalty, starts, rate, gradient and state passing, too. Cost: "
        f"evaluations of the self-map at a token in training, {GRADIENT_WEIGHT} for one with gradient; "
        "self-iterations were recorded every 50 updates (recipe: 100) and are interpolated; what the "
        "recipe's exact gradient takes to solve its adjoint system is not counted."
    )


def _full(training: Training) -> str:
    """What they are at the size of the paper."""
    return (
        f"All curricula take the same {updates_words(training)}. Bounded: {training['bounded_iterations']} "
        f"self-iterations, all differentiated. Free: {free_words(training)}. {left_out_words(training)} They "
        "switch after that share of the updates, which is that of the tokens, too; the public code of the "
        f"paper does after {CODE_UPDATES:,}. Cost: evaluations of the self-map at a token in training, "
        f"{GRADIENT_WEIGHT} for one with gradient; self-iterations were recorded every "
        f"{training['evaluate_every']} updates and are interpolated."
    )


def _converged(found: Mapping[str, Any]) -> str:
    """Whether all tokens converged, and the least share of a run by curriculum, where it is below 1."""
    least = {
        name: min(run["share_converged"][str(LENGTHS[-1])] for run in group["seeds"].values())
        for name, group in found["curricula"].items()
        if group["seeds"]
    }
    below = [f"{name} {share:.2f}" for name, share in least.items() if share < 1]
    if not below:
        return "all tokens reached"
    least_shares = ", ".join([*below, "all others 1"])
    return f"not all tokens reached (least share in a run, {LENGTHS[-1]} tokens: {least_shares})"


def _shares_of_tokens(found: Mapping[str, Any]) -> str:
    """The share of the tokens in the bounded phase, of the curricula that switch."""
    words = []
    for name in _switching(found):
        runs = list(found["curricula"][name]["seeds"].values())
        if runs:
            words.append(f"{runs[0]['cost']['bounded_tokens'] / runs[0]['cost']['tokens']:.0%}")
    return ", ".join(words) or "unknown"


def _switching(found: Mapping[str, Any]) -> list[str]:
    """The curricula that switch at some update."""
    return [name for name in found["curricula"] if name not in (BOUNDED, FREE, RECIPE)]


def _reached(found: Mapping[str, Any]) -> str:
    words = []
    for name, group in found["curricula"].items():
        runs = group["seeds"].values()
        reached = ", ".join(f"{accuracy_at(run, LENGTHS[-1]):.3f}" for run in runs) or "no run"
        words.append(f"{name} {reached}" + (f" for {_mean_cost(group) / 1e6:.1f} million" if runs else ""))
    return "; ".join(words)


def _mean_cost(group: Mapping[str, Any]) -> float:
    costs = [run["cost"]["total"] for run in group["seeds"].values()]
    return float(sum(costs) / len(costs))


def judge(found: Mapping[str, Any]) -> Verdict:
    """Judge that four fifths bounded, then one fifth free, give the quality of free training for less.

    A seed shows it if its run that switches at 80% of the updates is at both lengths at most 0.01 less
    accurate than its run that is free only, and cost less. Reproduced if all seeds show it, not reproduced if
    none does; partly otherwise, and no more than partly if a run that is free only has less than 0.99 at the
    training length: to fail alike is no quality.

    Example:
        >>> judge(collect([])).word
        'not reproduced'
    """
    groups = found["curricula"]
    free = groups[FREE]["seeds"].values()
    learnt = sum(accuracy_at(run, LENGTHS[0]) >= curricula.SOLVED_ACCURACY for run in free)
    counts = {name: _as_good(found, name) for name in _switching(found)}
    shown, of = counts[PUBLISHED]
    because = (
        f"seeds in which it is within {TOLERANCE} of free only at {LENGTHS[0]} and {LENGTHS[1]} tokens, for "
        f"less: {shares(counts)}; free only has at least {curricula.SOLVED_ACCURACY} at {LENGTHS[0]} tokens "
        f"in {learnt} of {of}"
    )
    if groups[PUBLISHED]["seeds"] and groups[FREE]["seeds"]:
        because += (
            f"; cost at 80%: {_mean_cost(groups[PUBLISHED]) / _mean_cost(groups[FREE]):.2f} of free only"
        )
    if shown == 0:
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if shown == learnt == of else "partly", because)


def _as_good(found: Mapping[str, Any], name: str) -> tuple[int, int]:
    """In how many seeds a curriculum is as good as free only for less, and of how many; failed runs count."""
    switched, free = found["curricula"][name], found["curricula"][FREE]
    seeds = {str(seed) for group in (switched, free) for seed in (*group["seeds"], *group["failed"])}
    both = seeds & switched["seeds"].keys() & free["seeds"].keys()
    shown = sum(_as_good_for_less(switched["seeds"][seed], free["seeds"][seed]) for seed in both)
    return shown, len(seeds)


def _as_good_for_less(switched: dict[str, Any], free: dict[str, Any]) -> bool:
    return switched["cost"]["total"] < free["cost"]["total"] and all(
        accuracy_at(switched, length) >= accuracy_at(free, length) - TOLERANCE for length in LENGTHS
    )


FIGURE = PaperFigure(
    title="Bounded and free training",
    claim=Claim(
        "a bounded phase on most of the tokens and a short free one give the quality of free training at a "
        "lower cost",
        IMPLICIT_ARE_RNNS,
        judge,
    ),
    experiment=EXPERIMENT,
    collect=collect,
    draw=draw,
    caption=caption,
    full=FULL,
)
