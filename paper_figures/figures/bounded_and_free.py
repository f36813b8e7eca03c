"""When to switch from the bounded phase to the free one: quality against what the training cost.

The cost of a training is counted in evaluations of the self-map, whatever else ran on the machine: from the
curriculum and from the self-iterations in the metrics, which hold some of the updates; between these they are
taken to change linearly. Evaluations with gradient are those that are differentiated: the unrolled
self-iterations of the bounded phase, the phantom steps of the free one or the one evaluation that the
implicit gradient starts from, and two for the contraction penalty. Not counted: the adjoint system of the
implicit gradient, the evaluation per token that the state after it takes in every phase, validation.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from analysis.length_generalization import LengthSettings
from automata.errors import InputError
from implicit.checked_config import CheckedConfig
from implicit.config.curriculum import Phase
from implicit.gradients import Phantom, Unrolled
from implicit.modes import Solve
from implicit.runs.folder import Metrics
from implicit.runs.loading import Run
from implicit.training.evaluation import REPORTED_TOKENS, evaluate
from paper_figures import figure as pf

GRADIENT_WEIGHT = 3
"""The weight of an evaluation with gradient: itself, and a backward pass of twice as many products."""


def training_cost(run: Run) -> dict[str, Any]:
    """Count the evaluations of the self-map in the training of an implicit model.

    InputError for a run whose lengths followed its accuracy, which are not recorded at every step, or one
    with penalties that solve for fixed points themselves.

    Returns:
        ``updates`` of the weights and ``tokens`` over all updates and sequences, also those of the bounded
        phase; ``without_gradient`` and ``with_gradient``, the evaluations at a token that were not, and that
        were, differentiated; ``mean_iterations`` of the search in the free phase, per token, None without
        one; the ``total`` of all evaluations, those with gradient counted `GRADIENT_WEIGHT` times.
    """
    config, curriculum = run.config, run.config.curriculum
    if curriculum.growth_accuracy is not None and curriculum.start_length is not None:
        raise InputError("growth_accuracy is set; give a run whose lengths follow the number of the step")
    for name, penalty in curriculum.penalties().items():
        if penalty.evaluations is None:
            raise InputError(f"{name}_weight is set, which solves for fixed points; give a run without it")
    updates = run.metrics[-1]["step"]
    phases = [curriculum.phase(step, config.length) for step in range(1, updates + 1)]
    tokens = np.array([config.batch_size * phase.length for phase in phases])
    bounded = np.array([phase.name == "bounded" for phase in phases])
    sought = np.where(bounded, 1.0, _sought(run, updates))  # one measures the residual of an unrolled iterate
    with_gradient = np.array([_with_gradient(phase) for phase in phases])
    free = int(tokens[~bounded].sum())
    without, differentiated = float((tokens * sought).sum()), int((tokens * with_gradient).sum())
    return {
        "updates": updates,
        "bounded_updates": int(bounded.sum()),
        "tokens": int(tokens.sum()),
        "bounded_tokens": int(tokens[bounded].sum()),
        "without_gradient": without,
        "with_gradient": differentiated,
        "mean_iterations": float((tokens * sought)[~bounded].sum()) / free if free else None,
        "total": without + GRADIENT_WEIGHT * differentiated,
    }


def _sought(run: Run, updates: int) -> NDArray[np.float64]:
    """Self-iterations per token of every update, as if it were free, without gradient."""
    free = [entry for entry in run.metrics if entry["phase"] == "free"]
    if not free:
        return np.zeros(updates)
    steps, found = np.arange(1, updates + 1), [entry["step"] for entry in free]
    each = np.interp(steps, found, [entry["mean_iterations"] for entry in free])
    if run.config.curriculum.random_starts > 0:
        # Latents of other tokens are starts: all were first sought from zero, which validation does as well.
        each += np.interp(steps, found, [_from_zero(run, entry) for entry in free])
    return each


def _from_zero(run: Run, entry: Metrics) -> float:
    """Self-iterations from zero when a step was recorded: those of validation, if to the same tolerance."""
    config = run.config
    if config.evaluation.rtol != config.curriculum.free_rtol:
        raise InputError(
            f"evaluation_rtol is {config.evaluation.rtol}; give a run with that of training, "
            f"{config.curriculum.free_rtol}"
        )
    return float(entry["validation"][str(config.length)]["mean_iterations"])


def _with_gradient(phase: Phase) -> int:
    if isinstance(phase.gradient, Unrolled):
        return phase.gradient.iterations
    steps = phase.gradient.steps if isinstance(phase.gradient, Phantom) else 1
    return steps + sum(penalty.evaluations or 0 for penalty in phase.penalties.values())


BOUNDED_ITERATIONS = 4  # Self-iterations of the bounded phase, in small runs and at the size of the paper


class BoundedSettings(CheckedConfig):
    """How accuracy is measured with so many self-iterations, no more and no less."""

    iterations: PositiveInt = BOUNDED_ITERATIONS  # sweeps over the sequence, from zero
    # lengths and sequences; their mode and tolerance are not read
    lengths: LengthSettings = LengthSettings(lengths=(32, 512), sequences=256, mode="sequential", seed=0)


def measure_bounded(run: Run, settings: BoundedSettings) -> dict[str, dict[str, float]]:
    """Measure accuracy by length with the self-iterations of the bounded phase, on the same sequences."""
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
    by_length = {str(length): float(found.correct[:, tokens].mean()) for length, tokens in last.items()}
    return {"bounded_accuracy": by_length}


def measure_cost(run: Run, settings: None) -> dict[str, dict[str, Any]]:  # noqa: ARG001
    """Count what the training of a run cost."""
    return {"cost": training_cost(run)}


UPDATES = 1500
COMMON = {
    "growth_accuracy": None,
    "start_length": 4,
    "length_growth_every": 125,
    "steps": UPDATES,
    "bounded_length": 0,
    "bounded_iterations": 4,
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
PUBLISHED, FREE = "switch at 80%", "free only"
SHARES = {"bounded only": 1.0, PUBLISHED: 0.8, "switch at 50%": 0.5, "switch at 20%": 0.2, FREE: 0.0}
"""The share of the updates in the bounded phase."""


def _as_good_for_less(switched: pf.MeasuredRun, free: pf.MeasuredRun) -> bool:
    """Return whether a run cost less and is at most 0.01 less accurate at both lengths."""
    return switched.at("cost@total") < free.at("cost@total") and all(
        switched.at(f"accuracy@{length}") >= free.at(f"accuracy@{length}") - 0.01 for length in (32, 512)
    )


def _by_seed(row: pf.Row) -> dict[int, pf.MeasuredRun]:
    return {run.settings["seed"]: run for run in row.runs}


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Count the seeds in which switching at 80% is as good as free training, for less.

    Partly at best where free training itself has less than 0.99 at the training length: to fail alike is no
    quality.
    """
    named = {row.label: row for row in rows}
    free = _by_seed(named[FREE])
    shown = {}
    for name in (name for name, share in SHARES.items() if 0 < share < 1):
        found = _by_seed(named[name]).items()
        good = sum(seed in free and _as_good_for_less(run, free[seed]) for seed, run in found)
        shown[name] = good, named[name].of
    learnt = named[FREE].reaching("accuracy@32", 0.99)
    cost = {name: float(np.mean(named[name].each("cost@total"))) for name in (PUBLISHED, FREE)}
    because = (
        f"seeds in which it is within 0.01 of free only at 32 and 512 tokens, for less: {pf.counts(shown)}; "
        f"free only has at least 0.99 at 32 tokens in {learnt} of {named[FREE].of}; cost at 80%: "
        f"{cost[PUBLISHED] / cost[FREE]:.2f} of free only"
    )
    return pf.verdict(*shown[PUBLISHED], because, also=learnt == named[FREE].of)


