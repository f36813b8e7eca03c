"""The SSD scan on a GPU: our Triton kernels, mamba_ssm's and our chunked path, side by side.

Run ``python -m benchmarks.gpu_ssd [--out OUT.json]`` on a machine with a GPU. Each backend is first compared
with the float64 definition, results and all gradients; one that fails reports no speed. ``--check-only`` ends
there, and needs no GPU: the kernels then run in Triton's interpreter, at a size that it can bear.
"""

import argparse
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

from benchmarks import gpu_timing as gpu
from implicit.command_line import run_command
from implicit.ops.ssd import BACKENDS, Request, ssd

RESULTS = ("y", "state", "dx", "ddt", "dA", "dB", "dC", "dinitial_state")
COMPARED = ("triton", "mamba_ssm", "chunked")

# Largest error over the largest entry. bfloat16 rounds operands to 2e-3 two or three times in a row. float32
# keeps 21 bits or more in ours; mamba_ssm leaves its products to Triton's default, TF32, which keeps 10.
TOLERANCES = {
    (torch.bfloat16, "triton"): 2e-2,
    (torch.bfloat16, "mamba_ssm"): 2e-2,
    (torch.bfloat16, "chunked"): 2e-2,
    (torch.float32, "triton"): 1e-5,
    (torch.float32, "mamba_ssm"): 1e-2,
    (torch.float32, "chunked"): 1e-5,
}


def scan_arguments(options: argparse.Namespace, dtype: torch.dtype, device: str) -> list[Tensor]:
    """Arguments of order one, with decays from e^-0.001 to e^-2 per token as at Mamba-2's initialisation."""
    generator = torch.Generator().manual_seed(0)
    heads, groups, size, state_size = options.heads, options.groups, options.head_size, options.state_size

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    dt = (
        torch.exp(torch.rand(options.batch, options.length, heads, generator=generator) * math.log(100))
        * 1e-3
    )
    rates = -torch.linspace(1, 16, heads)
    token = (options.batch, options.length)
    arguments = [
        normal(*token, heads, size).to(dtype),
        dt,
        rates,
        (normal(*token, groups, state_size) / math.sqrt(state_size)).to(dtype),
        (normal(*token, groups, state_size) / math.sqrt(state_size)).to(dtype),
        normal(options.batch, heads, size, state_size),
    ]
    return [tensor.to(device) for tensor in arguments]


def scan(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the public function with a backend."""
    return partial(ssd, backend=backend)


def measure(arguments: list[Tensor], backends: list[str], rounds: int) -> dict[str, Any]:
    functions = {backend: gpu.passes(scan(backend), arguments) for backend in backends}
    flat = {(backend, name): function for backend, of in functions.items() for name, function in of.items()}
    times = gpu.timed(flat, rounds, 5)
    return {
        backend: {
            "milliseconds": {name: times[backend, name] for name in of},
            "peak_bytes": _peak_bytes(of["forward_and_backward"]),
        }
        for backend, of in functions.items()
    }


def _peak_bytes(work: Callable[[], object]) -> int:
    """Do the work once and return the most bytes on the GPU that it held at a time."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def run(options: argparse.Namespace, dtype: torch.dtype) -> dict[str, Any]:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments = scan_arguments(options, dtype, device)
    exact = gpu.results_and_gradients(scan("reference"), [tensor.double() for tensor in arguments])
    request = Request.of(arguments[0], arguments[3], arguments[4])
    checked: dict[str, dict[str, Any]] = {}
    for backend in COMPARED:
        refusal = BACKENDS[backend].refusal(request)
        if refusal is not None:
            checked[backend] = {"unavailable": refusal}
            continue
        found = zip(RESULTS, gpu.results_and_gradients(scan(backend), arguments), exact, strict=True)
        errors = {name: gpu.largest_error(*pair) for name, *pair in found}
        checked[backend] = gpu.checked(f"{dtype} {backend:<10}", errors, TOLERANCES[dtype, backend])
    del exact
    result: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch."), "check": checked}
    right = [backend for backend, check in checked.items() if check.get("correct")]
    if options.rounds:
        result["times"] = measure(arguments, right, options.rounds)
        report_times(result["times"])
    return result


def report_times(times: dict[str, Any]) -> None:
    rival = times.get("mamba_ssm")
    for backend, figures in times.items():
        for name, values in figures["milliseconds"].items():
            line = f"  {backend:<10} {name:<21} {values['median']:8.3f} ms"
            if rival is not None:
                line += f"  {values['median'] / rival['milliseconds'][name]['median']:5.2f} x mamba_ssm"
            print(line)
        print(f"  {backend:<10} peak memory {1e-6 * figures['peak_bytes']:.0f} MB")


SIZES = {
    "batch": (8, 1),
    "length": (2048, 70),
    "heads": (24, 2),
    "groups": (1, 1),  # of heads that share B and C
    "head_size": (64, 16),
    "state_size": (128, 16),
}
"""Sizes of the scan on a GPU, and such as the interpreter can bear."""


def main(argv: Sequence[str] | None = None) -> None:
    parser = gpu.parser_of("gpu_ssd", __doc__, 50)
    for name, (gpu_size, interpreted) in SIZES.items():
        size = gpu_size if torch.cuda.is_available() else interpreted
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=size)
    options = gpu.parsed(parser, argv)
    results = [run(options, getattr(torch, dtype)) for dtype in options.dtypes]
    wrong = [
        f"{result['dtype']} {backend}"
        for result in results
        for backend, check in result["check"].items()
        if not check.get("correct", True)
    ]
    gpu.store(options, {name: getattr(options, name) for name in SIZES}, results, wrong)


if __name__ == "__main__":
    sys.exit(run_command(main))
