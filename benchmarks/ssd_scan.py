"""The gain of the chunked form of the SSD scan over the readable loop, forward and with the backward pass."""

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from benchmarks.frame import Benchmark, Case, Contender, Headline, require_close
from implicit.ops.ssd import ssd

SIZES = (
    {"batch": 8, "length": 256, "heads": 8, "head_size": 64, "state_size": 64},
    {"batch": 64, "length": 32, "heads": 4, "head_size": 16, "state_size": 16},
)
"""The layer of a small language model, and that of the parity recipe."""
TOLERANCE = 1e-4
"""Error of float32 outputs and gradients over their largest entry: 256 terms summed in another order."""


def cases() -> Iterator[Case]:
    for sizes in SIZES:
        arguments = random_arguments(**sizes)
        for passes in ("forward", "forward+backward"):
            run: Callable[[list[Tensor], str], object] = forward if passes == "forward" else forward_backward
            yield Case(
                parameters={"passes": passes, **sizes},
                check=partial(check, arguments),
                contenders=tuple(
                    Contender(backend, partial(run, arguments, backend))
                    for backend in ("chunked", "reference")
                ),
                turns=7,
            )


def random_arguments(batch: int, length: int, heads: int, head_size: int, state_size: int) -> list[Tensor]:
    """x, Δ, A, B, C in float32, with decays of 0.1 to 1 per token."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    arguments = [
        normal(batch, length, heads, head_size),
        torch.rand(batch, length, heads, generator=generator) + 0.01,
        -torch.rand(heads, generator=generator) * 2,
        normal(batch, length, 1, state_size) / state_size**0.5,
        normal(batch, length, 1, state_size),
    ]
    return [argument.requires_grad_() for argument in arguments]


@torch.no_grad()
def forward(arguments: list[Tensor], backend: str) -> Tensor:
    x, dt, A, B, C = arguments
    return ssd(x, dt, A, B, C, backend=backend)[0]


def forward_backward(arguments: list[Tensor], backend: str) -> tuple[Tensor, ...]:
    x, dt, A, B, C = arguments
    outputs, state = ssd(x, dt, A, B, C, backend=backend)
    return (outputs, state, *torch.autograd.grad((outputs**2).sum() + state.sum(), arguments))


def check(arguments: list[Tensor]) -> None:
    names = ("outputs", "state", *(f"gradient of {name}" for name in ("x", "dt", "A", "B", "C")))
    for name, one, other in zip(
        names, forward_backward(arguments, "chunked"), forward_backward(arguments, "reference"), strict=True
    ):
        require_close(f"{name} of the two backends differ", one, other, TOLERANCE)


BENCHMARK = Benchmark(
    "ssd_scan",
    "The SSD scan: chunked form against the readable loop",
    cases,
    checked="outputs, state and all gradients equal to 1e-4",
    headlines=tuple(
        Headline(
            f"SSD scan, {passes}, 8 x 256 tokens",
            "reference",
            "chunked",
            {"passes": passes, "batch": 8, "length": 256},
        )
        for passes in ("forward", "forward+backward")
    ),
)
