"""Fixtures of the tests of models."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from tests.implicit.models.contract_cases import BATCH, LENGTH, VOCABULARY


@pytest.fixture
def float64() -> Iterator[None]:
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def tokens() -> Tensor:
    return torch.randint(VOCABULARY, (BATCH, LENGTH), generator=torch.Generator().manual_seed(2))
