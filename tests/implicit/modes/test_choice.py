"""What the default mode chooses, and the adjoint of states that nothing reads."""

from typing import Any

import pytest
import torch

from implicit.fixed_point import Anderson, DampedPicard, Solver
from implicit.gradients import Implicit, Unrolled
from implicit.modes import Recurrence, Solve, Windowed
from implicit.modes.adjoint import solve_adjoint
from implicit.modes.solve import chosen_mode


@pytest.mark.parametrize(
    ("solve", "solver", "shape", "one_launch", "gradient", "mode"),
    [
        (Solve(), DampedPicard(), (16, 9), False, False, "windowed"),
        (Solve(), DampedPicard(), (17, 9), False, False, "sequential"),
        (Solve(), DampedPicard(), (16, 8), False, False, "sequential"),
        (Solve(), DampedPicard(), (17, 8), False, True, "sequential"),
        (Solve(windows=Windowed()), DampedPicard(), (17, 8), False, False, Windowed()),
        (Solve(), DampedPicard(), (1, 1), False, True, "sequential"),
        (Solve(), DampedPicard(), (1, 64), True, True, "sequential"),
        (Solve(), Anderson(), (1, 64), True, False, "simultaneous"),
        (Solve(gradient=Unrolled(2)), DampedPicard(), (1, 64), True, True, "simultaneous"),
        (Solve(gradient=Implicit()), DampedPicard(), (1, 64), False, True, "windowed"),
        (Solve("sequential"), Anderson(), (1, 64), False, True, "sequential"),
        (Solve("simultaneous"), DampedPicard(), (1, 64), True, False, "simultaneous"),
    ],
    ids=str,
)
def test_the_default_mode_is_chosen_as_documented(
    solve: Solve, solver: Solver, shape: tuple[int, int], one_launch: bool, gradient: bool, mode: object
) -> None:
    with torch.set_grad_enabled(gradient):
        assert chosen_mode(solve, solver, torch.zeros(*shape, 3), one_launch=one_launch) == mode


def test_windows_with_options_are_kept() -> None:
    options = Windowed(width=3)
    assert chosen_mode(Solve(options), DampedPicard(), torch.zeros(64, 1, 3), one_launch=True) is options


def test_a_part_of_the_state_that_nothing_reads_changes_no_adjoint() -> None:
    """Φ(z; h) = z / 2 + h and h' = h + z, as without the part that only keeps the last latent."""

    def advance(z: torch.Tensor, x: Any, s: Any) -> tuple[torch.Tensor, Any]:
        return z / 2 + s["h"], {name: s["h"] + z if name == "h" else z for name in s}

    def states(z: torch.Tensor, x: Any, s: Any) -> Any:
        sums = torch.cat([s["h"][:, None], s["h"][:, None] + z.cumsum(1)], 1)
        return {name: sums if name == "h" else torch.cat([s[name][:, None], z], 1) for name in s}

    zero, z = torch.zeros(1, 1), torch.zeros(1, 3, 1)
    found = [
        solve_adjoint(Recurrence([z], state, advance, advance, states), z, torch.ones(1, 3, 1))
        for state in ({"h": zero}, {"h": zero, "last": zero}, {"last": zero, "h": zero})
    ]
    # v₃ = 2; v₂ = 2 (1 + v₃); v₁ = 2 (1 + v₂ + v₃): J = [[½, 0, 0], [1, ½, 0], [1, 1, ½]]
    assert found[0].flatten().tolist() == [18.0, 6.0, 2.0]
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])
