"""The SSD scan on a GPU: our Triton kernels, mamba_ssm's, fla's and our chunked path, side by side.

Run ``python -m benchmarks.gpu_ssd [--out OUT.json]`` on a machine with a GPU. Each backend is first compared
with the float64 definition, results and all gradients; one that fails reports no speed. ``--check-only`` ends
there, and needs no GPU: the kernels then run in Triton's interpreter, at a size that it can bear.

Times are medians over rounds; in a round every backend runs once, so that clocks and neighbours are shared.
"""

import argparse
import json
import math
import os
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

from benchmarks.fla_scan import FLA
from benchmarks.gpu import environment
from benchmarks.memory import peak_bytes
from implicit.ops.backends import Backend
from implicit.ops.ssd import BACKENDS, Request, Scan, ssd

RESULTS = ("y", "state", "dx", "ddt", "dA", "dB", "dC", "dinitial_state")
COMPARED: dict[str, Backend[Request, Scan]] = {
    **{name: BACKENDS[name] for name in ("triton", "mamba_ssm", "chunked")},
    "simple_gla": FLA,
}

# Largest error over the largest entry. bfloat16 rounds operands to 2e-3 two or three times in a row. float32
# is IEEE in ours; the others leave their products to Triton's default, TF32, which keeps 10 bits.
TOLERANCES = {
    (torch.bfloat16, "triton"): 2e-2,
    (torch.bfloat16, "mamba_ssm"): 2e-2,
    (torch.bfloat16, "chunked"): 2e-2,
    (torch.bfloat16, "simple_gla"): 2e-2,
    (torch.float32, "triton"): 1e-5,
    (torch.float32, "mamba_ssm"): 1e-2,
    (torch.float32, "chunked"): 1e-5,
    (torch.float32, "simple_gla"): 1e-2,
}


def scan_arguments(
    options: argparse.Namespace, dtype: torch.dtype, device: str, seed: int = 0
) -> list[Tensor]:
    """Arguments of order one, with decays from e^-0.001 to e^-2 per token as at Mamba-2's initialisation."""
    generator = torch.Generator().manual_seed(seed)
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


def scan(arguments: list[Tensor], backend: str) -> tuple[Tensor, Tensor]:
    """Run the public function, or what is not behind it."""
    x, dt, A, B, C, state = arguments
    if backend not in BACKENDS:
        return COMPARED[backend].run(x, dt, A, B, C, state)
    return ssd(x, dt, A, B, C, state, backend=backend)


def results_and_gradients(arguments: list[Tensor], backend: str) -> list[Tensor]:
    leaves = [tensor.detach().clone().requires_grad_() for tensor in arguments]
    y, state = scan(leaves, backend)
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(t.shape, generator=generator).bfloat16().to(t.device) for t in (y, state)]
    loss = (y * weights[0].to(y.dtype)).sum() + (state * weights[1].to(state.dtype)).sum()
    return [y.detach(), state.detach(), *torch.autograd.grad(loss, leaves)]


def errors(arguments: list[Tensor], backend: str, exact: list[Tensor]) -> dict[str, float]:
    """Largest error over the largest entry, for every result and gradient."""
    results = results_and_gradients(arguments, backend)
    return {
        name: float((result.double() - reference).abs().max() / reference.abs().max())
        for name, result, reference in zip(RESULTS, results, exact, strict=True)
    }


def milliseconds(function: Callable[[], object]) -> float:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


def passes(arguments: list[Tensor], backend: str) -> dict[str, Callable[[], object]]:
    """What is timed: forward without gradients, backward alone, and both as in training."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in arguments]
    y, state = scan(leaves, backend)
    gradients = (torch.randn_like(y), torch.randn_like(state))

    def forward() -> object:
        with torch.no_grad():
            return scan(arguments, backend)

    def backward() -> object:
        return torch.autograd.grad((y, state), leaves, gradients, retain_graph=True)

    def both() -> object:
        return torch.autograd.grad(scan(leaves, backend), leaves, gradients)

    return {"forward": forward, "backward": backward, "forward_and_backward": both}


def measure(arguments: list[Tensor], backends: list[str], rounds: int) -> dict[str, Any]:
    timed = {backend: passes(arguments, backend) for backend in backends}
    taken: dict[str, dict[str, list[float]]] = {
        backend: {name: [] for name in functions} for backend, functions in timed.items()
    }
    for _ in range(5):  # compilation, autotuning and warm clocks
        for functions in timed.values():
            for function in functions.values():
                function()
    for _ in range(rounds):
        for backend, functions in timed.items():
            for name, function in functions.items():
                taken[backend][name].append(milliseconds(function))
    measured = {}
    for backend, functions in timed.items():
        measured[backend] = {
            "milliseconds": {
                name: {"median": statistics.median(values), "best": min(values), "worst": max(values)}
                for name, values in taken[backend].items()
            },
            "peak_bytes": peak_bytes(functions["forward_and_backward"], "cuda"),
        }
    return measured


def run(options: argparse.Namespace, dtype: torch.dtype) -> dict[str, Any]:
    """Check every available backend, then time those that are right."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    arguments = scan_arguments(options, dtype, device)
    exact = results_and_gradients([tensor.double() for tensor in arguments], "reference")
    request = Request.of(arguments[0], arguments[3], arguments[4])
    checked: dict[str, dict[str, Any]] = {}
    for backend in COMPARED:
        refusal = COMPARED[backend].refusal(request)
        if refusal is not None:
            checked[backend] = {"unavailable": refusal}
            continue
        found = errors(arguments, backend, exact)
        correct = max(found.values()) <= TOLERANCES[dtype, backend]  # False for a NaN
        checked[backend] = {"correct": correct, "tolerance": TOLERANCES[dtype, backend], "errors": found}
        worst = max(found, key=found.__getitem__)
        print(f"{dtype} {backend:<10} correct {correct!s:<5} largest error {found[worst]:.1e} ({worst})")
    del exact
    result: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch."), "check": checked}
    right = [backend for backend, check in checked.items() if check.get("correct")]
    if not options.check_only:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    gpu = torch.cuda.is_available()
    parser.add_argument("--check-only", action="store_true", help="compare with the definition, time nothing")
    parser.add_argument("--batch", type=int, default=8 if gpu else 1)
    parser.add_argument("--length", type=int, default=2048 if gpu else 70, help="tokens per sequence")
    parser.add_argument("--heads", type=int, default=24 if gpu else 2)
    parser.add_argument("--groups", type=int, default=1, help="groups of heads that share B and C")
    parser.add_argument("--head-size", type=int, default=64 if gpu else 16)
    parser.add_argument("--state-size", type=int, default=128 if gpu else 16)
    parser.add_argument("--rounds", type=int, default=50, help="timed runs of each pass")
    parser.add_argument(
        "--dtypes", nargs="+", default=["bfloat16", "float32"], choices=["bfloat16", "float32"]
    )
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    options = parser.parse_args()
    if not gpu and not options.check_only:
        parser.error("no GPU was found; times need one, --check-only does not")
    results = [run(options, getattr(torch, dtype)) for dtype in options.dtypes]
    sizes = {
        name: getattr(options, name)
        for name in ("batch", "length", "heads", "groups", "head_size", "state_size")
    }
    if options.out:
        report = {"environment": environment(), "sizes": sizes, "rounds": options.rounds, "results": results}
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    wrong = [
        f"{result['dtype']} {backend}"
        for result in results
        for backend, check in result["check"].items()
        if not check.get("correct", True)
    ]
    if wrong:
        raise SystemExit(f"wrong results, no speed is reported for: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
