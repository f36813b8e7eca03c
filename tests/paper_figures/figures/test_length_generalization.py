"""Accuracies of the figure against a plain loop, and what the stored results have to say."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.length_generalization import LengthSettings
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.figures import length_generalization
from paper_figures.figures.figure import Results
from paper_figures.figures.groups import group_label
from paper_figures.stored_results import StoredResults

SETTINGS = LengthSettings(lengths=(4, 16), sequences=8, seed=3)


MEASUREMENT = Measurement("accuracy", length_generalization.measure, SETTINGS)
POINTS = [point for point in length_generalization.EXPERIMENT.points if point.seed < 2]


@pytest.fixture
def found(measured: Callable[..., list[Outcome]], monkeypatch: pytest.MonkeyPatch) -> Results:
    """The second run of the LSTM failed."""
    monkeypatch.setattr(length_generalization, "SOLVED_LENGTH", 16)
    monkeypatch.setattr(length_generalization, "SOLVED_ACCURACY", 0.5)
    return length_generalization.collect(measured(POINTS, MEASUREMENT, (POINTS[-1],)), SETTINGS)


@torch.no_grad()
def accuracy_by_steps(run: Run, length: int) -> float:
    """Read the same sequences token by token and count."""
    tokens, labels, *_ = draw_batch(run.task, 8, 16, 3, Stream.TEST, 16, 0)
    state, right = run.model.init_state(8), []
    for position in range(length):
        state, logits = run.model.step(state, tokens[:, position])
        right.append((logits.argmax(-1) == labels[:, position]).double().mean().item())
    return float(np.mean(right[-10:]))


def test_accuracies_are_those_of_a_plain_loop(found: Results, untrained: Callable[[Point], Run]) -> None:
    groups = {
        (group["settings"]["model"], group["settings"]["carried_share"]): group for group in found["groups"]
    }
    assert (POINTS[-1].config.model, groups["lstm", 0.0]["failed"]) == ("lstm", [1])
    for point in POINTS[:-1]:
        stored = groups[point.config.model, point.config.curriculum.carried_share]["seeds"][str(point.seed)]
        run = untrained(point)
        for length in (4, 16):
            # Means of the same 0s and 1s, summed in another order.
            assert stored["accuracy"][str(length)] == pytest.approx(accuracy_by_steps(run, length), abs=1e-12)


def test_counts_the_runs_that_solve_the_task(found: Results) -> None:
    """A run that failed does not solve it, and is one of them."""
    for group in found["groups"]:
        solved = sum(run["accuracy"]["16"] >= 0.5 for run in group["seeds"].values())
        assert group["solved"]["runs"] == solved
        sentence = f"{group_label(group['settings'])}: {solved} of 2"
        assert sentence in length_generalization.caption(found)


def test_draws_every_run_and_the_mean(found: Results) -> None:
    with styled():
        lines = iter(length_generalization.draw(found, 6.75).axes[0].lines)
    for group in found["groups"]:
        runs = [[run["accuracy"]["4"], run["accuracy"]["16"]] for run in group["seeds"].values()]
        expected = [*runs, np.mean(runs, axis=0)] if len(runs) > 1 else runs  # a single run is its mean
        drawn = [np.asarray(next(lines).get_ydata()) for _ in expected]
        np.testing.assert_allclose(drawn, expected, rtol=1e-12)  # order of the sum


def test_an_experiment_of_which_all_failed_is_drawn_empty(measured: Callable[..., list[Outcome]]) -> None:
    found = length_generalization.collect(measured(POINTS, MEASUREMENT, tuple(POINTS)), SETTINGS)
    assert len(length_generalization.draw(found, 6.75).axes[0].lines) == 0


def test_the_stored_results_list_every_seed_and_most_solve_parity() -> None:
    stored = StoredResults.read("length_generalization")
    groups = stored.results["groups"]
    (implicit,) = (group["seeds"] for group in groups if group["settings"]["model"] == "implicit-mamba2")
    assert sorted(implicit) == ["0", "1", "2", "3", "4"]
    assert stored.results["settings"]["sequences"] >= 512
    assert sum(run["accuracy"]["256"] >= 0.99 for run in implicit.values()) >= 4
    for model in ("mamba2", "lstm"):  # with and without state passing
        controls = [group for group in groups if group["settings"]["model"] == model]
        assert {group["settings"]["carried_share"] for group in controls} == {0.0, 0.9}
        assert all(len(group["seeds"]) >= 3 for group in controls)
        if model == "mamba2":
            runs = [run for group in controls for run in group["seeds"].values()]
            assert all(run["accuracy"]["256"] <= 0.65 for run in runs)
