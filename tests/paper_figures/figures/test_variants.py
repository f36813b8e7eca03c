"""Variants of a recipe: what is measured of a run is what the analyses measure."""

from collections.abc import Callable
from dataclasses import replace

from analysis.agreement import AgreementSettings
from analysis.agreement import analyse as compare_modes
from analysis.length_generalization import LengthSettings, analyse
from implicit.runs.loading import Run
from paper_figures.experiments.point import Point
from paper_figures.figures import curricula, variants

POINT = curricula.EXPERIMENT.points[0]


def test_measure_is_the_analysis_and_the_last_step(untrained: Callable[[Point], Run]) -> None:
    settings = LengthSettings(lengths=(4, 8), sequences=4)
    run = replace(untrained(POINT), metrics=[{"step": 3}, {"step": 7}])
    (expected,) = analyse(run, settings).numbers().values()
    measured = variants.measure(run, settings)
    assert (measured["accuracy"], measured["updates"]) == (expected["accuracy"], 7)


def test_agreement_is_that_of_the_analysis(untrained: Callable[[Point], Run]) -> None:
    settings = AgreementSettings(sequences=2, length=6, examples=0)
    run = untrained(POINT)
    found = compare_modes(run, settings)
    expected = {"agree": found.shares["agree"], "same_answer": float(found.same_answer.mean())}
    assert variants.measure_agreement(run, settings) == expected
