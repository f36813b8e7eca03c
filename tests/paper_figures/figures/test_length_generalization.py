"""Accuracies of the figure against a plain loop, and what the stored results have to say."""

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch

from analysis.framework.figures import styled
from analysis.length_generalization import LengthSettings
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.figures import length_generalization
from paper_figures.figures.figure import Results, RunRecipe
from paper_figures.stored_results import StoredResults, compact_json

SETTINGS = LengthSettings(lengths=(4, 16), sequences=8, seed=3)


@pytest.fixture(scope="module")
def runs(untrained: Callable[[RunRecipe], Run]) -> dict[RunRecipe, Run]:
    return {wanted: untrained(wanted) for wanted in length_generalization.FIGURE.runs if wanted.seed < 2}


@pytest.fixture(scope="module")
def found(runs: dict[RunRecipe, Run]) -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(length_generalization, "SETTINGS", SETTINGS)
        patch.setattr(length_generalization, "SOLVED_LENGTH", 16)
        patch.setattr(length_generalization, "SOLVED_ACCURACY", 0.5)
        results: Results = json.loads(compact_json(length_generalization.compute(runs)))
        yield results


@torch.no_grad()
def accuracy_by_steps(run: Run, length: int) -> float:
    """Read the same sequences token by token and count."""
    tokens, labels = draw_batch(run.task, 8, 16, 3, Stream.TEST, 16, 0)
    state, right = run.model.init_state(8), []
    for position in range(length):
        state, logits = run.model.step(state, tokens[:, position])
        right.append((logits.argmax(-1) == labels[:, position]).double().mean().item())
    return float(np.mean(right[-10:]))


def test_accuracies_are_those_of_a_plain_loop(found: Results, runs: dict[RunRecipe, Run]) -> None:
    for wanted, run in runs.items():
        stored = found["models"][wanted.model][str(wanted.seed)]
        assert stored["command"] == wanted.command
        for length in (4, 16):
            # Means of the same 0s and 1s, summed in another order.
            assert stored["accuracy"][str(length)] == pytest.approx(accuracy_by_steps(run, length), abs=1e-12)


def test_counts_the_runs_that_solve_the_task(found: Results) -> None:
    for model, seeds in found["models"].items():
        solved = sum(run["accuracy"]["16"] >= 0.5 for run in seeds.values())
        assert found["solved"][model]["runs"] == solved
        assert f"{length_generalization.LABELS[model]}: {solved} of 2" in length_generalization.caption(found)


def test_draws_every_run_and_the_mean(found: Results) -> None:
    with styled():
        axes = length_generalization.draw(found).axes[0]
    for number, seeds in enumerate(found["models"].values()):
        drawn = [np.asarray(line.get_ydata()) for line in axes.lines[3 * number : 3 * number + 3]]
        runs = [[run["accuracy"]["4"], run["accuracy"]["16"]] for run in seeds.values()]
        np.testing.assert_allclose(drawn, [*runs, np.mean(runs, axis=0)], rtol=1e-12)  # order of the sum


def test_the_stored_results_list_every_seed_and_most_solve_parity() -> None:
    stored = StoredResults.read("length_generalization")
    implicit = stored.results["models"]["implicit-mamba2"]
    assert sorted(implicit) == ["0", "1", "2", "3", "4"]
    assert stored.results["settings"]["sequences"] >= 512
    for seed, run in implicit.items():
        assert f"--model implicit-mamba2 --seed {seed}" in run["command"]
    assert sum(run["accuracy"]["256"] >= 0.99 for run in implicit.values()) >= 4
    assert all(run["accuracy"]["256"] <= 0.65 for run in stored.results["models"]["mamba2"].values())
