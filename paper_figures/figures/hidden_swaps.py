"""Swaps that may fail unseen: who holds the belief, against length and against the frequency of reveals?"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from paper_figures import families
from paper_figures import figure as pf
from paper_figures.measurements.beliefs import HiddenSettings, belief

TRAINED_LENGTH = 64
TASK = "likely-swaps-3-reveals"  # a swap happens nine times in ten; one event in four is a reveal
TRAINING = {
    "task": TASK,
    "d_model": 64,
    "length": TRAINED_LENGTH,
    "batch_size": 64,
    "steps": 1200,
    "start_length": 8,
    "length_growth": 8,
    "length_growth_every": 100,
    "learning_rate": 3e-3,
    "gradient_clip": 1.0,
    "carried_share": 0.0,
    "bounded_steps": 0,
    "bounded_length": 8,
    "bounded_iterations": 8,
    "free_max_iterations": 40,
    "free_rtol": 0.01,
    "free_gradient": "implicit",
    "contraction_weight": 0.003,
    "evaluation_rtol": 0.01,
    "evaluation_max_iterations": 100,
    "evaluation_sequences": 64,
    "evaluate_every": 200,
}
GRIDS = families.seeds_of(
    families.REFLECTING_DELTANET,
    families.GATED_DELTANET,
    families.MAMBA2,
    families.LSTM,
    {"model": "implicit-mamba2", "layers": 1, "gradient_clip": 0.25},
    families.PLAIN_DELTANET,
    families.GATED_DELTAPRODUCT,
    families.TRANSFORMER,
    **TRAINING,
)
NOT_LINEAR = ("LSTM", "implicit Mamba-2", "Transformer")
"""Models whose layers are not each affine in their own state before, given what the layer reads."""
RIVALS = NOT_LINEAR[:2]  # the RNNs; the verdict leaves the Transformer out


def _nats(estimate: Mapping[str, Any]) -> float:
    """Return a mean; JSON has None for what is not finite."""
    return math.inf if estimate["mean"] is None else float(estimate["mean"])


def _by_length(run: pf.MeasuredRun) -> dict[int, float]:
    return {int(length): _nats(found["kl"]) for length, found in run.values["by_length"].items()}


def _by_reveals(run: pf.MeasuredRun) -> dict[float, float]:
    return {float(share): _nats(found) for share, found in run.values["by_reveal_probability"].items()}


def _decoded(run: pf.MeasuredRun) -> dict[int, float] | None:
    found = run.values["belief"]
    return {int(length): part["distance"]["mean"] for length, part in found.items()} if found else None


def _norm(run: pf.MeasuredRun) -> tuple[list[int], list[float]] | None:
    norms = run.values["norms"]
    return (norms[-1]["tokens"], norms[-1]["median"]) if norms else None


def _span(values: list[float]) -> str:
    return f"{min(values):.4f} to {max(values):.4f}"


def _judge(rows: pf.Rows) -> pf.Verdict:
    """Compare at 512 tokens the linear model that is best at the training length with the non-linear RNNs.

    Reproduced if each of its runs is farther from the posterior than every run of both; not reproduced if its
    mean is below both of theirs; partly otherwise.
    """

    def at(row: pf.Row, length: int) -> list[float]:
        return [_by_length(run)[length] for run in row.runs]

    linear = [row for row in rows if row.label not in NOT_LINEAR]
    best = min(linear, key=lambda row: float(np.mean(at(row, TRAINED_LENGTH))))
    rivals = [at(row, 512) for row in rows if row.label in RIVALS]
    because = (
        f"KL at 512 tokens, in nats: {best.label}, the best linear model at the training length, "
        f"{_span(at(best, 512))}; "
        + ", ".join(f"{row.label} {_span(at(row, 512))}" for row in rows if row is not best)
    )
    worse = all(min(at(best, 512)) > max(runs) for runs in rivals)
    return pf.graded(worse, not all(np.mean(at(best, 512)) < np.mean(runs) for runs in rivals), because)


SETTINGS = HiddenSettings(sequences=128, probe_sequences=256, mode="sequential")
LENGTHS: dict[str, Any] = {"trained": (TRAINED_LENGTH,), "equal": True, "ylim": None}
FIGURE = pf.Figure(
    title="Who holds the belief about hidden swaps",
    section="Sessions and beliefs",
    claim=pf.Claim(
        "where actions may fail unseen, linear RNNs can hold the belief worse than non-linear ones",
        pf.CODE_AND_LINEAR_RNNS,
        _judge,
    ),
    runs=GRIDS,
    measure=(pf.Measurement("belief", belief, SETTINGS),),
    label=families.family,
    looks=families.look,
    panels=[
        pf.Lines(_by_length, ylabel="KL (nats)", title="prediction, by length", yscale="log", **LENGTHS),
        pf.Lines(
            _by_reveals,
            xlabel="share of reveals",
            ylabel="KL (nats)",
            title="prediction, by reveals",
            trained=(1 / 4,),
            xscale="log",
            xticks=((1 / 32, 1 / 8, 1 / 2), ("1/32", "1/8", "1/2")),
            yscale="log",
            ylim=None,
            equal=True,
        ),
        pf.Lines(_decoded, ylabel="total variation", title="belief decoded", **{**LENGTHS, "ylim": (0, 1)}),
        pf.Lines(
            _norm, xlabel="position (tokens)", ylabel="norm of the state", title="state, last layer",
            yscale="log", xticks=((1, 8, 64, 512), ("1", "8", "64", "512")), markers=False, **LENGTHS,
        ),
    ],
    layout=pf.Layout(columns=(2, 2), height=(4.6, 6.0), share=("none", "none"), legend=(4, 2)),
)  # fmt: skip
