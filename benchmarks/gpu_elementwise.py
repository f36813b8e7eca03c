"""Gated norm and short convolution on a GPU: our kernels against PyTorch's passes, side by side in one run.

Run ``python -m benchmarks.gpu_elementwise [--out OUT.json]`` on a machine with a GPU. Each op is first
compared with the definition in float64, result and all gradients; one that is wrong reports no speed.
``--check-only`` ends there, and needs no GPU: the kernels then run in Triton's interpreter, at a size that it
can bear.

Timed are our kernels, our passes of PyTorch and the definition as autograd differentiates it, which is what a
cell without either would run. Beside the time stands the rate at which that moves the least that has to be
moved: every input and gradient read once, every result written once.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

from benchmarks import gpu_timing as gpu
from implicit.command_line import run_command
from implicit.ops.gated_norm import gated_norm
from implicit.ops.short_convolution import short_convolution

EPSILON = 1e-5
KERNEL, PASSES, AUTOGRAD = "kernel", "passes of PyTorch", "autograd"
# Largest error over the largest entry. float32: a few roundings of 6e-8, and sums over some 10^4 tokens of
# either sign. bfloat16: nothing but the results is rounded, by up to 2^-7: the interpreter cuts off, a GPU
# rounds to nearest.
TOLERANCES = {torch.float32: 1e-5, torch.bfloat16: 8e-3}


@dataclass(frozen=True)
class Sizes:
    batch: int = 8
    length: int = 2048
    d_model: int = 768
    expand: int = 2
    head_size: int = 64
    d_state: int = 128
    d_conv: int = 4
    groups: int = 1

    @property
    def d_inner(self) -> int:
        return self.expand * self.d_model


FULL = Sizes()
QUICK = Sizes(length=128)
INTERPRETED = Sizes(batch=2, length=9, d_model=12, head_size=8, d_state=5)


@dataclass(frozen=True)
class Op:
    """One op with its inputs, sliced as the cell slices them, as each contender runs it, the definition
    among them.
    """

    inputs: tuple[Tensor, ...]
    names: tuple[str, ...]
    contenders: dict[str, Callable[..., Tensor]]


def norm_by_pytorch(y: Tensor, x: Tensor, D: Tensor, gate: Tensor, weight: Tensor, groups: int) -> Tensor:
    gated = ((y + D[:, None] * x).flatten(-2) * functional.silu(gate)).unflatten(-1, (groups, -1))
    factor = torch.rsqrt(gated.square().mean(-1, keepdim=True) + EPSILON)
    return (gated * factor).flatten(-2) * weight


def convolution_by_pytorch(padded: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.silu(functional.conv1d(padded.mT, weight[:, None], bias, groups=len(weight))).mT


def ops(sizes: Sizes, dtype: torch.dtype, device: str) -> dict[str, Op]:
    """Both ops with random arguments of order one, of tensors as wide as those of the cell."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).to(device, dtype)

    token, inner, groups = (sizes.batch, sizes.length), sizes.d_inner, sizes.groups
    heads = inner // sizes.head_size
    channels = inner + 2 * groups * sizes.d_state
    x = normal(*token, channels)[..., :inner].unflatten(-1, (heads, sizes.head_size))
    gate = normal(*token, inner + channels + heads)[..., :inner]
    norm = (normal(*token, heads, sizes.head_size), x, normal(heads), gate, normal(inner))
    padded = normal(sizes.batch, sizes.d_conv - 1 + sizes.length, channels)
    convolution = (padded, normal(channels, sizes.d_conv), normal(channels))
    return {
        "gated_norm": Op(
            norm,
            ("y", "x", "D", "gate", "weight"),
            {
                KERNEL: partial(gated_norm, groups=groups, epsilon=EPSILON, backend="triton"),
                PASSES: partial(gated_norm, groups=groups, epsilon=EPSILON, backend="torch"),
                AUTOGRAD: partial(norm_by_pytorch, groups=groups),
            },
        ),
        "short_convolution": Op(
            convolution,
            ("padded", "weight", "bias"),
            {
                KERNEL: partial(short_convolution, backend="triton"),
                PASSES: partial(short_convolution, backend="torch"),
                AUTOGRAD: convolution_by_pytorch,
            },
        ),
    }


def check(name: str, op: Op, dtype: torch.dtype) -> dict[str, Any]:
    exact = gpu.results_and_gradients(op.contenders[AUTOGRAD], [tensor.double() for tensor in op.inputs])
    found = gpu.results_and_gradients(op.contenders[KERNEL], op.inputs)
    names = ("output", *(f"gradient of {name}" for name in op.names))
    errors = {what: gpu.largest_error(*pair) for what, *pair in zip(names, found, exact, strict=True)}
    return gpu.checked(f"{name} {dtype}", errors, TOLERANCES[dtype])


def least_bytes(op: Op) -> dict[str, int]:
    """Bytes that each pass has to move at least; the output is as large as the first input, nearly."""
    inputs = sum(tensor.numel() * tensor.element_size() for tensor in op.inputs)
    output = op.inputs[0].numel() * op.inputs[0].element_size()
    return {"forward": inputs + output, "backward": 2 * inputs + output}


def measure(op: Op, rounds: int, clock: gpu.Clock = gpu.milliseconds) -> dict[str, Any]:
    """Milliseconds of each pass by contender, and how many times faster the kernel is."""
    by_contender = {name: gpu.passes(run, op.inputs) for name, run in op.contenders.items()}
    measured: dict[str, Any] = {}
    for direction, moved in least_bytes(op).items():
        functions = {name: of[direction] for name, of in by_contender.items()}
        times = gpu.timed(functions, rounds, 3, clock)
        medians = {name: found["median"] for name, found in times.items()}
        measured[direction] = {
            "milliseconds": times,
            "times_slower_than_kernel": {name: median / medians[KERNEL] for name, median in medians.items()},
            "gigabytes_a_second": {name: 1e-6 * moved / median for name, median in medians.items()},
        }
    return measured


def run(sizes: Sizes, dtype: torch.dtype, device: str, rounds: int) -> list[dict[str, Any]]:
    results = []
    for name, op in ops(sizes, dtype, device).items():
        checked = check(name, op, dtype)
        times = measure(op, rounds) if checked["correct"] and rounds else None
        results.append(
            {"op": name, "dtype": str(dtype).removeprefix("torch."), "check": checked, "times": times}
        )
        if times is not None:
            report(times)
    return results


def report(times: dict[str, Any]) -> None:
    for direction, figures in times.items():
        for name, values in figures["milliseconds"].items():
            print(
                f"  {direction:<8} {name:<17} {values['median']:9.4f} ms  "
                f"{figures['times_slower_than_kernel'][name]:5.2f} x the kernel's  "
                f"{figures['gigabytes_a_second'][name]:7.0f} GB/s"
            )


def main(argv: Sequence[str] | None = None) -> None:
    parser = gpu.parser_of("gpu_elementwise", __doc__, 50)
    parser.add_argument("--quick", action="store_true", help="short sequences: see that it works")
    options = gpu.parsed(parser, argv)
    there = torch.cuda.is_available()
    sizes, device = (QUICK if options.quick else FULL) if there else INTERPRETED, "cuda" if there else "cpu"
    results = [
        result
        for dtype in options.dtypes
        for result in run(sizes, getattr(torch, dtype), device, options.rounds)
    ]
    wrong = [f"{result['op']} {result['dtype']}" for result in results if not result["check"]["correct"]]
    gpu.store(options, asdict(sizes), results, wrong)


if __name__ == "__main__":
    sys.exit(run_command(main))
