"""The frame: what a figure stores about its runs, and the caption that tells of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.figure import Figure

from implicit.runs.loading import Run
from paper_figures.experiments.grid import Experiment, Grid, Measurement
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.records import Store
from paper_figures.experiments.runner import carry_out
from paper_figures.figures.claim import Claim, Verdict
from paper_figures.figures.figure import PaperFigure, Results
from paper_figures.stored_results import StoredResults


def even_loss(run: Run, settings: None) -> float:
    if run.config.seed == 1 and run.config.model == "mamba2":
        raise ValueError("no loss")
    return float(run.metrics[-1]["loss"])


def collect(outcomes: Sequence[Outcome]) -> Results:
    return {outcome.point.name: outcome.values["loss"] for outcome in outcomes if outcome.values}


BASE = {"task": "parity", "steps": 2, "warmup_steps": 1, "batch_size": 4, "d_model": 16}
EXPERIMENT = Experiment(
    "losses",
    (Grid({"model": ["lstm", "mamba2"], "seed": [1, 0]}, BASE),),
    (Measurement("loss", even_loss),),
)
FIGURE = PaperFigure(
    "Losses",
    Claim("losses fall", "nobody", lambda found: Verdict("partly", f"{len(found)} losses")),
    EXPERIMENT,
    collect,
    lambda found, width: Figure(figsize=(width, 3)),
    lambda found: f"{len(found)} losses.",
)


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[Outcome]:
    return carry_out(EXPERIMENT, Store(tmp_path_factory.mktemp("store"))).outcomes


def test_stores_what_it_collects_with_every_run(outcomes: list[Outcome], tmp_path: Path) -> None:
    stored = FIGURE.stored(outcomes)
    assert stored.figure == "losses"
    assert stored.seeds == [0, 1]
    assert stored.command == "python -m paper_figures losses --rerun"
    assert stored.results == collect(outcomes)
    assert len(stored.results) == 3
    assert stored.environment["threads"] == 1
    measuring = [outcome.records["loss"].seconds for outcome in outcomes]
    assert stored.seconds == round(sum(measuring), 1)
    training = [outcome.records["training"].seconds for outcome in outcomes]
    assert stored.training_seconds == round(sum(training), 1)
    for about, outcome in zip(stored.runs, outcomes, strict=True):
        assert about["command"] == outcome.point.command
        assert about["settings"] == dict(outcome.point.settings)
        assert outcome.records["training"].run is not None
        assert about["weights_sha256"] == outcome.records["training"].run["weights_sha256"]
    stored.write(tmp_path)
    assert StoredResults.read("losses", tmp_path) == stored


def test_a_failed_run_stays_in_the_results_as_failed(outcomes: list[Outcome]) -> None:
    assert [(run["name"], run["status"]) for run in FIGURE.stored(outcomes).runs] == [
        ("parity-lstm-seed-1", "done"),
        ("parity-lstm-seed-0", "done"),
        ("parity-mamba2-seed-1", "failed"),
        ("parity-mamba2-seed-0", "done"),
    ]
    assert FIGURE.stored(outcomes).runs[2]["failure"] == "loss: ValueError: no loss"


def test_the_caption_tells_runs_seeds_and_failures(outcomes: list[Outcome]) -> None:
    assert FIGURE.full_caption(FIGURE.stored(outcomes)) == (
        "3 losses. Training runs: 4, 1 failed: lstm 2 (seeds 0, 1); mamba2 1 of 2 (seed 0; failed: 1)."
    )


def test_the_picture_has_the_width_that_was_asked_for(outcomes: list[Outcome]) -> None:
    stored = FIGURE.stored(outcomes)
    assert FIGURE.picture(stored, 3.3).get_size_inches().tolist() == [3.3, 3]
    assert FIGURE.picture(stored).get_size_inches().tolist() == [6.75, 3]
