"""The figure of the iterations that tokens need: its runs, verdicts by hand, what is drawn, and its words."""

import copy
from typing import Any

import numpy as np
import pytest
from matplotlib.lines import Line2D

from analysis.framework.figures import styled
from analysis.framework.output import RunIdentity
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import iterations_at_test
from paper_figures.figures import iterations_needed as figure
from paper_figures.figures.figure import Results
from paper_figures.figures.token_iterations import TokenSettings
from paper_figures.stored_results import StoredResults

POINTS = figure.EXPERIMENT.points
LENGTHS = figure.SETTINGS.lengths
IDENTITY = RunIdentity("run", "parity", "implicit-mamba2", 10, 32, 0, "0" * 64)
VARIANCES = dict(zip(figure.KINDS, (0.03, 0.1, 0.12, -0.01, 0.2, 0.6), strict=True))


def tokens(more_than_few: float, more_than_many: float, tail: float = 0.01) -> dict[str, Any]:
    return {
        "accuracy": 1.0,
        "histogram": {"2": 6, "5": 2, "20": 2},
        "mean": 6.2,
        "median": 2.0,
        "more_than": {"4": 0.4, "8": more_than_few, "16": more_than_many, "32": 0.0},
        "more_than_twice_the_median": tail,
        "iterations_of_hardest_tenth": 0.3,
        "means": {"state changes": 7.0, "state stays": 3.5, "positions 1 to 1": 12.4},
    }


SHOWN, ALL_HARD, NONE_HARD = tokens(0.1, 0.01), tokens(0.5, 0.01), tokens(0.0, 0.0)
JUST, TOO_MANY, TOO_RARE = tokens(0.1, 0.1), tokens(0.1, 0.11), tokens(0.1, 0.00009)


def outcome(point: Point, loose: dict[str, Any], tight: dict[str, Any], converged: float = 1.0) -> Outcome:
    value: dict[str, Any] = {
        "tolerances": {
            tolerance: {
                "sequential": {
                    "iterations": {str(length): 5.0 for length in LENGTHS},
                    "share_converged": {str(length): 1.0 for length in LENGTHS},
                },
                "simultaneous": {
                    "sweeps": {str(length): [length, 3 * length] for length in LENGTHS},
                    "share_converged": {str(length): converged for length in LENGTHS},
                },
                "auto": {"8": "sequential", "128": "sequential"},
                "tokens": of,
            }
            for tolerance, of in (("0.01", loose), ("0.0001", tight))
        },
        "training": [{"step": 1, "iterations": 10.0}, {"step": 2, "iterations": 6.0}],
    }
    first = {"tokens": 10, "pairs": 5, "first": 0.4, "change": 0.9, "wrongly": 0.0}
    hardest = {
        tolerance: {
            "beyond": dict.fromkeys(("4", "8", "16", "32", "twice the median"), first),
            "explained": {kind: {"variance": share, "groups": 4} for kind, share in VARIANCES.items()},
        }
        for tolerance in ("0.01", "0.0001")
    }
    counts, who = figure.EXPERIMENT.measurements
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        "token_iterations": Record.done(point, counts, IDENTITY, value, 2.0),
        "hardest_tokens": Record.done(point, who, IDENTITY, hardest, 2.0),
    }
    return Outcome(point, records, complete=True)


def test_runs_are_those_of_test_time_compute() -> None:
    assert [point.identifier for point in POINTS] == [
        point.identifier for point in iterations_at_test.EXPERIMENT.points
    ]
    assert {point.config.curriculum.free_rtol for point in POINTS} == {figure.SETTINGS.tolerances[0]}
    assert {point.config.sizes["rtol"] for point in POINTS} == {figure.SETTINGS.tolerances[1]}
    assert {point.config.sizes["d_conv"] for point in POINTS} == {figure.SETTINGS.window}
    assert {figure.FEW, figure.MANY} <= set(figure.SETTINGS.thresholds)


