"""Exact and phantom gradients: how far off they are between tokens, runs counted, drawn, and stored."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.framework.needs import as_implicit
from analysis.framework.output import RunIdentity
from implicit.fixed_point import Solution, Stopping
from implicit.gradients.factored import FactoredImplicit
from implicit.models.implicit_model import ImplicitModel
from implicit.modes import Solve, Windowed
from implicit.runs.loading import Run, load_run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import gradients as figure
from paper_figures.figures import s5_length_generalization
from paper_figures.figures.figure import Results
from paper_figures.stored_results import StoredResults
from theory.status import Status

POINTS = figure.EXPERIMENT.points
IDENTITY = RunIdentity("run", "S5-generators", "implicit-mamba2", 10, 40, 0, "0" * 64)
REACH = figure.ReachSettings(steps=(1, 2, 200), sequences=2, length=5, seed=3)


def outcome(point: Point, accuracy: float) -> Outcome:
    accuracies, reach = figure.EXPERIMENT.measurements
    value = {
        "accuracy": {
            str(length): 1.0 if length <= 40 else accuracy for length in (32, 40, 64, 128, 256, 512, 1024)
        },
        "share_converged": {},
        "updates": 1000 + point.seed,
    }
    apart = {str(steps): [1.0 / steps] * 24 for steps in figure.REACH.steps}
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "accuracy": Record.done(point, accuracies, IDENTITY, value, 2.0),
        "gradient_reach": Record.done(point, reach, IDENTITY, {"norm": [1.0] * 24, "distance": apart}, 2.0),
    }
    return Outcome(point, records, complete=True)


def failed(point: Point) -> Outcome:
    record = Record.failed(point, None, ValueError("no luck"), None, 1.0)
    return Outcome(point, {"training": record}, complete=True)


@pytest.fixture
def found() -> Results:
    """Exact: two runs of three keep their state, one failed. Phantom: one of three."""
    return figure.collect(
        [
            outcome(POINTS[0], 1.0),
            outcome(POINTS[1], 0.99),
            failed(POINTS[2]),
            outcome(POINTS[3], 0.989),
            outcome(POINTS[4], 0.5),
            outcome(POINTS[5], 0.99),
        ]
    )


def test_the_two_rules_differ_in_nothing_else() -> None:
    configs = [point.config.as_json() for point in POINTS]
    for exact, phantom in zip(configs[:3], configs[3:], strict=True):
        assert exact["curriculum"].pop("free_gradient") == "implicit"
        assert phantom["curriculum"].pop("free_gradient") == "phantom"
        assert exact == phantom
        assert exact["curriculum"]["phantom_steps"] == 4
        assert exact["curriculum"]["carried_share"] == 0
    assert [config["seed"] for config in configs] == [0, 1, 2] * 2


FULL = figure.FULL.points


def test_at_full_size_too_and_phantom_runs_are_those_of_the_length_generalization() -> None:
    configs = [point.config for point in FULL]
    for exact, phantom in zip(configs[:3], configs[3:], strict=True):
        assert exact.curriculum.free_gradient == "implicit"
        assert exact.updated(free_gradient="phantom") == phantom
        assert (phantom.curriculum.phantom_steps, phantom.curriculum.bounded_steps) == (4, 4005)
    others = {point.identifier for point in s5_length_generalization.FULL.points}
    assert [point.identifier in others for point in FULL] == [False] * 3 + [True] * 3


def test_at_full_size_the_caption_and_the_audit_are_of_those_runs() -> None:
    found = figure.collect([outcome(point, 1.0) for point in FULL])
    assert (found["training_length"], found["shortcuts"]["length"]) == (32, 32)
    assert found["shortcuts"]["majority"] == pytest.approx(1 / 120, rel=1e-6)  # uniform, to rounding
    text = figure.caption(found)
    assert "to a relative tolerance of 0.01, in training 0.05; dotted" in text
    assert "All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 " in text
    assert (
        "at most 32 to a relative tolerance of 0.05 and the exact gradient or 4 phantom steps. No p" in text
    )
    assert all(word not in text for word in ("recipe", "0.87", "benchmark", "lengths grow", "40 tokens"))
    assert figure.judge(found).word == "reproduced"


def test_accuracy_is_drawn_from_the_length_of_training_on() -> None:
    """At both sizes; that of the small runs is 40, of the full ones 32."""
    for points, lengths in ((POINTS, (40, 64)), (FULL, (32, 64))):
        assert {point.config.length for point in points} == {lengths[0]}
        with styled():
            accuracy = figure.draw(figure.collect([outcome(points[0], 0.5)]), 6.75).axes[0]
        (line,) = (line for line in accuracy.get_lines() if len(np.asarray(line.get_ydata())) > 2)
        assert np.asarray(line.get_xdata()).tolist() == [*lengths, 128, 256, 512, 1024]
        assert np.asarray(line.get_ydata()).tolist() == [1.0] + [0.5] * 5
        assert [tick.get_text() for tick in accuracy.get_xticklabels()][:2] == [*map(str, lengths)]


@pytest.fixture(scope="module")
def parity() -> Run:
    return load_run("parity")


def test_the_exact_derivative_is_that_of_differences(parity: Run) -> None:
    """Against central differences of the fixed points themselves, found anew in float64.

    A step of 1e-5 errs by 1e-10 of the third derivative, and by the tolerance of the fixed points, 1e-12,
    over the step: 1e-7 and less; 1e-5 is left for their condition.
    """
    model = as_implicit(parity).double()
    tokens = draw_batch(parity.task, 2, 4, 0, Stream.TEST)[0]
    solve = Solve(Windowed(block=None), stopping=Stopping(rtol=1e-12, max_iterations=4000))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        solution = model.fixed_points(tokens, solve=solve)
        direction = torch.randn(solution.value.shape[-1], generator=generator, dtype=torch.float64)
    exact = figure._derivative(model, tokens, solution, FactoredImplicit(), direction)
    shift = torch.randn(exact.shape, generator=generator, dtype=torch.float64)

    def last(step: float) -> float:
        hook = model.get_submodule("embedding").register_forward_hook(lambda m, i, out: out + step * shift)
        try:
            with torch.no_grad():
                return float((model.fixed_points(tokens, solve=solve).value[:, -1] @ direction).sum())
        finally:
            hook.remove()

    difference = (last(1e-5) - last(-1e-5)) / 2e-5
    assert float((exact * shift).sum()) == pytest.approx(difference, rel=1e-5)


def test_many_steps_are_exact_and_few_are_not(parity: Run) -> None:
    found = figure.measure_reach(parity, REACH)
    assert set(found["distance"]) == {"1", "2", "200"}
    assert [len(apart) for apart in found["distance"].values()] == [5] * 3
    assert max(found["distance"]["200"]) < 1e-6
    assert np.all(np.array(found["distance"]["1"]) > np.array(found["distance"]["2"]))
    assert np.all(np.array(found["norm"]) > 0)
    assert found["share_converged"] == 1.0


def test_where_fixed_points_are_not_reached_no_distance_is_told(
    parity: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing = figure.measure_reach(parity, REACH.model_copy(update={"max_iterations": 3}))
    assert nothing == {"share_converged": 0.0, "norm": [], "distance": {}}
    solve = ImplicitModel.fixed_points

    def all_but_one(*arguments: Any, **options: Any) -> Solution:
        solution = solve(*arguments, **options)
        status = solution.status.clone()
        status[1, 4] = int(Status.MAX_ITERATIONS)
        return replace(solution, status=status)

    monkeypatch.setattr(ImplicitModel, "fixed_points", all_but_one)
    # one of two sequences of five tokens
    assert figure.measure_reach(parity, REACH) == {"share_converged": 0.9, "norm": [], "distance": {}}


UNREACHED = {"share_converged": 0.974, "norm": [], "distance": {}}


def unreached(point: Point, accuracy: float) -> Outcome:
    """A run that ended, without a distance between gradients."""
    one = outcome(point, accuracy)
    record = Record.done(point, figure.EXPERIMENT.measurements[1], IDENTITY, UNREACHED, 2.0)
    return Outcome(point, {**one.records, "gradient_reach": record}, complete=True)


def test_a_run_without_a_distance_counts_and_has_no_line() -> None:
    outcomes = [outcome(POINTS[0], 1.0), *(unreached(point, 1.0) for point in POINTS[1:5]), failed(POINTS[5])]
    assert [one.failure for one in outcomes[:5]] == [None] * 5
    found = figure.collect(outcomes)
    assert figure.judge(found).because.endswith("exact gradient 3 of 3, 4 phantom steps 2 of 3")
    assert (
        "a line per run and number of steps, 1 of 6 runs (share of the tokens that reach their fixed points "
        "to 1e-09 in 4,000 self-iterations in the others that were trained: 0.974, 0.974, 0.974, 0.974): how"
    ) in figure.caption(found)
    with styled():
        _, reach = figure.draw(found, 6.75).axes
    assert len(reach.get_lines()) == len(figure.REACH.steps)


def test_results_from_before_the_share_was_told_are_drawn_as_they_were(found: Results) -> None:
    assert "a line per run and number of steps, 5 of 6 runs: how far the phantom" in figure.caption(found)


@pytest.mark.parametrize(
    ("outcomes", "named", "said"),
    [
        ([failed(point) for point in POINTS], 0, "no run ended well"),
        ([unreached(point, 1.0) for point in POINTS], 2, "no run reached all fixed points"),
    ],
)
def test_panels_without_lines_say_so(outcomes: list[Outcome], named: int, said: str) -> None:
    with styled():
        panels = figure.draw(figure.collect(outcomes), 3.3).axes
    legend = panels[0].get_legend()
    assert (0 if legend is None else len(legend.get_texts())) == named
    assert panels[1].get_legend() is None
    assert [text.get_text() for text in panels[1].texts] == [said]


def test_runs_are_counted_with_those_that_failed(found: Results) -> None:
    counts = {rule: (group["solved"], group["of"]) for rule, group in found["rules"].items()}
    assert counts == {"implicit": (2, 3), "phantom": (1, 3)}
    assert figure.judge(found).word == "partly"
    assert "exact gradient 2 of 3, 4 phantom steps 1 of 3" in figure.judge(found).because


def test_the_verdict_is_that_of_phantom_gradients() -> None:
    exact, phantom = POINTS[:3], POINTS[3:]
    wrong = [outcome(point, 0.98) for point in phantom]
    right = [outcome(point, 0.99) for point in phantom]
    best = [outcome(point, 1.0) for point in exact]
    assert figure.judge(figure.collect([*best, *wrong])).word == "not reproduced"
    assert figure.judge(figure.collect([*best, *right])).word == "reproduced"
    assert figure.judge(figure.collect([*best, *right[:2], failed(phantom[2])])).word == "partly"


def test_the_caption_tells_the_updates_of_every_run(found: Results) -> None:
    assert "(exact gradient 1000, 1001; 4 phantom steps 1000, 1001, 1002)" in figure.caption(found)


def test_the_caption_tells_the_times_that_the_benchmark_has_stored(found: Results) -> None:
    """Plain JSON: medians of updates by kernels, every length and run."""
    path = Path(__file__).parents[3] / "benchmarks" / "results" / "training_step.json"
    ratios = {}
    for run in json.loads(path.read_text())["runs"]:
        for case in run["cases"]:
            assert case["parameters"]["run"] == "s5-generators"
            times = {
                rule: case["contenders"][f"kernels, {rule}"]["median_seconds"]
                for rule in ("exact", "phantom")
            }
            ratios[run["date"], case["parameters"]["length"]] = times["exact"] / times["phantom"]
    lengths = [length for _, length in ratios]
    assert (
        f"an update with the exact gradient takes {min(ratios.values()):.2f} to {max(ratios.values()):.2f} "
        f"of the time of one with phantom steps ({min(lengths)} to {max(lengths)} tokens, benchmark"
    ) in figure.caption(found)


@pytest.mark.parametrize("width", [3.3, 6.75])
def test_every_run_has_its_lines(found: Results, width: float) -> None:
    with styled():
        accuracy, reach = figure.draw(found, width).axes
    colors = [line.get_color() for line in accuracy.get_lines()]
    assert colors.count(figure.RULES["implicit"][1].color) >= 2
    drawn = [line for line in reach.get_lines() if len(np.asarray(line.get_ydata())) == 24]
    assert len(drawn) == 5 * len(figure.REACH.steps)
    legend = reach.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["1 step", "4 steps", "16 steps", "64 steps"]


def test_the_stored_verdict_follows_from_the_stored_runs() -> None:
    stored = StoredResults.read("gradients")
    for group in stored.results["rules"].values():
        at = [run["accuracy"]["256"] for run in group["seeds"].values()]
        assert group["solved"] == sum(accuracy >= 0.99 for accuracy in at)
        assert len(at) + len(group["failed"]) == group["of"] == 3
