"""Lengths at which models fail, and those that short words foretell."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis import error_control as errors
from analysis.certificates.certificate import RefusedError
from analysis.certificates.proofs import executed
from analysis.framework.output import RunIdentity
from analysis.length_generalization import analyse
from implicit.compiled import compile_run, executed_bounds_of
from implicit.runs.loading import Run
from paper_figures.experiments.grid import Point
from paper_figures.figures.error_control import FailureSettings, certified, failure

SMALL = FailureSettings(lengths=(4, 8), sequences=4, words=16, pairs=2, follow=2)


def test_measure_is_the_two_analyses_and_reads_twice_the_training_length(
    untrained: Callable[[Point], Run],
) -> None:
    run = untrained(Point({"task": "S3", "model": "lstm", "length": 16, "seed": 0}))
    found = failure(run, SMALL)
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
    found = certified(SMALL)
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
    certified.cache_clear()
    with pytest.raises(RefusedError, match="margin"):
        certified(SMALL)
