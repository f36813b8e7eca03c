"""Peak memory against closed forms: tensors of known size, and a loop that keeps what its gradient needs."""

import os
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.memory import peak_bytes

# torch's CPU allocator is asked for the exact size of a tensor, so there is no tolerance.


def released() -> None:
    x, y = torch.empty(1000, 1000), torch.empty(1000, 500)
    del x
    z = torch.empty(1000, 1200)
    del y, z


def iterated(z: Tensor, steps: int) -> Tensor:
    for _ in range(steps):
        z = torch.sin(z)  # its gradient needs its argument
    return z


def differentiated(x: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(torch.sin(x).sum(), x)


def leaf() -> Tensor:
    return torch.ones(1000, requires_grad=True)


WORKS: dict[str, tuple[Callable[[], object], int]] = {
    "what was released does not add up": (released, 4 * 1000 * (500 + 1200)),
    **{
        f"an unrolled loop keeps an activation in each of {steps} steps": (
            partial(iterated, leaf(), steps),
            4000 * steps,
        )
        for steps in (1, 4, 16)
    },
    "a loop without gradient holds two iterates": (lambda: iterated(torch.ones(1000), 50), 8000),
    # The value, 4 bytes; the gradient of the sum is expanded from a scalar of 4 bytes; then its product
    # with the cosine, while both live.
    "the backward pass is watched": (partial(differentiated, leaf()), 4 + 4 + 8000),
}


@pytest.mark.parametrize(("work", "expected"), WORKS.values(), ids=WORKS)
def test_peak_of_tensors(work: Callable[[], object], expected: int) -> None:
    assert peak_bytes(work) == expected


def test_what_existed_before_does_not_count_nor_does_its_release() -> None:
    kept = [torch.empty(1000)]

    def work() -> None:
        kept.clear()
        torch.empty(600)

    assert peak_bytes(work) == 2400


def test_numpy_and_python_are_traced() -> None:
    def arrays() -> None:
        x = np.zeros(1_000_000)
        del x
        np.zeros(500_000)

    # tracemalloc also sees the objects around the data, a hundred bytes or so
    assert 8_000_000 <= peak_bytes(arrays, "python") < 8_001_000
    assert peak_bytes(lambda: bytes(10_000_000), "python") >= 10_000_000


def test_other_words_on_the_error_stream_are_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    peak_bytes(lambda: os.write(2, b"a word\n"))
    assert capfd.readouterr().err == "a word\n"


def test_a_fault_in_the_work_comes_through_and_the_error_stream_is_restored(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(ZeroDivisionError):
        peak_bytes(lambda: 1 / 0)
    os.write(2, b"still here\n")
    assert "still here" in capfd.readouterr().err
