"""The windowed mode: the sequential mode's answer, also where several fixed points exist, or none."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from automata.errors import InputError
from implicit.fixed_point import Anderson, DampedPicard, Status, Stopping
from implicit.gradients import GradientRule, Implicit, Phantom, Unrolled
from implicit.modes import ModeResult, Recurrence, Windowed, solve_sequentially, solve_windowed
from implicit.modes.recurrence import Inputs
from implicit.modes.solve import solve_by
from implicit.modes.windowed import Candidates, verify
from tests.small_models import contracting_mamba2
from tests.solving import solved
from theory.transition import State

KEEP, SET_UP, SET_DOWN, SPIN = range(4)
DRIVE = torch.tensor([-0.1, 4.0, -4.0, 0.0], dtype=torch.float64)


def latch_map(z: Tensor, h: Tensor, drive: Tensor, spin: Tensor) -> Tensor:
    """Φ(z; h, x): a set token drives z to ±1, a keep token copies the sign of h, a spin token oscillates."""
    return torch.where(spin, 1 - z, torch.tanh(3 * z + 0.5 * h + drive))


def sweep(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
    before = torch.cat([state["h"][:, None], z[:, :-1]], dim=1)
    return latch_map(z, before, *inputs), {"h": z[:, -1]}


def advance(z: Tensor, inputs: Inputs, state: State) -> tuple[Tensor, State]:
    return latch_map(z, state["h"], *inputs), {"h": z}


def states(z: Tensor, inputs: Inputs, state: State) -> State:
    return {"h": torch.cat([state["h"][:, None], z], dim=1)}


def latch(tokens: Tensor) -> Recurrence:
    """Return the recurrence of tokens ``[batch, length]``, in float64 with one feature, h' = z.

    At a keep token z = tanh(3 z + h / 2 − 0.1) has a fixed point near 1 and one near −1. From z = 0 the right
    one is reached with h = ±1; with h = 0, as long as the token before has not been iterated, the one near
    −1, and it is not left any more.
    """
    inputs = [DRIVE[tokens][..., None], (tokens == SPIN)[..., None]]
    return Recurrence(inputs, {"h": DRIVE.new_zeros(len(tokens), 1)}, sweep, advance, states)


STOPPING = Stopping(rtol=1e-6, max_iterations=50)
VARIANTS = [
    Windowed(),
    Windowed(width=1, sweeps=1, block=1),
    Windowed(width=3, sweeps=2, block=5, patience=8),
    Windowed(width=64, sweeps=7, block=1000),
]
variants = pytest.mark.parametrize("options", VARIANTS, ids=["default", "smallest", "narrow", "wide"])


def sequences(*, spins: bool) -> Tensor:
    """Five sequences of 24 tokens; each begins with a set token, so that the answer is known."""
    generator = torch.Generator().manual_seed(0)
    chances = torch.tensor([0.85, 0.07, 0.04, 0.04 if spins else 0.0])
    tokens = torch.multinomial(chances.expand(5, 4), 24, replacement=True, generator=generator)
    tokens[:, 0] = SET_UP
    return tokens


def last_set(tokens: Tensor) -> Tensor:
    """The answer of a latch: the sign of the last set token."""
    place = torch.where(tokens != KEEP, torch.arange(tokens.shape[1]), 0).cummax(dim=1).values
    return torch.where(tokens.gather(1, place) == SET_UP, 1, -1)


@torch.no_grad()
def windowed(recurrence: Recurrence, options: Windowed, stopping: Stopping = STOPPING) -> ModeResult:
    start = torch.zeros_like(recurrence.inputs[0])
    return solve_windowed(recurrence, DampedPicard(1.0), stopping, Phantom(), start, options)


@torch.no_grad()
def sequential(recurrence: Recurrence, stopping: Stopping = STOPPING) -> ModeResult:
    start = torch.zeros_like(recurrence.inputs[0])
    return solve_sequentially(recurrence, DampedPicard(1.0), stopping, Phantom(), start)


@variants
def test_of_several_fixed_points_that_of_the_sequential_mode_is_found(options: Windowed) -> None:
    tokens = sequences(spins=False)
    expected = sequential(latch(tokens)).solution
    assert torch.equal(expected.value[..., 0].sign(), last_set(tokens))
    result = windowed(latch(tokens), options)
    assert result.solution.converged.all()
    # Both to 1e-6, with contractions of at most 0.1 (3 (1 − z²) at |z| > 0.98) within and between tokens.
    torch.testing.assert_close(result.solution.value, expected.value, rtol=0, atol=3e-6)
    torch.testing.assert_close(result.state["h"], result.solution.value[:, -1], rtol=0, atol=0)


def test_without_verification_the_other_fixed_points_are_found() -> None:
    """The control: the latch is a trap for whoever trusts what converged."""
    tokens = sequences(spins=False)
    trusting = windowed(latch(tokens), Windowed(block=None)).solution
    assert trusting.converged.all()
    assert (trusting.value[..., 0].sign() != last_set(tokens)).double().mean() > 0.3


@variants
def test_tokens_without_a_fixed_point_get_the_sequential_value_and_an_honest_status(
    options: Windowed,
) -> None:
    tokens = sequences(spins=True)
    expected = sequential(latch(tokens)).solution
    found = windowed(latch(tokens), options).solution
    assert torch.equal(found.status, expected.status)
    spinning = tokens == SPIN
    assert spinning.any()
    assert (found.status[spinning] == Status.MAX_ITERATIONS).all()
    assert (found.iterations[spinning] == STOPPING.max_iterations).all()
    assert torch.equal(found.value[spinning], expected.value[spinning])  # after 49 steps of 0 ↔ 1, exactly
    assert torch.equal(found.converged, found.converged.cummin(dim=1).values)
    torch.testing.assert_close(found.value, expected.value, rtol=0, atol=3e-6)  # as above


@variants
def test_a_value_that_is_not_finite_stays_in_its_sequence(options: Windowed) -> None:
    tokens = sequences(spins=False)
    recurrence = latch(tokens)
    recurrence.inputs[0][2, 13] = torch.nan
    found = windowed(recurrence, options).solution
    assert torch.equal(found.status, sequential(recurrence).solution.status)
    assert (found.status[2, 13:] == Status.NON_FINITE).sum() >= 1
    assert found.converged[:2].all()
    assert found.converged[2, :13].all()
    assert found.converged[3:].all()


@pytest.mark.parametrize("options", [VARIANTS[0], VARIANTS[2]], ids=["default", "narrow"])
def test_a_sequence_gives_the_same_alone_and_in_a_batch(options: Windowed) -> None:
    tokens = sequences(spins=True)
    together = windowed(latch(tokens), options)
    for row in (0, 3):
        alone = windowed(latch(tokens[row : row + 1]), options)
        for name in ("iterations", "status"):
            assert torch.equal(getattr(alone.solution, name)[0], getattr(together.solution, name)[row])
        assert torch.equal(alone.evaluations[0], together.evaluations[row])
        # tanh may round differently in another place of a vector
        torch.testing.assert_close(alone.solution.value[0], together.solution.value[row], rtol=0, atol=1e-14)


def test_evaluations_are_counted_exactly() -> None:
    tokens = torch.tensor([[SPIN, SPIN]])
    result = windowed(latch(tokens), Windowed(width=1, sweeps=4, patience=8), Stopping(max_iterations=9))
    # 8 in the window until patience ends, 1 for the state before, 9 on its own, 1 for the state after
    assert result.evaluations.tolist() == [[19, 19]]
    assert result.solution.iterations.tolist() == [[9, 9]]


def halving(length: int) -> Recurrence:
    """Φ(z) = (x + z) / 2 with x = 1: the residual and the error are 2⁻ᵏ after k evaluations from 0."""
    x = torch.ones(1, length, 1, dtype=torch.float64)
    half = lambda z, x, s: ((x[0] + z) / 2, s)  # noqa: E731
    return Recurrence([x], {}, half, half, lambda z, x, s: s)


def test_a_state_that_autocast_rounds_is_kept() -> None:
    rounded = lambda state: {"h": (state["h"] + 1).bfloat16()}  # noqa: E731
    plain, begun = halving(3), {"h": torch.zeros(1, 1)}
    recurrence = replace(
        plain,
        state=begun,
        advance=lambda z, x, s: (plain.advance(z, x, s)[0], rounded(s)),
        states=lambda z, x, s: {"h": s["h"].bfloat16()[:, None].expand(-1, z.shape[1] + 1, -1)},
    )
    assert windowed(recurrence, Windowed(width=2), stopping_of("rtol", 0.01)).solution.converged.all()


def stopping_of(tolerance: str, value: float) -> Stopping:
    options: dict[str, Any] = {"rtol": 0.0, "max_iterations": 60, tolerance: value}
    return Stopping(**options)


@pytest.mark.parametrize("tolerance", ["rtol", "atol"])
def test_candidates_are_iterated_to_the_tolerance_divided_by_the_precision(tolerance: str) -> None:
    def iterations(value: float, precision: float) -> list[int]:
        options = Windowed(width=4, sweeps=1, block=None, precision=precision)
        stopping = stopping_of(tolerance, value)
        return windowed(halving(3), options, stopping).solution.iterations[0].tolist()

    # |Φ(z) − z| = 2⁻ᵏ⁻¹ at the k-th iterate, 2⁻ᵏ⁻¹ ≤ 2⁻⁶ first at k = 5, the sixth evaluation; the relative
    # tolerance is that of |z| = 1 − 2⁻ᵏ, a little less
    late = tolerance == "rtol"
    assert iterations(2.0**-6, 1.0) == [6 + late] * 3
    assert iterations(2.0**-6, 8.0) == iterations(2.0**-9, 1.0) == [9 + late] * 3


def test_a_precision_that_floats_do_not_have_is_not_asked_for() -> None:
    """2⁻⁵² / 10 would never be met by numbers with 53 bits that go on being rounded."""
    tight = Stopping(rtol=4 * 2.0**-52, max_iterations=200)
    result = windowed(halving(2), Windowed(width=2, precision=1e6), tight).solution
    assert result.converged.all()
    assert (result.iterations < 60).all()


@pytest.mark.parametrize(("agreement", "accepted"), [(2.9, False), (3.1, True)])
@pytest.mark.parametrize("tolerance", ["rtol", "atol"])
def test_agreement_is_counted_in_tolerances(tolerance: str, agreement: float, accepted: bool) -> None:
    """A candidate that is three tolerances away from the solution from the start."""
    stopping, recurrence = stopping_of(tolerance, 2.0**-10), halving(1)
    candidate = sequential(recurrence, stopping).solution.value + 3 * 2.0**-10  # of norm 1 up to 0.002
    everywhere = torch.ones(1, 1, dtype=torch.bool)
    zero = torch.zeros_like(candidate)
    candidates = Candidates(candidate, zero, recurrence.inputs, {}, everywhere, everywhere)
    verdict = verify(recurrence, candidates, DampedPicard(1.0), stopping, agreement, burst=1)
    assert bool(verdict.replaced) is not accepted


def test_every_option_changes_what_it_should() -> None:
    stopping = Stopping(rtol=0.0, atol=2.0**-6, max_iterations=40)

    def evaluations(**options: Any) -> list[int]:
        plain = {"width": 4, "sweeps": 2, "block": 4, "precision": 1.0, "patience": 40}
        return windowed(halving(4), Windowed(**{**plain, **options}), stopping).evaluations[0].tolist()

    # 6 in the window and 1 to move it, 1 for the states to verify with and 6 to verify; 1 more at the end
    assert evaluations() == [14, 14, 14, 15]
    assert evaluations(block=None) == [7, 7, 7, 7]
    assert evaluations(precision=4.0) == [16, 16, 16, 17]
    assert evaluations(sweeps=4) == [8 + 1 + 1 + 8] * 3 + [19]
    # not done after 2 at the front, the first token is solved on its own: 1 for the states, 6, and 1 to go
    # on; every further one has been in its windows two evaluations longer
    assert evaluations(patience=2) == [10, 12, 14, 16]


def test_a_window_has_its_width() -> None:
    recurrence = halving(6)
    for width in (1, 2, 3):
        seen: list[int] = []

        def sweep(z: Tensor, x: Inputs, s: State, seen: list[int] = seen) -> tuple[Tensor, State]:
            seen.append(z.shape[1])
            return recurrence.sweep(z, x, s)

        windowed(replace(recurrence, sweep=sweep), Windowed(width=width, sweeps=1))
        assert max(seen) == width


@pytest.mark.parametrize(
    ("layers", "rule"), [(1, Implicit()), (2, Phantom(20))], ids=["implicit", "phantom-two-layers"]
)
def test_gradients_are_those_of_the_simultaneous_mode(layers: int, rule: GradientRule) -> None:
    model = contracting_mamba2(layers, residual=False)
    tokens = torch.randint(5, (2, 9), generator=torch.Generator().manual_seed(2))
    targets = torch.arange(18).remainder(3)
    gradients = {}
    for mode in ("simultaneous", "windowed"):
        solution = solved(model, tokens, mode, gradient=rule, stopping=Stopping(rtol=1e-11))
        loss = functional.cross_entropy(solution.logits.flatten(0, 1), targets)
        loss = loss + sum(tensor.square().mean() for tensor in solution.state.values())
        gradients[mode] = torch.autograd.grad(loss, list(model.parameters()))
    for expected, found in zip(gradients["simultaneous"], gradients["windowed"], strict=True):
        # solutions to 1e-11, amplified
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-9)


def test_what_windows_cannot_use_is_refused() -> None:
    model = contracting_mamba2()
    tokens = torch.ones(1, 4, dtype=torch.long)
    with pytest.raises(InputError, match=r"solver is Anderson\(.*give DampedPicard"):
        solved(model, tokens, "windowed", solver=Anderson())
    with pytest.raises(InputError, match=r"gradient is Unrolled\(iterations=4\).*give Phantom or Implicit"):
        solved(model, tokens, "windowed", gradient=Unrolled(4))
    for name in ("width", "sweeps", "block", "patience", "precision", "agreement"):
        with pytest.raises(InputError, match=f"{name} is 0; give"):
            Windowed(**{name: 0})


def test_windows_may_be_given_as_the_mode() -> None:
    given = halving(2), DampedPicard(1.0), STOPPING, Phantom(), torch.zeros(1, 2, 1, dtype=torch.float64)
    own, default = (solve_by(mode, *given).evaluations for mode in (Windowed(block=None), "windowed"))
    assert (own < default).all()  # nothing is verified
    with pytest.raises(InputError, match="auto"):
        solve_by("auto", *given)
