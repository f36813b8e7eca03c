"""When to switch from the bounded phase to the free one: quality against what the training cost."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, PositiveInt

from analysis.framework.figures import new_figure
from analysis.framework.palette import GREY, MODEL_LOOKS
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.gradients import Unrolled
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS, evaluate
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import curricula
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict, shares
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.figures.intervals import interval_sentence
from paper_figures.figures.length_generalization import accuracy_at
from paper_figures.figures.training_cost import GRADIENT_WEIGHT, training_cost

LENGTHS = (32, 512)
"""The training length and a far longer one."""
UPDATES = 1500
BOUNDED_ITERATIONS = 4
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
AS_TRAINED = f"{BOUNDED},\n{BOUNDED_ITERATIONS} sweeps at test"
TOLERANCE = 0.01
"""By how much a run may be less accurate than another of the same quality."""


class BoundedSettings(CheckedConfig):
    """How accuracy is measured with so many self-iterations, no more and no less.

    Example:
        >>> BoundedSettings().iterations
        4
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    iterations: PositiveInt = Field(
        default=BOUNDED_ITERATIONS, description="sweeps over the sequence, from zero"
    )
    lengths: LengthSettings = Field(
        default=curricula.SETTINGS, description="lengths and sequences; their mode and tolerance are not read"
    )


def measure_bounded(run: Run, settings: BoundedSettings) -> dict[str, float]:
    """Measure accuracy by length with the self-iterations of the bounded phase, on the same sequences.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> small = BoundedSettings(iterations=32, lengths=LengthSettings(lengths=(4, 8), sequences=4))
        >>> measure_bounded(load_run("parity"), small)
        {'4': 1.0, '8': 1.0}
    """
    chosen = settings.lengths
    found = evaluate(
        run.model,
        run.task,
        max(chosen.lengths),
        sequences=chosen.sequences,
        batch_size=chosen.batch_size,
        seed=chosen.seed,
        solve=Solve(gradient=Unrolled(settings.iterations)),
        warn=False,  # they are not meant to converge
    )
    last = {length: slice(max(0, length - REPORTED_TOKENS), length) for length in chosen.lengths}
    return {str(length): float(found.correct[:, tokens].mean()) for length, tokens in last.items()}


def measure_cost(run: Run, settings: None) -> dict[str, float | None]:  # noqa: ARG001
    """Count what the training of a run cost.

    Example:
        >>> from implicit.runs.loading import load_run
        >>> measure_cost(load_run("parity"), None)["updates"]
        1500
    """
    return training_cost(run).numbers()


EXPERIMENT = Experiment(
    "bounded_and_free",
    tuple(
        Grid({"seed": range(3)}, {"task": "S3", "model": "implicit-mamba2", **different})
        for different in CURRICULA.values()
    ),
    (
        Measurement("accuracy", curricula.measure, curricula.SETTINGS),
        Measurement("bounded_accuracy", measure_bounded, BoundedSettings()),
        Measurement("training_cost", measure_cost),
    ),
)


def collect(outcomes: Sequence[Outcome]) -> Results:
    """Collect accuracy and cost of every run by curriculum.

    Example:
        >>> collect([])["curricula"]["free only"]
        {'seeds': {}, 'failed': []}
    """
    found: dict[str, Any] = {name: {"seeds": {}, "failed": []} for name in CURRICULA}
    for outcome in outcomes:
        group = found[curricula.variant_of(outcome.point.all_settings, CURRICULA)]
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
        axes.axvline(1 / 6, color=GREY, linewidth=0.9, linestyle=":")
        axes.set(xlabel=f"accuracy,\n{length} tokens", xlim=(-0.08, 1.08), xticks=(0, 0.5, 1))
    accuracies[0].set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    cost.set(xlabel="evaluations,\nmillions", xlim=(0, 1.1 * max(_costs(names.values()), default=1.0)))
    cost.locator_params(axis="x", nbins=4)
    return figure


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
    settings = found["settings"]
    return (
        "Accuracy of implicit Mamba-2 on S3 and what its training cost, a mark per run: mean over the last "
        f"{found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}), {settings['mode']} mode to a relative residual of {settings['rtol']:g}, at "
        f"most {settings['max_iterations']} self-iterations per token, which not all tokens reached (least "
        f"share in a run, {LENGTHS[-1]} tokens: {_converged(found)}); the second row: "
        f"{BOUNDED_ITERATIONS} sweeps over the sequence, as in bounded training. "
        f"{interval_sentence(settings['sequences'])} Dotted: chance. The first five curricula take "
        f"the same {UPDATES:,} updates on the same batches of 64, at lengths that grow by 4 every 125 "
        f"updates to 32. Bounded: {BOUNDED_ITERATIONS} self-iterations, all differentiated. "
        "Free: at most 24 to a tolerance of 0.05, then 4 phantom steps. No penalty, no state passing. They "
        "switch after that share of the updates, or "
        f"{_shares_of_tokens(found)} of the tokens: early sequences are short. By accuracy: the recipe of "
        "S3, which takes fewer updates, all of 32 tokens, and differs in loss, penalty, starts, rate, "
        "gradient and state passing, too. Cost: evaluations of the self-map at a token in training, "
        f"{GRADIENT_WEIGHT} for one with gradient; self-iterations were recorded every 50 updates (recipe: "
        "100) and are interpolated; what the recipe's exact gradient takes to solve its adjoint system is "
        f"not counted. Accuracy at {LENGTHS[-1]} tokens and mean cost: {_reached(found)}."
    )


def _converged(found: Mapping[str, Any]) -> str:
    """The least share of converged tokens among the runs of each curriculum, where it is below 1."""
    least = {
        name: min(run["share_converged"][str(LENGTHS[-1])] for run in group["seeds"].values())
        for name, group in found["curricula"].items()
        if group["seeds"]
    }
    below = [f"{name} {share:.2f}" for name, share in least.items() if share < 1]
    return ", ".join([*below, "all others 1" if below else "1"])


def _shares_of_tokens(found: Mapping[str, Any]) -> str:
    """The share of the tokens in the bounded phase, of the curricula that switch."""
    words = []
    for name, share in BOUNDED_SHARES.items():
        runs = list(found["curricula"][name]["seeds"].values())
        if runs and 0 < share < 1:
            words.append(f"{runs[0]['cost']['bounded_tokens'] / runs[0]['cost']['tokens']:.0%}")
    return ", ".join(words) or "unknown"


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
    counts = {name: _as_good(found, name) for name, share in BOUNDED_SHARES.items() if 0 < share < 1}
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
)
