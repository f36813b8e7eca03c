"""When to switch from the bounded phase to the free one: quality against what the training cost."""

import numpy as np

from paper_figures import figure as pf
from paper_figures.measurements.bounded import BoundedSettings, measure_bounded, measure_cost
from paper_figures.measurements.lengths import accuracy_at

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
        accuracy_at(32, 512, sequences=256, keep=("accuracy", "share_converged")),
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
