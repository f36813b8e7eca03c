"""The states of the scan against the final states of the reference on every prefix."""

import pytest
import torch

from implicit.cells import Mamba2Cell
from implicit.ops.ssd import ssd_reference, ssd_states


@pytest.mark.parametrize("groups", [1, 2])
def test_the_state_after_every_token_is_the_final_state_of_its_prefix(groups: int) -> None:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=torch.float64, generator=generator)

    x, dt, A = draw(2, 9, 4, 3), draw(2, 9, 4).exp(), -draw(4).exp()
    B, C, initial = draw(2, 9, groups, 5), draw(2, 9, groups, 5), draw(2, 4, 3, 5)
    states = ssd_states(x, dt, A, B, initial)
    assert states.shape == (2, 10, 4, 3, 5)
    assert torch.equal(states[:, 0], initial)
    for t in range(1, 10):
        _, expected = ssd_reference(x[:, :t], dt[:, :t], A, B[:, :t], C[:, :t], initial)
        torch.testing.assert_close(states[:, t], expected, rtol=1e-12, atol=1e-13)  # float64 rounding


@pytest.mark.parametrize("d_conv", [1, 4])
@torch.no_grad()
def test_the_states_of_a_cell_are_those_of_its_steps(d_conv: int) -> None:
    torch.manual_seed(0)
    cell = Mamba2Cell(d_model=6, d_state=3, d_conv=d_conv, head_size=4, groups=3).double()
    inputs, injection = torch.randn(2, 7, 6).double(), torch.randn(2, 7, cell.d_in_proj).double()
    first = cell(inputs[:, :2], cell.init_state(2), injection[:, :2])[1]
    visited = cell.states(inputs[:, 2:], first, injection[:, 2:])
    state = first
    for t in range(2, 8):
        found = {name: part[:, t - 2] for name, part in visited.items()}
        torch.testing.assert_close(found, state, rtol=1e-12, atol=1e-13)  # float64 rounding
        if t < 7:
            state = cell.step(inputs[:, t], state, injection[:, t])[1]
