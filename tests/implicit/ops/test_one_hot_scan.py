"""The scan over column-one-hot matrices times diagonals against their dense matrices, one token at a time."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from implicit.ops.one_hot_scan import one_hot_scan

SIZE = 5


def material(length: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Random maps (not only permutations: entries meet), factors in the unit disc, inputs, and a state."""
    generator = torch.Generator().manual_seed(length)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.complex128)

    shape = (2, length, 3, SIZE)
    target = torch.randint(SIZE, shape, generator=generator)
    factor = normal(*shape)
    factor = factor / factor.abs().clamp(min=1)
    return target, factor, normal(*shape), normal(2, 3, SIZE)


def dense(target: Tensor, factor: Tensor, written: Tensor, initial: Tensor) -> Tensor:
    states = [initial]
    for t in range(target.shape[1]):
        P = functional.one_hot(target[:, t], SIZE).mT.to(factor.dtype)  # rows for targets
        D = torch.diag_embed(factor[:, t])
        states.append((P @ D @ states[-1][..., None])[..., 0] + written[:, t])
    return torch.stack(states, dim=1)


@pytest.mark.parametrize("length", [1, 2, 3, 63, 64, 65, 200])
def test_equals_products_of_dense_matrices(length: int) -> None:
    arguments = material(length)
    # float64: sums of at most 200 · 5 terms of order one.
    torch.testing.assert_close(one_hot_scan(*arguments), dense(*arguments), rtol=1e-11, atol=1e-11)


def test_permutations_are_carried_for_ever() -> None:
    """No decay and no rounding: after 6k steps of two cycles, of 2 and of 3, everything is where it was."""
    target = torch.tensor([1, 0, 3, 4, 2]).expand(1, 6 * 170, 1, 5)
    one = torch.ones(target.shape, dtype=torch.complex64)
    initial = torch.arange(1.0, 6).to(torch.complex64).view(1, 1, 5)
    states = one_hot_scan(target, one, 0 * one, initial)
    assert torch.equal(states[:, ::6], initial[:, None].expand(1, 171, 1, 5))
    assert not torch.equal(states[:, 3], initial)
