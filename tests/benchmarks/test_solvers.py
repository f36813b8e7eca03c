"""What stands for a long solve while memory is watched holds as much as the solve."""

from functools import partial

import pytest

from analysis.framework.needs import as_implicit
from benchmarks import solvers
from benchmarks.memory import peak_bytes
from implicit import load_run
from implicit.fixed_point import Stopping
from implicit.modes import Mode
from implicit.training.streams import Stream, draw_batch


@pytest.mark.parametrize("mode", ["simultaneous", "sequential"])
def test_a_few_iterations_hold_as_much_as_many(mode: Mode) -> None:
    run = load_run("parity")
    model = as_implicit(run)
    model.without_kernels()
    tokens, _ = draw_batch(run.task, 2, 12, 0, Stream.TEST, 12)[:2]
    whole = partial(solvers.solve, model, tokens, mode, Stopping(rtol=1e-3, max_iterations=1000))
    found, _ = whole()
    if mode == "simultaneous":
        assert found.iterations.min() + 2 < found.iterations.max()
    part = solvers.watched(model, tokens, mode, found, 1e-3)
    assert part is not None
    assert peak_bytes(part) == peak_bytes(whole)
