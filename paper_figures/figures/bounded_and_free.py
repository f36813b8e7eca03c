"""When to switch from the bounded phase to the free one: quality against what the training cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from pydantic import ConfigDict, Field, PositiveInt

from analysis.framework.figures import new_panels
from analysis.framework.palette import GREY, Look
from analysis.length_generalization import LengthSettings
from implicit.checked_config import CheckedConfig
from implicit.gradients import Unrolled
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS, evaluate
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.figures import curricula
from paper_figures.figures.claim import IMPLICIT_ARE_RNNS, Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
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

BOUNDED, PUBLISHED, FREE, RECIPE = "bounded only", "switch at 80%", "free only", "recipe, by accuracy"
BOUNDED_SHARES = {BOUNDED: 1.0, PUBLISHED: 0.8, "switch at 50%": 0.5, "switch at 20%": 0.2, FREE: 0.0}
"""The share of the updates in the bounded phase, by what the curriculum is called in the figure."""
CURRICULA: dict[str, dict[str, Any]] = {
    **{name: {**COMMON, "bounded_steps": round(share * UPDATES)} for name, share in BOUNDED_SHARES.items()},
    RECIPE: {},
}
"""What differs from the recipe of S3."""
LOOKS = {
    BOUNDED: Look("#D55E00", "s"),
    PUBLISHED: Look("#0072B2", "o"),
    "switch at 50%": Look("#56B4E9", "^"),
    "switch at 20%": Look("#CC79A7", "v"),
    FREE: Look("#000000", "D"),
    RECIPE: Look("#009E73", "*"),
}
AS_TRAINED = f"{BOUNDED}, {BOUNDED_ITERATIONS} self-iterations at test"
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
        group = found[_curriculum(outcome.point.all_settings)]
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


def _curriculum(settings: Mapping[str, Any]) -> str:
    different = {name: value for name, value in settings.items() if name not in ("task", "model", "seed")}
    return next(name for name, chosen in CURRICULA.items() if chosen == different)


def draw(found: Results, width: float) -> Figure:
    """Draw a panel per length: accuracy against cost, a mark per run.

    Example:
        >>> from analysis.framework.figures import styled
        >>> with styled():
        ...     [axes.get_title() for axes in draw(collect([]), 6.75).axes]
        ['32 tokens (training length)', '512 tokens']
    """
    narrow = width < 5
    figure, panels = new_panels(width, len(LENGTHS), height=2.0 if narrow else 2.9, columns=2)
    for axes, length in zip(panels, LENGTHS, strict=True):
        axes.axhline(1 / 6, color=GREY, linewidth=0.9, linestyle=":", label="chance")
        for name, group in found["curricula"].items():
            look, runs = LOOKS[name], group["seeds"].values()
            cost = [run["cost"]["total"] / 1e6 for run in runs]
            shown: dict[str, Any] = {
                "linestyle": "",
                "marker": look.marker,
                "color": look.color,
                "alpha": 0.8,
            }
            size = 6.5 if look.marker == "*" else 4.5
            axes.plot(cost, [accuracy_at(run, length) for run in runs], markersize=size, label=name, **shown)
            if name == BOUNDED:
                limited = [run["bounded_accuracy"][str(length)] for run in runs]
                axes.plot(cost, limited, markersize=size, markerfacecolor="none", label=AS_TRAINED, **shown)
        axes.set(
            title=f"{length} tokens" + " (training length)" * (length == LENGTHS[0]),
            xlim=(0, None),
            ylim=(-0.04, 1.06),
        )
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel(f"accuracy (last {found['reported_tokens']} tokens)")
    for axes in panels[-1:] if narrow else panels:
        axes.set_xlabel("evaluations of the self-map in training (millions)")
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=2 if narrow else 4
    )
    return figure


def caption(found: Results) -> str:
    """Tell what is drawn, what the curricula are, what is counted, and what each cost and reached.

    Example:
        >>> print(caption(collect([])))
        Accuracy of implicit Mamba-2 on S3 against what its training cost, a mark per run: ...
    """
    settings = found["settings"]
    return (
        "Accuracy of implicit Mamba-2 on S3 against what its training cost, a mark per run: mean over the "
        f"last {found['reported_tokens']} tokens of {settings['sequences']} fresh sequences (data seed "
        f"{settings['seed']}), {settings['mode']} mode to a relative residual of {settings['rtol']:g}, at "
        f"most {settings['max_iterations']} self-iterations per token; hollow: {BOUNDED_ITERATIONS} sweeps "
        "over the sequence, as in bounded training. Dotted: chance. The first five take the same "
        f"{UPDATES:,} updates on the same batches of 64, at lengths that grow by 4 every 125 updates to 32; "
        f"bounded: {BOUNDED_ITERATIONS} self-iterations, all differentiated; free: at most 24 to a tolerance "
        "of 0.05, then 4 phantom steps; neither penalties nor state passing. The switch comes after "
        f"that share of the updates ({_shares_of_tokens(found)} of the tokens: early sequences are short). "
        "The recipe ends by its own accuracy after fewer updates, all of 32 tokens, and has another loss, "
        "penalty, rate and gradient: it is no curriculum among equals. Cost: evaluations at one token, "
        f"{GRADIENT_WEIGHT} for one with gradient; self-iterations were recorded every 50 updates (recipe: "
        "100) and are interpolated; what the recipe's exact gradient solves is not counted. Per curriculum, "
        f"accuracy at {LENGTHS[-1]} tokens and mean cost: {_reached(found)}."
    )


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
    switched, free = found["curricula"][PUBLISHED], found["curricula"][FREE]
    seeds = sorted(
        {*switched["seeds"], *map(str, switched["failed"]), *free["seeds"], *map(str, free["failed"])}
    )
    pairs = [
        (switched["seeds"][seed], free["seeds"][seed])
        for seed in seeds
        if seed in switched["seeds"] and seed in free["seeds"]
    ]
    shown = sum(_as_good_for_less(one, other) for one, other in pairs)
    learnt = sum(accuracy_at(run, LENGTHS[0]) >= curricula.SOLVED_ACCURACY for run in free["seeds"].values())
    because = (
        f"the switch at 80% is within {TOLERANCE} of free only at {LENGTHS[0]} and {LENGTHS[1]} tokens, for "
        f"less, in {shown} of {len(seeds)} seeds; free only has at least {curricula.SOLVED_ACCURACY} at "
        f"{LENGTHS[0]} tokens in {learnt}"
    )
    if pairs:
        ratio = sum(one["cost"]["total"] for one, _ in pairs) / sum(one["cost"]["total"] for _, one in pairs)
        because += f"; cost {ratio:.2f} of free only"
    if shown == 0:
        return Verdict("not reproduced", because)
    return Verdict("reproduced" if shown == learnt == len(seeds) else "partly", because)


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
