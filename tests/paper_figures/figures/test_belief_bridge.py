"""The bridge: constructed filters against the log filter, what is collected, drawn and judged."""

import math
import re
from typing import Any

import numpy as np
import pytest

from analysis.belief.exact import exact_sequences
from analysis.framework.output import RunIdentity
from automata.tasks.partially_observed import PartiallyObserved
from automata.tasks.registry import registered_task
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import belief_bridge, hidden_swaps
from paper_figures.figures.belief_errors import SETTINGS as ERRORS
from paper_figures.figures.bridge_measured import BRIDGE, SETTINGS, filter_divergences
from paper_figures.stored_results import StoredResults

POINTS = belief_bridge.EXPERIMENT.points
IDENTITY = RunIdentity("run", "likely-swaps-3-reveals", "lstm", 10, 64, 0, "0" * 64)
ROUNDING = 1e-12  # of float64 logarithms of probabilities down to 1e-4


def places(*means: float | None) -> list[dict[str, Any]]:
    return [{"from": 2**n, "to": 2 ** (n + 1) - 1, "mean": mean} for n, mean in enumerate(means)]


def outcome(point: Point, *means: float | None, linear: float | None = 0.5) -> Outcome:
    implicit = point.config.model == "implicit-mamba2"
    theorem1 = {
        "verdict": "holds",
        "states": 16,
        "counts": {"holds": 16, "fails": 0, "inconclusive": 0},
        "spectral_radius": {"max": 0.5},
    }
    value = {
        "by_position": places(*means),
        "unconverged": 0.0 if implicit else None,
        "theorem1": theorem1 if implicit else None,
        "filters": {"linear float32": places(0.0, linear)} if implicit else {},
    }
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        BRIDGE.name: Record.done(point, BRIDGE, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


def of_model(model: str) -> list[Point]:
    return [point for point in POINTS if point.config.model == model]


def test_the_constructed_filters_are_exact_until_the_mass_is_gone() -> None:
    task = registered_task("likely-swaps-3-reveals")
    assert isinstance(task, PartiallyObserved)
    found = filter_divergences(task, exact_sequences(task, 4, 1600, seed=3, kept=[]))
    assert max(abs(place["mean"]) for place in found["implicit"]) < ROUNDING
    early = [place["mean"] for place in found["linear float32"] if place["to"] < 400]
    assert max(map(abs, early)) < 1e-10  # the square of float32's rounding, added up
    lost = found["linear float32"][-1]["mean"]
    assert not math.isfinite(lost) or lost > 0.1
    # bfloat16 has the range of float32 and 8 bits: farther off, and lost no later
    rough = [place["mean"] for place in found["linear bfloat16"] if place["to"] < 400]
    assert max(rough) > max(early)


@pytest.mark.parametrize(
    ("implicit", "linear", "word"),
    [
        ((0.02, 0.02, 0.02), 0.5, "reproduced"),
        ((0.02, 0.02, 0.02), None, "reproduced"),  # infinite
        ((0.02, 0.02, 0.05), 0.5, "partly"),  # one run loses the belief
        ((0.02, 0.02, 0.6), 0.5, "partly"),
        ((0.6, 0.6, 0.6), 0.5, "not reproduced"),
    ],
)
def test_verdicts(implicit: tuple[float, ...], linear: float | None, word: str) -> None:
    outcomes = [
        outcome(point, 0.02, last, linear=linear)
        for point, last in zip(of_model("implicit-mamba2"), implicit, strict=True)
    ]
    found = belief_bridge.collect(outcomes)
    found["trained_length"] = 2  # the first bin is that of training
    assert belief_bridge.judge(found).word == word


def test_places_without_reveals_are_left_out_and_failed_runs_told() -> None:
    (one, *_), (other, *_) = of_model("lstm"), of_model("implicit-mamba2")
    failed = {"training": Record.failed(other, None, ValueError("no luck"), None, 1.0)}
    found = belief_bridge.collect([outcome(one, None, 0.1), Outcome(other, failed, complete=True)])
    assert [place["mean"] for place in found["series"]["LSTM"]["seeds"]["0"]["by_position"]] == [0.1]
    assert found["series"]["implicit Mamba-2"]["failed"] == [0]
    assert belief_bridge.judge(found).word == "not reproduced"


def test_models_that_are_left_out_are_farther_as_the_caption_says() -> None:
    series = StoredResults.read("hidden_swaps").results["series"]
    mean = {name: np.mean(hidden_swaps.divergences(one, 512)) for name, one in series.items()}
    left_out = set(series) - set(belief_bridge.SHOWN)
    assert left_out == {"Mamba-2", "DeltaNet [0, 1]", "Transformer"}
    assert min(mean[name] for name in left_out) > max(mean[name] for name in belief_bridge.SHOWN)


def test_the_stored_results_hold_every_run_and_the_caption_their_numbers() -> None:
    stored = StoredResults.read("belief_bridge")
    series = stored.results["series"]
    assert {name: sorted(one["seeds"]) for name, one in series.items()} == {
        name: ["0", "1", "2"] for name in belief_bridge.SHOWN
    }
    text = belief_bridge.caption(dict(stored.results))
    assert f"{SETTINGS.sequences} fresh sequences of 2,048 tokens, data seed {SETTINGS.seed}" in text
    for run in series["implicit Mamba-2"]["seeds"].values():
        assert f"{run['theorem1']['counts']['holds']} of {SETTINGS.states} states" in text
        assert f"{run['unconverged']:.3f}" in text


def test_both_panels_show_every_run() -> None:
    stored = StoredResults.read("belief_bridge")
    figure = belief_bridge.FIGURE.picture(stored, 6.75)
    for axes in figure.axes:
        drawn = [np.asarray(line.get_ydata(), float).tolist() for line in axes.lines]
        for series in stored.results["series"].values():
            for run in series["seeds"].values():
                assert [place["mean"] for place in run["by_position"]] in drawn


def test_the_caption_tells_what_is_left_of_errors_in_every_run() -> None:
    stored = StoredResults.read("belief_bridge")
    text = belief_bridge.caption(dict(stored.results))
    for series in stored.results["series"].values():
        assert len(series["errors"]) == 3
        for run in series["errors"].values():
            early, late = (run["left"][str(after)][1] for after in ERRORS.follow)
            told = [f"{share:.2g}" if share >= 1e-7 else "less than 1e-07" for share in (early, late)]
            assert " and ".join(told) in text
    least = min(
        run["share_converged"]
        for series in stored.results["series"].values()
        for run in series["errors"].values()
    )
    (told,) = re.findall(r"a share of at least ([\d.]+) of the fixed points", text)
    assert least - 1e-4 < float(told) <= least
    assert "Errors in the state were not measured." in belief_bridge.caption(belief_bridge.collect([]))
