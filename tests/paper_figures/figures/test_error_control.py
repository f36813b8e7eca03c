"""Failures that short words foretell: what counts, what is right, what is drawn, and what is stored."""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
from matplotlib.axes import Axes

from analysis import error_control as errors
from analysis import executed
from analysis.certificates.parts import RefusedError
from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from analysis.length_generalization import analyse
from implicit.compiled import compile_run, executed_bounds_of
from implicit.runs.loading import Run
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import error_control, failures_measured
from paper_figures.figures.figure import Results
from paper_figures.figures.forecasts import correlation, first_failure, forecast_of, judge
from paper_figures.stored_results import StoredResults
from tests.drawn_figures import faults

POINTS = error_control.EXPERIMENT.points
SMALL = failures_measured.FailureSettings(lengths=(4, 8), sequences=4, words=16, pairs=2, follow=2)
LENGTHS = (16, 32, 64, 128)


def measured(failed: int | None, predicted: float | None, how: str = "reached", read: int = 32) -> Any:
    """A run that is right below a length and at chance from there on."""
    return {
        "trained": read // 2,
        "read": read,
        "predicted": predicted,
        "how": "none" if predicted is None and how == "reached" else how,
        "left": 1.0 if failed else 0.001,
        "accuracy": {str(length): 1 / 6 if failed and length >= failed else 1.0 for length in LENGTHS},
        "chance": 1 / 6,
    }


def results(**runs: list[Any]) -> Results:
    """Results of some models; underscores in their names stand for hyphens."""
    groups = [
        {
            "settings": {"task": "S3", "model": model.replace("_", "-")},
            "seeds": {str(seed): run for seed, run in enumerate(of_model)},
            "failed": [],
        }
        for model, of_model in runs.items()
    ]
    return {
        "settings": failures_measured.SETTINGS.model_dump(mode="json"),
        "reported_tokens": 10,
        "groups": groups,
        "certified": measured(None, None),
    }


@pytest.mark.parametrize(
    ("run", "counts", "right"),
    [
        (measured(64, 33.0), True, True),  # 33 to 64: less than a factor of two
        (measured(64, 32.0), True, True),
        (measured(64, 31.9), True, False),
        (measured(64, 128.0), True, True),
        (measured(64, 129.0), True, False),
        (measured(64, None), True, False),
        (measured(32, 30.0), False, True),  # fails at a length that was read
        (measured(None, None), True, True),
        (measured(None, 40.0), True, False),
        (measured(None, 129.0), True, True),  # beyond the longest length that was tested
        (measured(None, None, "too short"), True, False),
        (measured(None, None, "too far"), True, True),
    ],
)
def test_what_counts_and_what_is_right(run: Any, counts: bool, right: bool) -> None:
    forecast = forecast_of("lstm", run)
    assert (forecast.counts, forecast.right) == (counts, right)


def test_the_first_failure_is_the_first_length_below_90_percent() -> None:
    assert first_failure({"16": 0.9, "32": 0.8999, "64": 1.0}) == 32
    assert first_failure({"16": 0.9, "32": 0.95}) is None


LASTS, FALLS, LATE = measured(None, None), measured(64, 40.0), measured(128, 33.0)
EARLY = measured(16, 12.0)


@pytest.mark.parametrize(
    ("runs", "word", "said"),
    [
        ({"lstm": [LASTS], "pd_ssm": [FALLS]}, "reproduced", "shorter words: 1 of 1, "),
        ({"lstm": [LASTS], "pd_ssm": [FALLS, LATE]}, "partly", "shorter words: 1 of 2, "),
        ({"lstm": [LASTS], "pd_ssm": [LATE]}, "not reproduced", "shorter words: 0 of 1, "),
        ({"lstm": [LASTS], "pd_ssm": [EARLY]}, "not reproduced", "shorter words: 0 of 0, "),
        ({"lstm": [LASTS], "pd_ssm": [FALLS, EARLY]}, "reproduced", "was predicted: 1 of 1"),
        ({"lstm": [measured(None, 50.0)], "pd_ssm": [FALLS]}, "partly", "was predicted: 0 of 1"),
        ({"pd_ssm": [FALLS]}, "partly", "was predicted: 0 of 0"),
    ],
)
def test_the_verdict_follows_its_rule(runs: Any, word: str, said: str) -> None:
    verdict = judge(results(**runs))
    assert verdict.word == word
    assert said in verdict.because


def test_failures_without_a_prediction_are_told() -> None:
    found = results(lstm=[LASTS], pd_ssm=[FALLS, measured(64, None), measured(128, None), LATE])
    assert "1 of 4, and none was predicted of 2 of these" in judge(found).because