FIGURE = pf.Figure(
    title="Bounded and free training",
    section="Training",
    claim=pf.Claim(
        "a bounded phase on most of the tokens and a short free one give the quality of free training at a "
        "lower cost",
        pf.IMPLICIT_ARE_RNNS,
        _judge,
    ),
    runs=pf.Variants(
        {"task": "S3", "model": "implicit-mamba2"},
        {
            **{name: {**COMMON, "bounded_steps": round(share * UPDATES)} for name, share in SHARES.items()},
            "recipe": {},
        },
    ),
    measure=(
        pf.accuracy_at(32, 512, sequences=256, keep=("accuracy", "share_converged")),
        pf.Measurement("bounded_accuracy", measure_bounded, BoundedSettings()),
        pf.Measurement("training_cost", measure_cost),
    ),
    panels=[
        *(
            pf.Marks(value, f"accuracy,\n{what}", chance=(1 / 6,), xlim=(-0.08, 1.08), ticks=(0, 1))
            for value, what in (
                ("accuracy@32", "32"),
                ("bounded_accuracy@32", "32, 4 sweeps"),
                ("accuracy@512", "512"),
            )
        ),
        pf.Marks(lambda run: run.at("cost@total") / 1e6, "evaluations,\nmillions"),
    ],
    layout=pf.Layout(columns=(4, 4), height=(2.5, 2.5)),
)
