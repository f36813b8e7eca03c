"""The stand-in for a long solve holds as much memory as the solve; the check of the modes."""

from functools import partial

import pytest

from analysis.framework.needs import as_implicit
from benchmarks import solvers
from benchmarks.frame import IncorrectError
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


def test_the_check_notices_other_answers_and_tokens_not_converged() -> None:
    run = load_run("parity-small")
    model, tokens = as_implicit(run), draw_batch(run.task, 2, 6, 0, Stream.TEST, 6).tokens
    solutions = {
        mode: solvers.solve(model, tokens, mode, Stopping(rtol=1e-3, max_iterations=1000))
        for mode in solvers.MODES
    }
    solvers.check(solutions)
    solution, decoded = solutions["windowed"]
    with pytest.raises(IncorrectError, match="decode 12 tokens differently"):
        solvers.check({**solutions, "windowed": (solution, 1 - decoded)})
    early = solvers.solve(model, tokens, "windowed", Stopping(rtol=1e-3, max_iterations=1))
    with pytest.raises(IncorrectError, match=r"windowed: only 0.00% of the tokens converged"):
        solvers.check({**solutions, "windowed": early})
