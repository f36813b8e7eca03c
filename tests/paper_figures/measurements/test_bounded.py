"""Accuracy after the sweeps of a bounded phase, and what a training cost."""

from collections.abc import Callable

import numpy as np

from analysis.length_generalization import LengthSettings
from implicit.gradients import Unrolled
from implicit.modes import Solve
from implicit.runs.loading import Run
from implicit.training.streams import Stream, draw_batch
from paper_figures.experiments.grid import Point
from paper_figures.figures.bounded_and_free import BoundedSettings, measure_bounded
from paper_figures.registry import figure_named

BOUNDED_ONLY = figure_named("bounded_and_free").experiment.points[0]


def test_bounded_accuracy_is_that_of_so_many_sweeps_on_the_same_sequences(
    untrained: Callable[[Point], Run],
) -> None:
    run = untrained(BOUNDED_ONLY)
    lengths = LengthSettings(lengths=(12, 20), sequences=6, batch_size=4)
    found = measure_bounded(run, BoundedSettings(iterations=2, lengths=lengths))["bounded_accuracy"]
    right = []
    for index, size in enumerate((4, 2)):  # as `analysis.length_generalization` draws them
        batch = draw_batch(run.task, size, 20, 0, Stream.TEST, 20, index)
        output = run.model.run(batch.tokens, solve=Solve("simultaneous", gradient=Unrolled(2)))
        assert output.solution is not None
        assert (output.solution.iterations == 2).all()
        right.append((output.logits.argmax(dim=-1) == batch.targets).numpy())
    correct = np.concatenate(right)
    assert found == {"12": correct[:, 2:12].mean(), "20": correct[:, 10:20].mean()}
