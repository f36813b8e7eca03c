"""An analysis of every kind that has a figure, small, and its figure: each is made once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis import all_words
from analysis.agreement import drawing as agreement_drawing
from analysis.agreement.measurement import analyse as measure_agreement
from analysis.belief import drawing as belief_drawing
from analysis.belief.measurement import analyse as measure_belief
from analysis.convergence import drawing as convergence_drawing
from analysis.convergence.measurement import analyse as measure_convergence
from analysis.error_control import drawing as error_drawing
from analysis.error_control.measurement import analyse as measure_errors
from analysis.extraction import drawing as extraction_drawing
from analysis.extraction.measurement import analyse as measure_extraction
from analysis.framework.output import RunIdentity
from analysis.front_speed import drawing as front_drawing
from analysis.front_speed.measurement import analyse as measure_fronts
from analysis.jacobian import drawing as jacobian_drawing
from analysis.jacobian.measurement import analyse as measure_jacobian
from analysis.length_generalization import drawing as length_drawing
from analysis.length_generalization.measurement import LengthAnalysis, LengthSettings, RunAccuracy
from analysis.mechanism import drawing as mechanism_drawing
from analysis.mechanism.measurement import compare as measure_mechanism
from automata.tasks.specification import task_from
from implicit.config.recipes import recipe
from implicit.runs.loading import Run, initial_model, load_run
from tests.small_models import small_sizes


def made_up_accuracies() -> LengthAnalysis:
    """Three seeds of one model, one run of another, one of a user's own model, none of them alike."""
    rng = np.random.default_rng(0)
    runs = []
    for number, (model, seed) in enumerate(
        [
            ("implicit-mamba2", 0),
            ("mamba2", 0),
            ("implicit-mamba2", 1),
            ("implicit-mamba2", 2),
            ("mine:Cell", 0),
        ]
    ):
        identity = RunIdentity(f"run-{number}", "parity", model, 10, 16, seed, "0" * 64)
        correct = rng.random((40, 64)) < 0.5 + 0.1 * number
        runs.append(RunAccuracy(identity, correct, None, {16: 0.5, 64: 0.5}))
    return LengthAnalysis(LengthSettings(lengths=(16, 64), sequences=40), tuple(runs))


def runs_with_a_belief() -> list[Run]:
    """A trained linear model, three seeds of an untrained LSTM, and a Transformer, whose state grows."""
    runs = [load_run("lazy-swaps-gated-deltanet")]
    task = task_from("lazy-swaps-3-reveals")
    for model, seed in (("lstm", 0), ("lstm", 1), ("lstm", 2), ("transformer", 0)):
        config = recipe("lazy-swaps-3-reveals", model, seed=seed, length=32, **small_sizes(model))
        run = Run(Path(f"{model}-{seed}"), config, initial_model(config, task).eval(), task, [])
        runs.append(run)
    return runs


FOUND: dict[str, Callable[[], Any]] = {
    "convergence": lambda: measure_convergence(load_run("parity"), sequences=3, length=16),
    "agreement": lambda: measure_agreement(load_run("parity"), sequences=4, length=16, examples=3, starts=4),
    "extraction": lambda: measure_extraction(
        load_run("parity"), sequences=8, length=16, fresh_words=8, times=2
    ),
    "dense extraction": lambda: measure_extraction(
        load_run("s3"), sequences=32, length=24, fresh_words=8, times=2
    ),
    "belief": lambda: measure_belief(
        runs_with_a_belief(), sequences=6, multiples=(1, 2, 4), probe_sequences=16, probe_validation=4
    ),
    "error_control": lambda: measure_errors(
        load_run("parity-small"), sequences=16, length=48, block=8, pairs=6, follow=8
    ),
    "front_speed": lambda: measure_fronts(
        load_run("parity-small"), sequences=3, length=48, walls=16, window=16
    ),
    "mechanism": lambda: measure_mechanism(
        [load_run("s3"), load_run("s3-gated-deltanet")],
        sequences=4,
        length=8,
        pairs=6,
        follow=4,
        states=2,
    ),
    "jacobian": lambda: measure_jacobian(load_run("parity"), sequences=3, length=16, states=6),
    "length_generalization": made_up_accuracies,
    "all_words": lambda: all_words.analyse(load_run("parity-small"), length=3),
}
DRAWN_BY: dict[str, Any] = {
    "convergence": convergence_drawing,
    "agreement": agreement_drawing,
    "extraction": extraction_drawing,
    "dense extraction": extraction_drawing,
    "belief": belief_drawing,
    "error_control": error_drawing,
    "front_speed": front_drawing,
    "mechanism": mechanism_drawing,
    "jacobian": jacobian_drawing,
    "length_generalization": length_drawing,
    "all_words": all_words,
}


@pytest.fixture(scope="session")
def found() -> Callable[[str], Any]:
    """Each analysis is made once."""
    return cache(lambda name: FOUND[name]())


@pytest.fixture(scope="session")
def drawn(found: Callable[[str], Any]) -> Callable[..., Figure]:
    """Each figure is drawn once."""
    return cache(lambda name, width=6.75: DRAWN_BY[name].draw(found(name), width))
