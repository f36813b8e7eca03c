"""Verdicts on claims follow the numbers that they are said to rest on."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from paper_figures.registry import FIGURES
from paper_figures.stored_results import StoredResults

Change = Callable[[dict[str, Any]], None]


def _seeds(found: dict[str, Any], model: str) -> list[dict[str, Any]]:
    return [
        run
        for group in found["groups"]
        if group["settings"]["model"] == model
        for run in group["seeds"].values()
    ]


def _solved(model: str, runs: int) -> Change:
    def change(found: dict[str, Any]) -> None:
        for group in found["groups"]:
            if group["settings"].get("model") == model:
                group["solved"]["runs"] = runs

    return change


def _holds(model: str, states: int) -> Change:
    def change(found: dict[str, Any]) -> None:
        for run in _seeds(found, model):
            run["theorem1"]["counts"]["holds"] = states

    return change


def _converged(share: float, seeds: int = 1) -> Change:
    def change(found: dict[str, Any]) -> None:
        for run in [*found["groups"][0]["seeds"].values()][:seeds]:
            run["sequential"]["share_converged"] = share

    return change


def _published(runs: int) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["variants"]["bounded, then free"]["solved"] = runs

    return change


CASES: list[tuple[str, Change, str, str]] = [
    ("length_generalization", _solved("implicit-mamba2", 4), "partly", "implicit Mamba-2 4 of 5"),
    ("length_generalization", _solved("implicit-mamba2", 0), "not reproduced", "implicit Mamba-2 0 of 5"),
    ("length_generalization", _solved("mamba2", 1), "partly", "explicit Mamba-2 2 of 6"),
    ("length_generalization", _solved("lstm", 0), "reproduced", "LSTM 0 of 6"),
    ("jacobians", _holds("implicit-mamba2", 63), "partly", "implicit Mamba-2 63 of 64"),
    ("jacobians", _holds("implicit-mamba2", 0), "not reproduced", "implicit Mamba-2 0 of 64"),
    ("jacobians", _holds("mamba2", 1), "partly", "explicit Mamba-2 1 of 64"),
    ("curricula", _published(2), "partly", "bounded, then free 2 of 3"),
    ("curricula", _published(0), "not reproduced", "bounded, then free 0 of 3"),
    ("convergence", _converged(0.99), "partly", "99.00% sequential"),
    ("convergence", _converged(0.0), "not reproduced", "0.00% sequential"),
]


@pytest.mark.parametrize(("name", "change", "word", "said"), CASES)
def test_changed_results_change_the_verdict(name: str, change: Change, word: str, said: str) -> None:
    found = copy.deepcopy(dict(StoredResults.read(name).results))
    change(found)
    verdict = FIGURES[name].claim.judge(found)
    assert verdict.word == word
    assert said in verdict.because


@pytest.mark.parametrize("name", ["length_generalization", "jacobians", "convergence", "curricula"])
def test_stored_results_reproduce(name: str) -> None:
    assert FIGURES[name].claim.judge(StoredResults.read(name).results).word == "reproduced"


@pytest.mark.parametrize("name", FIGURES)
def test_every_claim_names_its_source(name: str) -> None:
    claim = FIGURES[name].claim
    assert claim.statement
    assert not claim.statement.endswith(".")
    assert "20" in claim.source  # a year
