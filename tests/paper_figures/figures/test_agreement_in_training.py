"""Agreement of the modes through training: the training is repeated, what is drawn, and the verdict."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.agreement import analyse as compare_modes
from analysis.convergence import analyse as follow_both
from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.framework.palette import MODE_LOOKS
from implicit import recipe
from implicit.runs.loading import Run
from implicit.train import train
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import agreement_in_training as figure
from paper_figures.figures import iterations_needed
from paper_figures.figures.figure import Results
from paper_figures.stored_results import StoredResults

POINTS = figure.EXPERIMENT.points
IDENTITY = RunIdentity("run", "parity", "implicit-mamba2", 10, 32, 0, "0" * 64)


def entry(step: int, agree: float) -> dict[str, Any]:
    return {
        "step": step,
        "agree": agree,
        "differ": 0.5 - agree / 2,
        "unconverged": 0.5 - agree / 2,
        "same_answer": 1.0,
        "iterations": {"sequential": 7.5, "simultaneous": 250.0},
        "share_converged": {"sequential": 1.0, "simultaneous": agree},
        "accuracy": 0.75,
    }


def outcome(point: Point, *course: dict[str, Any]) -> Outcome:
    recorded = [{"step": 100, "iterations": 9.0}, {"step": 200, "iterations": 6.0}]
    (measurement,) = figure.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "agreement_course": Record.done(
            point, measurement, IDENTITY, {"course": list(course), "training": recorded}, 2.0
        ),
    }
    return Outcome(point, records, complete=True)


@pytest.fixture
def found() -> Results:
    return figure.collect(
        [outcome(point, entry(0, 0.25), entry(100, 0.5), entry(200, 1.0)) for point in POINTS]
    )


def test_runs_are_among_those_of_the_iterations_needed() -> None:
    others = [point.identifier for point in iterations_needed.EXPERIMENT.points]
    assert [point.identifier for point in POINTS] == others[:6]


FULL = figure.FULL.points


def test_at_full_size_they_are_those_on_parity_and_s5_and_seen_in_both_phases() -> None:
    others = [point.identifier for point in iterations_needed.FULL.points]
    assert [point.identifier for point in FULL] == [*others[:3], *others[6:]]
    (small,), (large,) = figure.EXPERIMENT.measurements, figure.FULL.measurements
    assert small.trains_again
    settings = large.settings_json
    assert {**small.settings_json, "steps": settings["steps"]} == settings
    phases = [FULL[0].config.curriculum.phase(step, 32).name for step in settings["steps"][1:]]
    assert phases == ["bounded"] * 6 + ["free"] * 6
    assert settings["steps"][phases.index("free")] == 4005  # the last update of the bounded phase


def test_at_full_size_the_caption_is_of_those_runs() -> None:
    (course,) = figure.FULL.measurements
    outcomes = []
    for point in FULL:
        value = {
            "course": [entry(0, 0.25), entry(16384, 1.0)],
            "training": [{"step": 512, "iterations": 4.0}],
        }
        done = Record.done(point, course, IDENTITY, value, 2.0)
        outcomes.append(Outcome(point, {"agreement_course": done}, complete=True))
    found = figure.collect(outcomes)
    assert found["settings"]["steps"] == list(figure.FULL_SETTINGS.steps)
    text = figure.caption(found)
    assert text.startswith(
        "Both modes of implicit Mamba-2 while it learns parity and S5 at 32 tokens; a line"
    )
    assert "All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 upd" in text
    assert "black: mean over a batch of the free phase of training, from zero. All models" in text
    assert "Every training was repeated for this figure; what" in text
    assert all(word not in text for word in ("recipe", "by accuracy", "penalise", "random latents"))
    assert figure.judge(found).because.startswith(
        "runs whose modes agree at 97.6% of the tokens or more at the end: parity 3 of 3, S5 3 of 3"
    )
    with styled():
        assert [axes.get_title() for axes in figure.draw(found, 6.75).axes[:2]] == ["parity", "S5"]


def test_the_end_is_what_the_analyses_say_of_the_run(tmp_path: Path) -> None:
    sizes = {"d_model": 4, "head_size": 4, "d_state": 2}
    config = recipe("parity", "implicit-mamba2", steps=3, warmup_steps=1, batch_size=4, **sizes)
    run: Run = train(config, tmp_path / "run", progress=False)
    settings = figure.CourseSettings(steps=(0, 1, 9), sequences=2, length=6, max_iterations=60)
    found = figure.measure(run, settings)
    assert [at["step"] for at in found["course"]] == [0, 1, 3]
    assert [at["step"] for at in found["training"]] == [line["step"] for line in run.metrics]
    how: dict[str, Any] = {"sequences": 2, "length": 6, "rtol": 1e-4, "max_iterations": 60}
    compared, followed = compare_modes(run, **how, examples=0), follow_both(run, **how).modes
    last = found["course"][-1]
    assert {name: last[name] for name in compared.shares} == compared.shares
    assert last["iterations"]["sequential"] == followed["sequential"].iterations.mean()
    assert last["iterations"]["simultaneous"] == followed["simultaneous"].iterations.max(axis=1).mean()
    assert last["share_converged"]["simultaneous"] == followed["simultaneous"].share_converged


@pytest.mark.parametrize(
    ("ends", "word"),
    [((0.976, 1.0), "reproduced"), ((0.975, 1.0), "partly"), ((0.9, 0.5), "not reproduced")],
)
def test_verdicts(ends: tuple[float, float], word: str) -> None:
    outcomes = [outcome(POINTS[0], entry(0, 1.0), entry(200, ends[0])), outcome(POINTS[3], entry(9, ends[1]))]
    verdict = figure.judge(figure.collect(outcomes))
    assert verdict.word == word
    assert f"least share on the way: {min(ends):.3f}" in verdict.because


def test_a_failed_run_leaves_the_claim_partly() -> None:
    record = Record.failed(POINTS[1], None, ValueError("no luck"), None, 1.0)
    lost = Outcome(POINTS[1], {"training": record}, complete=True)
    verdict = figure.judge(figure.collect([outcome(POINTS[0], entry(200, 1.0)), lost]))
    assert (verdict.word, "parity 1 of 2" in verdict.because) == ("partly", True)


def test_every_run_is_drawn_in_the_column_of_its_task(found: Results) -> None:
    with styled():
        panels = figure.draw(found, 6.75).axes
    assert [axes.get_title() for axes in panels[:2]] == ["parity", "S3"]
    for top, bottom in (panels[::2], panels[1::2]):
        drawn = {
            name: [
                np.asarray(line.get_ydata()).tolist() for line in axes.lines if line.get_color() == look.color
            ]
            for axes, name, look in (
                (top, "agree", figure.SHARES["agree"][1]),
                (bottom, "simultaneous", MODE_LOOKS["simultaneous"]),
                (bottom, "training", figure.IN_TRAINING),
            )
        }
        assert drawn == {
            "agree": [[0.25, 0.5, 1.0]] * 3,
            "simultaneous": [[250.0] * 3] * 3,
            "training": [[9.0, 6.0]] * 3,
        }
    assert "at the end: parity 0.25, 0.25, 0.25 / 0.50, 0.50, 0.50 / 1.00, 1.00, 1.00; S3" in figure.caption(
        found
    )


def test_the_stored_results_hold_every_run() -> None:
    tasks = StoredResults.read("agreement_in_training").results["tasks"]
    assert list(tasks) == ["parity", "S3"]
    for group in tasks.values():
        assert sorted([*group["seeds"], *map(str, group["failed"])]) == ["0", "1", "2"]
        for run in group["seeds"].values():
            for at in run["course"]:
                assert at["agree"] + at["differ"] + at["unconverged"] == pytest.approx(1, abs=1e-12)
