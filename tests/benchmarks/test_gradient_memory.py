"""The gradients whose memory is compared are right, and a wrong one is noticed."""

from functools import partial

import pytest
import torch
from torch import Tensor

from benchmarks import gradient_memory
from benchmarks.frame import IncorrectError


def test_the_check_notices_a_gradient_of_too_few_terms() -> None:
    case = next(iter(gradient_memory.cases()))
    assert case.parameters["iterations"] == 4
    case.check()
    works: dict[str, partial[Tensor]] = {
        contender.name: contender.work for contender in case.contenders if isinstance(contender.work, partial)
    }
    exact = works["implicit"]().double()
    # Four terms of the series are not the whole of it.
    with pytest.raises(IncorrectError, match="unrolled: the gradient is off by"):
        gradient_memory.check({"unrolled": works["unrolled"]}, {"unrolled": exact})


def test_not_a_number_is_wrong() -> None:
    work = partial(torch.full, (2,), torch.nan)
    with pytest.raises(IncorrectError, match="unrolled: the gradient is off by nan"):
        gradient_memory.check({"unrolled": work}, {"unrolled": torch.ones(2)})