def test_a_run_that_failed_to_train_makes_it_partly() -> None:
    found = results(lstm=[LASTS], pd_ssm=[FALLS])
    found["groups"][0]["failed"] = [2]
    assert judge(found).word == "partly"


def test_only_failures_that_were_predicted_before_they_came_are_correlated() -> None:
    counted = [measured(64, 20.0), measured(64, 50.0), measured(128, 35.0)]
    left_out = [EARLY, LASTS, measured(128, None), measured(None, 60.0)]
    runs, r = correlation(results(pd_ssm=counted, lstm=left_out))
    expected = scipy.stats.pearsonr(np.log([20, 50, 35]), np.log([64, 64, 128])).statistic
    assert runs == 3
    assert r == pytest.approx(expected, abs=1e-12)  # sums of three numbers in another order
    assert correlation(results(pd_ssm=counted[:2])) == (2, None)
    assert correlation(results(pd_ssm=[counted[0]] * 3)) == (3, None)


def test_every_model_has_three_seeds_and_the_implicit_one_its_recipe() -> None:
    kinds = [(point.config.model, point.config.length) for point in POINTS]
    assert all(kinds.count(kind) == 3 for kind in kinds)
    assert POINTS[0].variant == {"task": "S3", "model": "implicit-mamba2"}
    reflecting = [point for point in POINTS if point.config.sizes.get("negative_eigenvalues")]
    assert {point.config.model for point in reflecting} == {"gated-deltaproduct"}


def test_measure_is_the_two_analyses_and_reads_twice_the_training_length(
    untrained: Callable[[Point], Run],
) -> None:
    run = untrained(next(point for point in POINTS if point.config.model == "lstm"))
    found = failures_measured.measure(run, SMALL)
    assert (found["trained"], found["read"]) == (16, 32)
    assert max(found["tokens"]) < 32
    foretold = errors.analyse(
        run, sequences=16, length=32, block=2, every=1, seed=SMALL.words_seed, pairs=2, follow=2
    )
    assert (found["predicted"], found["how"]) == (foretold.horizon.length, foretold.horizon.how)
    assert found["q"] == foretold.spread.upper.tolist()
    assert found["left"] == foretold.left
    (accuracy,) = analyse(run, lengths=(4, 8), sequences=4, mode="sequential", seed=0).numbers().values()
    assert found["accuracy"] == accuracy["accuracy"]


def test_the_certificate_is_one_of_the_very_weights_that_are_measured(tmp_path: Path) -> None:
    found = error_control.certified(SMALL)
    again = RunIdentity.of(compile_run("S3", tmp_path / "again"))
    assert found["weights_sha256"] == again.weights_sha256
    assert "every length" in found["certificate"]
    assert set(found["accuracy"].values()) == {1.0}


def test_without_a_certificate_that_holds_there_are_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    prove = executed_bounds_of

    def too_good(*arguments: Any, **settings: Any) -> Any:
        found = prove(*arguments, **settings)
        return replace(found, margin=1.2 * found.margin)

    monkeypatch.setattr(executed, "executed_bounds_of", too_good)
    error_control.certified.cache_clear()
    with pytest.raises(RefusedError, match="margin"):
        error_control.certified(SMALL)


def test_the_caption_says_what_was_counted_and_what_is_proved() -> None:
    found = results(lstm=[LASTS, LASTS], pd_ssm=[FALLS, LATE, EARLY])
    text = error_control.caption(found)
    assert "Counted: 4 of 5 runs; " in text
    assert (
        "from shorter words: 1 of 2, and none was predicted of 0 of these; runs without a failure of which "
        "none was predicted: 2 of 2; " in text
    )
    assert "a statistic of the 2 runs with both lengths." in text
    assert "affine in the state 1 to 1; others 0.001 to 0.001." in text
    assert "compiled from the table of the group, not trained" in text
    assert "of the trained runs nothing is proved" in text


FULL = error_control.FULL.points


def test_at_full_size_cells_are_as_wide_and_trained_alike_at_one_length() -> None:
    models = ("implicit-mamba2", "lstm", "elman", "gated-deltaproduct", "pd-ssm", "mamba2")
    assert [point.config.model for point in FULL] == [model for model in models for _ in range(3)]
    assert {(point.config.length, point.config.sizes["d_model"]) for point in FULL} == {(32, 256)}
    alike = [point.config.updated(model="lstm", seed=0).model_dump(exclude={"sizes"}) for point in FULL]
    assert all(config == alike[0] for config in alike)
    assert FULL[0].config.curriculum.growth_accuracy is None
    assert not FULL[0].config.curriculum.loss_until_error
    reflecting = [point.config.sizes.get("negative_eigenvalues", False) for point in FULL]
    assert reflecting == [point.config.model == "gated-deltaproduct" for point in FULL]


