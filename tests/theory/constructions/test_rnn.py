import pytest
import torch
from torch import Tensor

from implicit.fixed_point import DampedPicard, Stopping
from implicit.gradients import Phantom
from implicit.modes.plain import solve_sequentially, solve_simultaneously
from implicit.modes.recurrence import Recurrence
from tests.refusals import refusals
from tests.theory.transitions import random
from theory.constructions import ImplicitSSM, ssm_of_map, ssm_of_rnn


def make_rnn(nonlinearity: str, gain: float, seed: int = 0, size: int = 16) -> torch.nn.RNN:
    """Weights with ‖W‖₂ = gain: below 1 every RNN with a 1-Lipschitz φ contracts."""
    torch.manual_seed(seed)
    rnn = torch.nn.RNN(4, size, nonlinearity=nonlinearity, batch_first=True, dtype=torch.float64)
    with torch.no_grad():
        recur = torch.randn(size, size, dtype=torch.float64)
        rnn.get_parameter("weight_hh_l0").copy_(gain * recur / torch.linalg.matrix_norm(recur, ord=2))
    return rnn.requires_grad_(False)


def inputs_of(length: int) -> Tensor:
    return random(3, length, 4, seed=1)


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
@pytest.mark.parametrize("decay", [0.5, -0.25])
def test_sequential_mode_is_torchs_rnn_over_5000_tokens(nonlinearity: str, decay: float) -> None:
    rnn, inputs = make_rnn(nonlinearity, gain=0.9), inputs_of(5000)
    expected, _ = rnn(inputs)
    # A step is off by less than 20 ε max(1, |h|) / |λ|, ε = 1.1e-16 (two additions of terms of order h, a
    # subtraction and a division by λ), |h| < 30 and 1/|λ| ≤ 4; contraction by 0.9 sums that to ten times
    # as much.
    torch.testing.assert_close(ssm_of_rnn(rnn, decay=decay).run(inputs), expected, rtol=0, atol=3e-12)


@pytest.mark.parametrize(("nonlinearity", "gain", "decay"), [("tanh", 0.9, 0.0625), ("relu", 0.4, 0.25)])
def test_simultaneous_mode_is_torchs_rnn(nonlinearity: str, gain: float, decay: float) -> None:
    """ReLU states have no bound, so its sweeps are given weights with which they do not grow."""
    rnn, inputs = make_rnn(nonlinearity, gain), inputs_of(100)
    expected, _ = rnn(inputs)
    result = ssm_of_rnn(rnn, decay=decay).solve(inputs, tolerance=1e-12)
    assert result.converged.all()
    # the tolerance is on a sweep's change, which contracts by 0.9 per token: at most 10 times as far away
    torch.testing.assert_close(result.states, expected, rtol=0, atol=1e-11)
    assert (result.sweeps <= torch.arange(100) + 1).all()  # one more than in exact arithmetic, for rounding


def test_sixty_sweeps_do_for_a_small_decay_only() -> None:
    """Three networks of 8 units: a sweep multiplies errors by up to (0.9 + λ)/(1 − λ) before the front."""
    off: dict[float, list[float]] = {0.0625: [], 0.5: [], 1.0: []}
    for seed in range(3):
        rnn, inputs = make_rnn("tanh", gain=0.9, seed=seed, size=8), inputs_of(100)
        expected, _ = rnn(inputs)
        for decay, found in off.items():
            states = ssm_of_rnn(rnn, decay=decay).solve(inputs, max_sweeps=60).states
            found.append(float((states - expected).abs().max()))
    assert max(off[0.0625]) < 1e-11
    # how far sweeps that diverge get depends on rounding, hence on the processor; states lie in (−1, 1)
    assert min(off[0.5]) > 1
    assert min(off[1.0]) > 2


def test_a_linear_rnn_needs_exactly_as_many_sweeps_as_the_powers_of_w_minus_lambda() -> None:
    """Sweeps multiply the error by W − λ: one for W = λ I, k + 1 for W − λ nilpotent of index k + 1."""
    shift = torch.diag(torch.ones(4, dtype=torch.float64), 1)  # nilpotent of index 5
    inputs = torch.ones(1, 30, 5, dtype=torch.float64)
    for nilpotent, index in ((0 * shift, 1), (shift @ shift, 3), (shift, 5)):
        weights = 0.5 * torch.eye(5, dtype=torch.float64) + nilpotent

        def step(state: Tensor, inputs: Tensor, weights: Tensor = weights) -> Tensor:
            return state @ weights.T + inputs

        result = ssm_of_map(step, torch.zeros(5, dtype=torch.float64), 0.5).solve(inputs, tolerance=1e-9)
        assert result.converged.all()
        assert int(result.sweeps.max()) == index


def test_the_toolkits_own_modes_solve_a_construction() -> None:
    """The same numbers from implicit.modes, which know nothing of constructions."""
    rnn, inputs = make_rnn("tanh", gain=0.9), inputs_of(12)
    expected, _ = rnn(inputs)
    ssm = ssm_of_rnn(rnn)
    recurrence = as_recurrence(ssm, inputs)
    stopping = Stopping(rtol=1e-12, atol=1e-13, max_iterations=40)
    start = torch.zeros(3, 12, 16, dtype=torch.float64)
    for solve in (solve_sequentially, solve_simultaneously):
        result = solve(recurrence, DampedPicard(1.0), stopping, Phantom(), start)
        assert result.solution.converged.all()
        # stopped within 1e-12 relative of the fixed point, ten times as far where errors add up
        torch.testing.assert_close(result.state["h"], expected[:, -1], rtol=0, atol=1e-10)
        if solve is solve_sequentially:
            # the first iteration reaches the fixed point, the second sees that it does
            assert int(result.solution.iterations.max()) <= 2


def as_recurrence(ssm: ImplicitSSM, inputs: Tensor) -> Recurrence:
    return Recurrence(
        inputs=[inputs],
        state={"h": ssm.initial.expand(len(inputs), -1)},
        sweep=lambda z, x, s: (lambda found: (found[0], {"h": found[1][:, -1]}))(ssm.sweep(z, x[0])),
        advance=lambda z, x, s: (ssm.self_map(z, s["h"], x[0]), {"h": ssm.update(z, s["h"], x[0])}),
        states=lambda z, x, s: s,
    )


SMALL = torch.nn.RNN(2, 2)
test_unrepresentable_networks_are_refused = refusals(
    (lambda: ssm_of_rnn(torch.nn.RNN(2, 2, num_layers=2)), "rnn has 2 layers"),
    (lambda: ssm_of_rnn(torch.nn.RNN(2, 2, bidirectional=True)), "bidirectional=True"),
    (lambda: ssm_of_rnn(SMALL, decay=0.0), r"decay is 0\.0"),
    (lambda: ssm_of_rnn(SMALL, torch.full((2,), 2.0)), r"bound is 1\.0 but an entry of initial is 2"),
    (lambda: ssm_of_rnn(SMALL).run(torch.zeros(1, 0, 2)), "inputs has shape"),
    (lambda: ssm_of_rnn(SMALL).run(torch.zeros(1, 3, 5)), r"shape \[1, 3, 5\] and .* give \[B, L, 2\]"),
    (lambda: ssm_of_rnn(SMALL).solve(torch.zeros(1, 1, 2), max_sweeps=0), "max_sweeps is 0"),
)
