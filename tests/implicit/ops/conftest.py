"""What the tests of kernels share."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture
def poisoned_memory() -> Iterator[None]:
    """Fill what is allocated without a value with NaN, so that an entry that no kernel writes shows."""
    torch.use_deterministic_algorithms(True)
    assert torch.empty(3, device="cuda" if torch.cuda.is_available() else "cpu").isnan().all()
    yield
    torch.use_deterministic_algorithms(False)