def test_at_full_size_the_caption_is_of_those_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(error_control, "certified", lambda settings: measured(None, None))
    (failure,) = error_control.FULL.measurements
    identity = RunIdentity("run", "S3", "lstm", 10, 32, 0, "0" * 64)
    outcomes = []
    for point in FULL:
        value = (
            measured(None, None, read=64) if point.config.model == "lstm" else measured(128, 100.0, read=64)
        )
        done = Record.done(point, failure, identity, value, 2.0)
        outcomes.append(Outcome(point, {"failure": done}, complete=True))
    found = error_control.collect(outcomes)
    text = error_control.caption(found)
    assert "All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005 upd" in text
    # of six models, two of which, LSTM and Elman, are not called explicit
    assert (
        "passing. All but the implicit model have no fixed points to seek. Counted: 18 of 18 runs; " in text
    )
    assert all(word not in text for word in ("recipe", "passes states on", "lengths grow"))
    assert error_control.FIGURE.claim.judge(found).word == "reproduced"
    with styled():
        legend = error_control.draw(found, 6.75).axes[0].get_legend_handles_labels()[1]
    assert sum(name.endswith(", trained at 32 tokens") for name in legend) == 6


def marks(axes: Axes, color: str) -> list[tuple[float, float, bool]]:
    """Where marks of a colour are, and whether they are filled."""
    return [
        (*np.asarray(line.get_xydata())[0].tolist(), line.get_markerfacecolor() != "none")
        for line in axes.lines
        if line.get_color() == color and len(np.asarray(line.get_xdata())) == 1
    ]


@pytest.mark.parametrize("width", [3.3, 6.75])
def test_every_run_has_a_line_and_a_mark(width: float) -> None:
    found = results(lstm=[LASTS, LASTS], pd_ssm=[FALLS, LATE, EARLY])
    with styled():
        figure = error_control.draw(found, width)
        assert faults(figure, width) == []
    accuracy, failure = figure.axes
    assert marks(failure, "#AA4499") == [(64, 40, True), (128, 33, True), (16, 12, False)]
    beyond = marks(failure, "#009E73")
    assert len(beyond) == 2
    assert all(min(x, y) > max(failures_measured.GEOMETRIC) and filled for x, y, filled in beyond)
    assert len({x for x, _, _ in beyond}) == 2  # none hides another
    assert marks(failure, "black") == [(error_control.EDGE, error_control.EDGE, True)]
    lines = {"#009E73": found["groups"][0], "#AA4499": found["groups"][1]}
    for color, group in lines.items():
        shown = [line for line in accuracy.lines if line.get_color() == color]
        assert [list(np.asarray(line.get_ydata())) for line in shown] == [
            [*run["accuracy"].values()] for run in group["seeds"].values()
        ]
    proved = next(line for line in accuracy.lines if line.get_color() == "black")
    assert set(np.asarray(proved.get_ydata()).tolist()) == {1.0}
    assert max(np.asarray(proved.get_xdata())) > max(np.asarray(accuracy.lines[2].get_xdata()))


def test_a_compiled_model_that_fell_would_be_drawn_so() -> None:
    found = results(lstm=[LASTS])
    found["certified"] = measured(64, 20.0)
    with styled():
        failure = error_control.draw(found, 6.75).axes[1]
    assert marks(failure, "black") == [(64, 20, True)]


def test_two_training_lengths_of_a_model_look_different() -> None:
    found = results(gated_deltaproduct=[FALLS])
    found["groups"].append(copy.deepcopy(found["groups"][0]))
    one, other = error_control._looks(found["groups"])
    assert one.color == other.color
    assert (one.marker, one.dashes) != (other.marker, other.dashes)


def test_the_stored_results_hold_every_run_and_the_proved_line() -> None:
    stored = StoredResults.read("error_control")
    found = dict(stored.results)
    assert [sorted(group["seeds"]) for group in found["groups"]] == [["0", "1", "2"]] * 7
    assert len(stored.runs) == 21
    proved = found["certified"]
    assert "every length" in proved["certificate"]
    assert list(map(int, proved["accuracy"])) == list(failures_measured.GEOMETRIC)
    assert set(proved["accuracy"].values()) == {1.0}
    assert max(proved["q"]) < 0.5
    assert proved["predicted"] is None


def test_stored_affine_models_keep_every_error_and_the_others_correct_it() -> None:
    """What Theorem 1 of docs/error_control.md says of affine layers, to the rounding of float64."""
    for group in StoredResults.read("error_control").results["groups"]:
        for run in group["seeds"].values():
            if group["settings"]["model"] in error_control.AFFINE:
                assert run["left"] == pytest.approx(1, abs=1e-6)
            else:
                assert run["left"] < 0.5
