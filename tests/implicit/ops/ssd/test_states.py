"""The states of the scan against the final states of the reference on every prefix."""

import pytest
import torch

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