def test_the_rule_names_the_tolerances_at_test_whatever_training_has() -> None:
    """A reader of the rule sees it beside runs trained to 0.01 and to 0.05."""
    trained = {point.config.curriculum.free_rtol for point in (*POINTS, *figure.FULL.points)}
    assert trained == {0.01, 0.05}
    assert figure.SETTINGS.tolerances == (0.01, 1e-4)
    words = " ".join(str(figure.judge.__doc__).split())
    assert "at both tolerances, 0.01 and 1e-4; not reproduced" in words
    described = TokenSettings.model_fields["tolerances"].description
    assert "training" not in f"{words} {described}"


def test_at_full_size_runs_are_those_of_test_time_compute_too() -> None:
    full = figure.FULL.points
    assert [point.identifier for point in full] == [
        point.identifier for point in iterations_at_test.FULL.points
    ]
    assert {point.config.sizes["d_conv"] for point in full} == {figure.SETTINGS.window}
    found = figure.collect([outcome(point, SHOWN, SHOWN) for point in full])
    text = figure.caption(found)
    assert "tolerances of 0.01 (in training 0.05) and 0.0001" in text
    assert "8.0. All models: 16,384 updates of 512 sequences of 32 tokens, width 256; the first 4,005" in text
    assert "take 0.50 to 0.50 times what others take; the claim is of answers, too" in text
    assert "penalty on contraction" not in text
    assert "mean per token over all records of the free phase: parity 8.0, 8.0, 8.0; A5 8.0" in text
    # 64 sequences, 511 tokens each without the first, over 60 or 120 states and as many tokens
    assert f"few tokens, A5 {64 * 511 / 60**2:.1f}, S5 {64 * 511 / 120**2:.1f} each), without" in text
    with styled():
        (legend,) = figure.draw(found, 6.75).legends
    names = [label.get_text() for label in legend.get_texts()]
    assert names == ["parity", "A5", "S5", "sequential mode", "simultaneous mode"]
    assert figure.judge(found).word == "reproduced"


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        (SHOWN, True),
        (JUST, True),
        (ALL_HARD, False),
        (NONE_HARD, False),
        (TOO_MANY, False),
        (TOO_RARE, False),
    ],
)
def test_few_for_most_and_many_for_a_small_subset(of: dict[str, Any], shown: bool) -> None:
    assert figure.shows_claim(of) is shown


@pytest.mark.parametrize(
    ("loose", "tight", "word", "said"),
    [
        (SHOWN, SHOWN, "reproduced", "2 of 2 at 0.01, 2 of 2 at 0.0001; 1% of the tokens need"),
        (SHOWN, ALL_HARD, "partly", "2 of 2 at 0.01, 1 of 2 at 0.0001"),
        (ALL_HARD, NONE_HARD, "partly", "1 of 2 at 0.01, 1 of 2 at 0.0001"),
    ],
)
def test_verdicts(loose: dict[str, Any], tight: dict[str, Any], word: str, said: str) -> None:
    outcomes = [outcome(POINTS[0], SHOWN, SHOWN), outcome(POINTS[8], loose, tight)]
    verdict = figure.judge(figure.collect(outcomes))
    assert verdict.word == word
    assert said in verdict.because


def test_no_run_refutes_and_a_failed_one_counts() -> None:
    record = Record.failed(POINTS[1], None, ValueError("no luck"), None, 1.0)
    lost = Outcome(POINTS[1], {"training": record}, complete=True)
    verdict = figure.judge(figure.collect([outcome(POINTS[0], SHOWN, SHOWN), lost]))
    assert verdict.word == "partly"
    assert "1 of 2 at 0.01, 1 of 2 at 0.0001; 1% of the tokens need more than twice" in verdict.because
    assert verdict.because.endswith("the hardest tenth takes 30% of all self-iterations")
    assert figure.judge(figure.collect([outcome(POINTS[0], ALL_HARD, NONE_HARD)])).word == "not reproduced"


