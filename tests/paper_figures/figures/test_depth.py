"""Layers against tokens: the fewest that reach the accuracy, cell by cell, and the verdict."""

from typing import Any

import pytest

from analysis.framework.figures import styled
from paper_figures.figures import depth
from paper_figures.figures.figure import Results
from paper_figures.figures.s5_length_generalization import EXPERIMENT
from paper_figures.figures.s5_training import ACCURACY
from paper_figures.stored_results import StoredResults
from tests.paper_figures.figures.s5_outcomes import failed, outcome, points_of


def runs(*rows: dict[int, float], failures: int = 0) -> dict[str, Any]:
    """Runs of one depth: accuracy by token, the given ones and 0 elsewhere."""
    seeds = {
        str(seed): {str(token): row.get(token, 0.0) for token in depth.TOKENS}
        for seed, row in enumerate(rows)
    }
    return {"seeds": seeds, "failed": list(range(len(rows), len(rows) + failures))}


@pytest.fixture
def found() -> Results:
    """Explicit: one layer does four tokens, two do six in one run of two. Implicit: all, but a run failed."""
    everywhere = dict.fromkeys(depth.TOKENS, 0.95)
    families = {
        "implicit-mamba2": {"1": runs(everywhere, everywhere, failures=1)},
        "mamba2": {
            "1": runs({4: 0.9}, {4: 1.0}),
            "2": runs({4: 1.0, 6: 0.9}, {4: 1.0, 6: 0.89}),
            "4": runs({}),
        },
    }
    return {"sequences": 256, "tokens": list(depth.TOKENS), "enough": 0.9, "families": families}


def test_it_is_drawn_from_the_runs_of_the_other_figure() -> None:
    assert [point.identifier for point in depth.EXPERIMENT.points] == [
        point.identifier for point in EXPERIMENT.points
    ]
    assert depth.EXPERIMENT.measurements == (ACCURACY,)


@pytest.mark.parametrize(
    ("model", "token", "every", "layers"),
    [
        ("mamba2", 4, True, 1),
        ("mamba2", 6, False, 2),
        ("mamba2", 6, True, None),
        ("mamba2", 8, False, None),
        ("implicit-mamba2", 32, False, 1),
        ("implicit-mamba2", 32, True, None),  # a run failed
    ],
)
def test_fewest_layers(found: Results, model: str, token: int, every: bool, layers: int | None) -> None:
    assert depth.fewest_layers(found["families"][model], token, every=every) == layers


def test_cells_hold_the_fewest_layers_of_one_run_and_of_all(found: Results) -> None:
    with styled():
        (axes,) = depth.draw(found, 3.3).axes
    cells = {(text.get_position()[1], text.get_position()[0]): text.get_text() for text in axes.texts}
    assert [cells[0, column] for column in range(2)] == ["1 (–)", "1 (–)"]
    assert [cells[1, column] for column in range(3)] == ["1", "2 (–)", "–"]


def test_accuracy_is_that_of_the_token_itself() -> None:
    (point, *_) = points_of("mamba2")
    one = outcome(point, 0.5)
    one.records["accuracy"].value["by_position"] = [number / 100 for number in range(1, 33)]
    (family,) = depth.collect([one])["families"].values()
    assert family["1"]["seeds"]["0"] == {str(token): token / 100 for token in depth.TOKENS}


def test_verdicts(found: Results) -> None:
    assert depth.judge(found).word == "partly"
    found["families"]["implicit-mamba2"]["1"]["failed"] = []
    everywhere = dict.fromkeys(depth.TOKENS, 0.95)
    assert depth.judge(found).word == "partly"  # the control was not trained
    found["families"]["lstm"] = {"1": runs({4: 1.0})}
    assert depth.judge(found).word == "partly"  # nor did it learn what it can
    assert "LSTM, which can do with 1, at token 32 none of those tried" in depth.judge(found).because
    found["families"]["lstm"] = {"1": runs({}, everywhere)}
    assert depth.judge(found).word == "reproduced"
    found["families"]["mamba2"] = {"1": runs({4: 1.0}), "2": runs(everywhere)}
    assert depth.judge(found).word == "reproduced"
    found["families"]["mamba2"] = {"1": runs(everywhere)}
    assert depth.judge(found).word == "partly"
    found["families"]["mamba2"] = {"1": runs({}), "2": runs({})}
    assert depth.judge(found).word == "partly"  # it learnt nothing at all, with any number of layers
    found["families"]["mamba2"] = {"1": {"seeds": {}, "failed": [0]}}
    assert depth.judge(found).word == "partly"
    del found["families"]["mamba2"]
    assert depth.judge(found).word == "partly"
    found["families"]["implicit-mamba2"]["1"] = runs({4: 1.0})
    assert depth.judge(found).word == "not reproduced"


def test_runs_that_failed_reach_nothing() -> None:
    first, second, _ = points_of("mamba2")
    (depths,) = depth.collect([outcome(first, 1.0), failed(second)])["families"].values()
    assert depth.fewest_layers(depths, 4, every=False) == 1
    assert depth.fewest_layers(depths, 4, every=True) is None


def test_stored_and_shared_results_are_the_same() -> None:
    families = StoredResults.read("depth").results["families"]
    for group in StoredResults.read("s5_length_generalization").results["groups"]:
        model = group["settings"]["model"]
        held = families[model][str(group["settings"].get("layers", 1))]["seeds"]
        for seed, run in group["seeds"].items():
            assert held[seed] == {str(token): run["by_position"][token - 1] for token in depth.TOKENS}
