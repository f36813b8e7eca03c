"""Verdicts by a share of the runs, at their borders."""

from collections.abc import Sequence

import pytest

from paper_figures.claims import ShareOfRuns
from paper_figures.rows import MeasuredRun, Rows, rows_of, where


def rows(**accuracies: Sequence[float | None]) -> Rows:
    """A row per model with an accuracy per seed; None is a run that failed."""
    return rows_of(
        MeasuredRun(
            {"model": model, "seed": seed},
            {} if accuracy is None else {"accuracy": {"512": accuracy}},
            "failed" if accuracy is None else "done",
            {},
        )
        for model, of_model in accuracies.items()
        for seed, accuracy in enumerate(of_model)
    )


RIGHT, WRONG = 0.99, 0.9899


@pytest.mark.parametrize(
    ("lstm", "gru", "word"),
    [
        ([RIGHT] * 5, [WRONG], "reproduced"),
        ([RIGHT] * 4 + [WRONG], [WRONG], "reproduced"),  # a share of 0.8
        ([RIGHT] * 4 + [None], [WRONG], "reproduced"),
        ([RIGHT] * 3 + [WRONG] * 2, [WRONG], "partly"),
        ([RIGHT] * 3 + [None] * 2, [WRONG], "partly"),  # of five, not of three
        ([RIGHT] * 5, [WRONG, RIGHT], "partly"),  # a control reaches it
        ([RIGHT] + [WRONG] * 4, [], "partly"),
        ([WRONG] * 5, [RIGHT], "not reproduced"),
        ([None] * 5, [WRONG], "not reproduced"),
    ],
)
def test_enough_runs_reach_it_and_no_control_does(
    lstm: list[float | None], gru: list[float | None], word: str
) -> None:
    claim = ShareOfRuns("accuracy@512", 0.99, "LSTM", reproduced=0.8, controls=where(model="gru"))
    verdict = claim(rows(lstm=lstm, gru=gru))
    assert verdict.word == word
    assert f"LSTM {lstm.count(RIGHT)} of {len(lstm)}" in verdict.because


def test_all_runs_are_needed_unless_a_share_is_given() -> None:
    claim = ShareOfRuns("accuracy@512", 0.99, where(model="lstm"))
    assert claim(rows(lstm=[RIGHT] * 4 + [WRONG], gru=[RIGHT])).word == "partly"
    assert claim(rows(lstm=[RIGHT] * 5, gru=[RIGHT])).word == "reproduced"  # it is no control
