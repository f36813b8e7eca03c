"""Sequences sought against each model: what is collected, drawn, told and judged."""

from typing import Any

import numpy as np
import pytest

from analysis.belief import worst_rounds
from analysis.framework.output import RunIdentity
from implicit.runs.loading import load_run
from paper_figures.experiments.outcomes import Outcome
from paper_figures.experiments.point import Point
from paper_figures.experiments.records import Record
from paper_figures.figures import adversarial_beliefs
from paper_figures.figures.adversarial_beliefs import SETTINGS, WORST, AdversarySettings, measure
from paper_figures.figures.repl_traces import series_name
from paper_figures.stored_results import StoredResults

POINTS = adversarial_beliefs.EXPERIMENT.points
IDENTITY = RunIdentity("run", "likely-swaps-3-reveals", "lstm", 10, 64, 0, "0" * 64)


def outcome(point: Point, likely: float, largest: float = 1.0) -> Outcome:
    value: dict[str, Any] = {"random": 0.01, "likely": likely, "any": largest, "by_round": {}}
    records = {
        "training": Record.done(point, None, IDENTITY, None, 1.0),
        WORST.name: Record.done(point, WORST, IDENTITY, value, 2.0),
    }
    return Outcome(point, records, complete=True)


def found_with(likely: dict[str, float], largest: dict[str, float] | None = None) -> dict[str, Any]:
    """Every run of a series has the values of its name, or 1; those of any are at least the likely ones."""
    outcomes = []
    for point in POINTS:
        name = series_name(point.settings)
        value = likely.get(name, 1.0)
        outcomes.append(outcome(point, value, (likely if largest is None else largest).get(name, 1.0)))
    return adversarial_beliefs.collect(outcomes)


LOW = {"LSTM": 0.3, "implicit Mamba-2": 0.2}


@pytest.mark.parametrize(
    ("likely", "largest", "word"),
    [
        (LOW, LOW, "reproduced"),
        (LOW, {"LSTM": 0.6, "implicit Mamba-2": 0.2}, "partly"),  # twice as far on likely values alone
        (LOW, {"LSTM": 1.5, "implicit Mamba-2": 1.4}, "partly"),
        ({"LSTM": 0.6, "implicit Mamba-2": 0.2}, None, "partly"),  # not twice as far as the LSTM
        ({"LSTM": 1.5, "implicit Mamba-2": 0.2}, None, "partly"),
        ({"LSTM": 1.5, "implicit Mamba-2": 1.0}, None, "not reproduced"),
        ({"Mamba-2": 0.1, **LOW}, None, "not reproduced"),
        ({"Mamba-2": 0.1, **LOW}, LOW, "partly"),  # the likely ones tell against it, those of any for it
    ],
)
def test_verdicts(likely: dict[str, float], largest: dict[str, float] | None, word: str) -> None:
    assert adversarial_beliefs.judge(found_with(likely, largest)).word == word


def test_the_transformer_is_neither_linear_nor_a_rival() -> None:
    assert adversarial_beliefs.judge(found_with({"Transformer": 0.01, **LOW})).word == "reproduced"


def test_the_verdict_tells_of_both_searches() -> None:
    because = adversarial_beliefs.judge(found_with(LOW, {"LSTM": 0.5, "implicit Mamba-2": 0.4})).because
    likely, largest = because.split("; of any values that can occur: ")
    assert "LSTM 0.300, implicit Mamba-2 0.200" in likely
    assert "LSTM 0.500, implicit Mamba-2 0.400" in largest


def test_a_sequence_of_likely_values_is_one_of_any() -> None:
    found = adversarial_beliefs.collect([outcome(POINTS[0], 2.0, 1.0), outcome(POINTS[1], 0.5, 1.0)])
    (series,) = found["series"].values()
    assert [run["any"] for run in series["seeds"].values()] == [2.0, 1.0]


def test_what_is_measured_is_what_the_searches_find() -> None:
    run = load_run("lazy-swaps-gated-deltanet")
    settings = AdversarySettings(rounds=2, beam=2, sequences=8, likely=0.3)
    found = measure(run, settings)
    worst = worst_rounds(run, 2, 3, beam=2, sequences=8)
    likely = worst_rounds(run, 2, 3, beam=2, sequences=8, least_probability=0.3)
    assert (found["random"], found["any"], found["likely"]) == (worst.random_mean, worst.mean, likely.mean)
    assert found["by_round"]["any"] == worst.errors.tolist()


def test_the_stored_results_hold_every_run_as_drawn_and_told() -> None:
    stored = StoredResults.read("adversarial_beliefs")
    series = stored.results["series"]
    assert sum(len(one["seeds"]) for one in series.values()) == len(POINTS) == 24
    figure = adversarial_beliefs.FIGURE.picture(stored, 3.3)
    for axes, kind in zip(figure.axes, adversarial_beliefs.KINDS, strict=True):
        drawn = [np.asarray(line.get_xdata(), float).tolist() for line in axes.lines]
        assert drawn == [[run[kind] for run in one["seeds"].values()] for one in series.values()]
        assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(series)
    text = adversarial_beliefs.caption(dict(stored.results))
    assert f"{SETTINGS.rounds} rounds of {SETTINGS.actions} swaps and a reveal" in text
    assert f"a probability of at least {SETTINGS.likely:g}" in text
    assert "Sequences have 60 tokens" in text
    assert all(point.config.length > 60 for point in POINTS)