@pytest.fixture
def found() -> Results:
    return figure.collect([outcome(point, SHOWN, tokens(0.5, 0.2, 0.2), 0.5) for point in POINTS])


def of_color(lines: list[Line2D], task: str) -> list[list[float]]:
    color = iterations_at_test.TASK_LOOKS[task].color
    return [np.asarray(line.get_ydata()).tolist() for line in lines if line.get_color() == color]


def test_every_run_is_drawn_in_every_panel(found: Results) -> None:
    with styled():
        length, loose, tight, kinds = figure.draw(found, 6.75).axes
    for task in ("parity", "S3", "S5-generators"):
        lines = of_color(list(length.lines), task)
        assert lines == [[5.0] * 5, [2.0 * length for length in LENGTHS]] * 3
        for panel in (loose, tight):
            (shares,) = {tuple(line) for line in of_color(list(panel.lines), task)}
            assert len(of_color(list(panel.lines), task)) == 3
            assert shares[:6] == (1.0, 0.4, 0.4, 0.4, 0.2, 0.2)
        marks = [
            line for line in kinds.lines if line.get_color() == iterations_at_test.TASK_LOOKS[task].color
        ]
        assert [np.asarray(line.get_xdata()).tolist() for line in marks] == [list(VARIANCES.values())] * 3
    assert [text.get_text() for text in kinds.get_yticklabels()] == list(figure.KINDS.values())


def test_where_nothing_varies_nothing_is_marked(found: Results) -> None:
    changed = copy.deepcopy(found)
    at = changed["tasks"]["parity"]["seeds"]["0"]["hardest"]["0.0001"]["explained"]
    at["token"]["variance"] = None
    with styled():
        kinds = figure.draw(changed, 6.75).axes[-1]
    color = iterations_at_test.TASK_LOOKS["parity"].color
    marks = [line for line in kinds.lines if line.get_color() == color]
    assert [len(np.asarray(line.get_xdata())) for line in marks] == [5, 6, 6]


def test_caption_tells_what_did_not_converge(found: Results) -> None:
    words = figure.caption(found)
    assert "mean per token over all records: parity 8.0, 8.0, 8.0; S3" in words  # all of it is free
    assert "parity simultaneous to 0.01 50%" in words
    assert "sequential to" not in words
    assert "parity 8.0, 8.0, 8.0" in words
    assert "more than 8 to 0.01: parity 10%; S3 10%; S5, generators 10%; more than 16 to 0.0001" in words
    assert "more than 16 to 0.0001: parity 20%; S3 20%; S5, generators 20%." in words
    assert "take 2.00 to 2.00 times the mean" in words
    assert "state as it is, take 0.50 to 0.50 times what others take" in words
    assert "(state and token: parity 60%; S3 60%;" in words
    everywhere = figure.collect([outcome(POINTS[0], SHOWN, SHOWN)])
    assert "All tokens converged." in figure.caption(everywhere)


def test_the_stored_results_hold_every_run_and_their_shares_follow_from_their_histograms() -> None:
    stored = StoredResults.read("iterations_needed").results["tasks"]
    assert list(stored) == ["parity", "S3", "S5-generators"]
    for group in stored.values():
        assert sorted([*group["seeds"], *map(str, group["failed"])]) == ["0", "1", "2"]
        for run in group["seeds"].values():
            for at in run["tolerances"].values():
                counts = {int(number): count for number, count in at["tokens"]["histogram"].items()}
                total = sum(counts.values())
                assert total == 128 * 512
                for limit, share in at["tokens"]["more_than"].items():
                    beyond = sum(count for number, count in counts.items() if number > int(limit))
                    assert share == pytest.approx(beyond / total, abs=1e-15)
                mean = sum(number * count for number, count in counts.items()) / total
                assert at["sequential"]["iterations"]["512"] == pytest.approx(mean, rel=1e-12)
