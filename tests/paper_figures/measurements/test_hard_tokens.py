"""Hard tokens: accuracy by limit and share, effort, which pairs are hard, and budgets that reach them."""

from collections.abc import Callable

import pytest
import torch

from analysis.framework.needs import as_implicit, word_problem_of
from analysis.framework.visited_states import sample_sequences
from automata.monoids.groups import reset_monoid, symmetric_group
from automata.monoids.monoid import direct_product
from automata.tasks.registry import make_task
from implicit import Solve, Stopping, load_run
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Point
from paper_figures.measurements.hard_tokens import (
    HardTokenSettings,
    HardTrainingSettings,
    accuracy_by_limit,
    effort,
    hard_pairs,
    mean_iterations,
)
from paper_figures.measurements.iterations import MODES
from paper_figures.registry import figure_named

SUM_ORDER = 1e-12
"""Means are sums of the same numbers in another order."""
LIMITS = HardTrainingSettings(limits=(1, 3), length=12, shorter=(6,), sequences=8, swept_sequences=4)
SMALL = HardTokenSettings(budgets=(2, 5), shares=(0.0, 0.5, 1.0), length=12, sequences=8, full_budget=50)


def test_measures_the_task_with_another_share_of_hard_tokens(untrained: Callable[[Point], Run]) -> None:
    """Against the products of the tokens, computed by the monoid, and one call of the model per limit."""
    run = untrained(figure_named("hard_tokens_in_training").experiment.points[3])
    assert word_problem_of(run).hard_fraction == 0.1
    found = accuracy_by_limit(run, LIMITS)["tested"]
    assert list(found) == ["0.1", "0.5"]
    monoid = direct_product(symmetric_group(3), reset_monoid(3))
    for fraction, measured in found.items():
        tokens = draw_batch(make_task("S3xM", float(fraction)), 8, 12, LIMITS.seed, Stream.TEST, 0).tokens
        states = torch.tensor(
            [[monoid.multiply(*word[: k + 1]) for k in range(12)] for word in tokens.tolist()]
        )
        for mode, count in zip(MODES, (8, 4), strict=True):
            for name, limit in (("1", 1), ("3", 3), ("none", 2048)):
                solve = Solve(mode, stopping=Stopping(rtol=LIMITS.rtol, max_iterations=limit))
                with torch.no_grad():
                    output = run.model.run(tokens[:count], solve=solve)
                right = (output.logits.argmax(dim=-1) == states[:count]).double()
                assert measured[mode][name] == pytest.approx(right[:, -10:].mean().item(), rel=SUM_ORDER)
                if (mode, name) == ("sequential", "none"):
                    expected = [right[:, :6].mean().item(), right[:, -10:].mean().item()]
                    assert [*measured["by_length"].values()] == pytest.approx(expected, rel=SUM_ORDER)
                    assert output.solution is not None
                    iterations = output.solution.iterations.double()
                    moving = tokens // 4 != 0  # the identity of S3 has number 0
                    assert measured["iterations"]["hard"] == pytest.approx(iterations[moving].mean().item())
                    assert measured["share_above"]["3"] == (iterations > 3).double().mean().item()


def test_effort_by_hand() -> None:
    iterations, easy = torch.tensor([[2, 4], [6, 20]]), torch.tensor([[True, True], [True, False]])
    assert effort(iterations, easy, (4, 16)) == {
        "iterations": {"all": 8.0, "easy": 4.0, "hard": 20.0},
        "share_above": {"4": 0.5, "16": 0.25},
    }
    assert effort(iterations, torch.ones_like(easy), (4,))["iterations"]["hard"] is None


@pytest.fixture(scope="module")
def run() -> Run:
    return load_run("s3")


def test_with_one_budget_everywhere_it_is_the_sequential_mode_with_that_limit(run: Run) -> None:
    """Token after token, with states cut and joined, against one call over whole sequences."""
    found = hard_pairs(run, SMALL)
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
    for order in hard_pairs(run, SMALL).values():
        for points in order.values():
            assert [point["hard_tokens"] for point in points][::2] == [0.0, 1.0]
            assert 0 < points[1]["hard_tokens"] < 1
            assert points[0]["iterations"] < points[1]["iterations"] <= points[2]["iterations"]


def test_hardness_is_the_mean_over_the_occurrences_of_a_pair(run: Run) -> None:
    tokens, _ = sample_sequences(word_problem_of(run), 8, 12, 0)
    pairs = torch.arange(96).reshape(8, 12) % 5
    model = as_implicit(run)
    means = mean_iterations(model, tokens, pairs, 7, SMALL)
    solve = Solve("sequential", stopping=Stopping(rtol=SMALL.rtol, max_iterations=50))
    with torch.no_grad():
        solution = model.run(tokens, solve=solve).solution
    assert solution is not None
    for pair in range(5):
        assert means[pair] == pytest.approx(solution.iterations[pairs == pair].double().mean().item())
    assert means[5:].tolist() == [0, 0]
