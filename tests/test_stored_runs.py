"""The claims about stored runs, asserted with the assertions that users get in `theory.testing`."""

import pytest
import torch

from analysis.framework.visited_states import in_double_precision, sample_sequences, visited_states
from implicit.fixed_point import Stopping
from implicit.modes import Mode, Solve
from implicit.runs.loading import load_run
from tests.solving import solved
from theory.testing import assert_contractive, assert_fixed_point, assert_modes_agree, assert_theorem1

SEED = 20  # of the test streams here; no run was trained or selected on them
MODES: tuple[Mode, Mode] = ("simultaneous", "sequential")
STORED = [
    *("parity", "parity-small", "parity-attracted", "s3", "s3-small", "s5-generators"),
    *("parity-deltanet", "s3-gated-deltanet", "a4", "s4", "a5-generators"),
]
OF_H = [name for name in STORED if name not in {"s3-small", "parity-attracted"}]
"""Runs whose transition is non-linear in h at every visited state. `s3-small` and `parity-attracted` keep
their state in the window of the convolution: at some states ∂h'/∂h is a thousandth of other entries and less,
not to be told from a linear one."""


@pytest.mark.parametrize("name", OF_H)
def test_theorem1_holds_on_stored_runs(name: str) -> None:
    run = load_run(name)
    model = in_double_precision(run.model)
    tokens, _ = sample_sequences(run.task, 4, 24, SEED)
    visited = visited_states(model, tokens, 2)
    transition, here = model.transition(visited[0].token), [visited[0].state]
    assert_fixed_point(transition, here)
    assert_contractive(transition, here)
    assert_theorem1(transition, here, alternatives=[one.state for one in visited])


@pytest.mark.parametrize(
    ("name", "length", "least", "rtol"),
    [
        *((name, 256, 0.99, 1e-4) for name in ("parity-small", "parity-attracted", "s3-small")),
        ("s3-gated-deltanet", 256, 0.99, 1e-4),
        *((name, 512, 1.0, 1e-2) for name in ("parity", "s3", "a4", "s4")),
        *((name, 1024, 0.99, 1e-2) for name in ("a5-generators", "s5-generators")),
    ],
)
def test_stored_runs_solve_their_task(name: str, length: int, least: float, rtol: float) -> None:
    """Those of the recipes at the tolerance of training: at tighter ones S5 is right less often."""
    run = load_run(name)
    assert run.config.length <= 40
    tokens, labels = sample_sequences(run.task, 24, length, SEED)
    with torch.no_grad():
        solution = solved(run.model, tokens, mode="sequential", stopping=Stopping(rtol=rtol))
    assert solution.share_converged == 1
    assert (solution.logits.argmax(dim=-1) == labels)[:, -10:].double().mean() >= least


@pytest.mark.parametrize("name", STORED)
def test_modes_agree_on_stored_runs(name: str) -> None:
    run = load_run(name)
    tokens, _ = sample_sequences(run.task, 4, 32, SEED)
    # Both modes stop at a relative residual of 1e-5. An error in a latent is passed on to later tokens, so
    # the distance between the modes may be larger than that; 1e-2 is far below the distance of two fixed
    # points, which is of order 1.
    with torch.no_grad():
        modes = [Solve(mode, stopping=Stopping(rtol=1e-5)) for mode in MODES]
        assert_modes_agree(run.model, tokens, *modes, tolerance=1e-2)
