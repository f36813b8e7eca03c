"""Peak memory against closed forms: tensors of known size, and a loop that keeps what its gradient needs."""

import os

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.memory import peak_bytes

# torch's CPU allocator is asked for the exact size of a tensor, so there is no tolerance.


def test_what_was_released_before_does_not_add_up() -> None:
    def work() -> None:
        x, y = torch.empty(1000, 1000), torch.empty(1000, 500)
        del x
        z = torch.empty(1000, 1200)
        del y, z

    assert peak_bytes(work) == 4 * 1000 * (500 + 1200)


def test_what_existed_before_does_not_count_nor_does_its_release() -> None:
    kept = [torch.empty(1000)]

    def work() -> None:
        kept.clear()
        torch.empty(600)

    assert peak_bytes(work) == 2400


@pytest.mark.parametrize("steps", [1, 4, 16])
def test_an_unrolled_loop_keeps_one_activation_a_step(steps: int) -> None:
    leaf = torch.ones(1000, requires_grad=True)

    def unrolled() -> Tensor:
        z = leaf
        for _ in range(steps):
            z = torch.sin(z)  # its gradient needs its argument
        return z

    assert peak_bytes(unrolled) == 4000 * steps


def test_a_loop_without_gradient_holds_two_iterates_at_most() -> None:
    def loop() -> None:
        z = torch.ones(1000)
        for _ in range(50):
            z = torch.sin(z)

    assert peak_bytes(loop) == 8000


def test_the_backward_pass_is_watched_too() -> None:
    leaf = torch.ones(1000, requires_grad=True)

    def work() -> tuple[Tensor, ...]:
        # The value, 4 bytes; the gradient of the sum is expanded from a scalar of 4 bytes; then its product
        # with the cosine, while both live.
        return torch.autograd.grad(torch.sin(leaf).sum(), leaf)

    assert peak_bytes(work) == 4 + 4 + 8000


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
