"""Few hard tokens: which are hard, that budgets reach the tokens they are meant for, drawing and verdict."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.output import RunIdentity
from analysis.framework.visited_states import sample_sequences
from automata.errors import InputError
from implicit import Solve, Stopping, load_run
from implicit.runs.loading import Run
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import few_hard_tokens, s5_length_generalization
from paper_figures.figures.few_hard_tokens import HardTokenSettings
from paper_figures.stored_results import StoredResults

POINTS = few_hard_tokens.EXPERIMENT.points
SHARES = few_hard_tokens.SETTINGS.shares
IDENTITY = RunIdentity("run", "S5-generators", "implicit-mamba2", 10, 32, 0, "0" * 64)
SMALL = HardTokenSettings(budgets=(2, 5), shares=(0.0, 0.5, 1.0), length=12, sequences=8, full_budget=50)


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("s3-recipe")


def test_runs_are_those_of_the_figure_of_length() -> None:
    others = {point.identifier for point in s5_length_generalization.EXPERIMENT.points}
    assert len(POINTS) == 3
    assert {point.identifier for point in POINTS} <= others


def test_with_one_budget_everywhere_it_is_the_sequential_mode_with_that_limit(run: Run) -> None:
    """Token after token, with states cut and joined, against one call over whole sequences."""
    found = few_hard_tokens.measure(run, SMALL)
    tokens, labels = sample_sequences(word_problem_of(run), 16, 12, 0)
    for budget, place in ((2, 0), (5, 0), (50, 2)):
        solve = Solve("sequential", stopping=Stopping(rtol=SMALL.rtol, max_iterations=budget))
        with torch.no_grad():
            output = run.model.run(tokens[8:], solve=solve)
        right = (output.logits.argmax(dim=-1) == labels[8:])[:, -10:]
        assert output.solution is not None
        for order in ("hardest", "random"):
            point = found[order]["2" if budget != 5 else "5"][place]
            assert point["accuracy"] == right.double().mean().item()
            assert point["iterations"] == pytest.approx(output.solution.iterations.double().mean().item())
            assert point["share_converged"] == output.solution.converged.double().mean().item()


def test_more_hard_pairs_are_more_hard_tokens(run: Run) -> None:
    for order in few_hard_tokens.measure(run, SMALL).values():
        for points in order.values():
            assert [point["hard_tokens"] for point in points][::2] == [0.0, 1.0]
            assert 0 < points[1]["hard_tokens"] < 1
            assert points[0]["iterations"] < points[1]["iterations"] <= points[2]["iterations"]


def test_hardness_is_the_mean_over_the_occurrences_of_a_pair(run: Run) -> None:
    tokens, _ = sample_sequences(word_problem_of(run), 8, 12, 0)
    pairs = torch.arange(96).reshape(8, 12) % 5
    model = as_implicit(run)
    means = few_hard_tokens.mean_iterations(model, tokens, pairs, 7, SMALL)
    solve = Solve("sequential", stopping=Stopping(rtol=SMALL.rtol, max_iterations=50))
    with torch.no_grad():
        solution = model.run(tokens, solve=solve).solution
    assert solution is not None
    for pair in range(5):
        assert means[pair] == pytest.approx(solution.iterations[pairs == pair].double().mean().item())
    assert means[5:].tolist() == [0, 0]


def test_a_task_that_does_not_ask_for_the_state_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    task = word_problem_of(run)
    monkeypatch.setattr(type(task), "output_size", property(lambda self: 2))
    with pytest.raises(InputError, match="does not ask for its state"):
        few_hard_tokens.measure(run, SMALL)


def points(accuracies: Sequence[float]) -> list[dict[str, float]]:
    return [
        {"accuracy": accuracy, "hard_tokens": share, "iterations": 6 + share, "share_converged": 1.0}
        for accuracy, share in zip(accuracies, SHARES, strict=True)
    ]


STEEP, SLOW, FLAT = [0.5, 0.9, 1.0, 1.0, 1.0, 1.0], [0.5, 0.5, 0.6, 0.7, 0.8, 1.0], [1.0] * 6


def outcome(point: Point, hardest: Sequence[float], random: Sequence[float]) -> Outcome:
    value: dict[str, Any] = {
        "hardest": {"4": points(FLAT), "6": points(hardest), "8": points(FLAT)},
        "random": {"4": points(FLAT), "6": points(random), "8": points(FLAT)},
    }
    (measurement,) = few_hard_tokens.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "hard_tokens": Record.done(point, measurement, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


@pytest.mark.parametrize(
    ("second", "word"),
    [
        ((STEEP, SLOW), "reproduced"),
        ((SLOW, SLOW), "partly"),  # the hardest tenth does not suffice
        ((STEEP, STEEP), "partly"),  # random pairs do as well
        ((FLAT, FLAT), "partly"),  # nobody needs more
    ],
)
def test_verdicts(second: tuple[Sequence[float], Sequence[float]], word: str) -> None:
    found = few_hard_tokens.collect([outcome(POINTS[0], STEEP, SLOW), outcome(POINTS[1], *second)])
    assert few_hard_tokens.judge(found).word == word


def test_no_run_refutes_and_a_failed_one_counts() -> None:
    record = Record.failed(POINTS[1], None, ValueError("no luck"), None, 1.0)
    lost = Outcome(POINTS[1], {"training": record}, complete=True)
    right = outcome(POINTS[0], STEEP, SLOW)
    assert few_hard_tokens.judge(few_hard_tokens.collect([right, lost])).word == "partly"
    verdict = few_hard_tokens.judge(few_hard_tokens.collect([outcome(POINTS[0], SLOW, SLOW)]))
    assert verdict.word == "not reproduced"
    assert "a random tenth does not: 0 of 1; " in verdict.because
    assert "6 elsewhere 0.500/0.600/1.000; 8 elsewhere 1.000/1.000/1.000" in verdict.because


def test_a_panel_per_budget_with_every_run() -> None:
    found = few_hard_tokens.collect([outcome(point, STEEP, SLOW) for point in POINTS])
    with styled():
        axes = few_hard_tokens.draw(found, 6.75).axes
    assert [panel.get_title() for panel in axes] == [
        f"at most {budget} self-iterations elsewhere" for budget in (4, 6, 8)
    ]
    thin = [np.asarray(line.get_ydata()).tolist() for line in axes[1].lines if line.get_linewidth() == 0.6]
    assert thin == [STEEP] * 3 + [SLOW] * 3
    assert (
        "0% of the pairs: accuracy 0.500, 0.500, 0.500, 6.0, 6.0, 6.0 self-iterations per token"
        in few_hard_tokens.caption(found)
    )


def test_the_stored_results_hold_every_run() -> None:
    found = StoredResults.read("few_hard_tokens").results
    assert sorted([*found["seeds"], *map(str, found["failed"])]) == ["0", "1", "2"]
