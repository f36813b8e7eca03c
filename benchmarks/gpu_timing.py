"""Common parts of the scripts that check and time kernels on a GPU: flags, errors, rounds, the report.

Times are medians over rounds; in a round every contender runs once, so that clocks and neighbours are shared.
"""

import json
import statistics
import sys
from argparse import Namespace
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from automata.errors import InputError
from benchmarks.gpu import environment
from implicit.command_line import CommandParser

DTYPES = ("bfloat16", "float32")
Clock = Callable[[Callable[[], object]], float]
Run = Callable[..., Tensor | tuple[Tensor, ...]]
Name = TypeVar("Name", bound=Hashable)


def parser_of(module: str, about: str | None, rounds: int, dtypes: Sequence[str] = DTYPES) -> CommandParser:
    """Return the flags that all scripts have; ``about`` begins with what the script compares."""
    parser = CommandParser(f"python -m benchmarks.{module}", str(about).splitlines()[0])
    parser.add_argument("--check-only", action="store_true", help="compare results, time nothing")
    parser.add_argument("--rounds", type=int, default=rounds, help="timed runs of each")
    parser.add_argument("--dtypes", nargs="+", default=list(dtypes), choices=DTYPES)
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    return parser


def parsed(parser: CommandParser, argv: Sequence[str] | None) -> Namespace:
    """Read the flags; ``rounds`` is 0 where nothing is timed.

    InputError if times are asked for without a GPU, or without a round.
    """
    options = parser.parse_args(argv)
    if not torch.cuda.is_available() and not options.check_only:
        raise InputError("no GPU was found, and times need one; give --check-only to compare results only")
    if options.rounds < 1:
        raise InputError(f"--rounds is {options.rounds}; give at least 1")
    if options.check_only:
        options.rounds = 0
    return options


def largest_error(result: Tensor, reference: Tensor) -> float:
    return float((result.double() - reference).abs().max() / reference.abs().max())


def checked(what: str, errors: Mapping[str, float], tolerance: float, also: bool = True) -> dict[str, Any]:
    """Print the largest error and return the check for JSON; ``also`` is what else has to hold."""
    worst = max(errors, key=errors.__getitem__)
    correct = also and all(error <= tolerance for error in errors.values())  # False for a NaN
    print(f"{what} correct {correct}: largest error {errors[worst]:.1e} ({worst})")
    return {"correct": correct, "tolerance": tolerance, "errors": dict(errors)}


def results_and_gradients(run: Run, inputs: Sequence[Tensor]) -> list[Tensor]:
    """Return the results on some inputs, and the gradients in these of a random sum of the results."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    outputs = _several(run(*leaves))
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(out.shape, generator=generator).bfloat16().to(out) for out in outputs]
    return [*(out.detach() for out in outputs), *torch.autograd.grad(outputs, leaves, weights)]


def passes(run: Run, inputs: Sequence[Tensor]) -> dict[str, Callable[[], object]]:
    """Return what is timed: forward without gradients, backward alone, and both as in training."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs]
    outputs = _several(run(*leaves))
    gradients = [torch.randn_like(out) for out in outputs]

    def forward() -> object:
        with torch.no_grad():
            return run(*inputs)

    def backward() -> object:
        return torch.autograd.grad(outputs, leaves, gradients, retain_graph=True)

    def both() -> object:
        return torch.autograd.grad(_several(run(*leaves)), leaves, gradients)

    return {"forward": forward, "backward": backward, "forward_and_backward": both}


def _several(result: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return (result,) if isinstance(result, Tensor) else result


def milliseconds(function: Callable[[], object]) -> float:
    """Return how long the GPU takes."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    function()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def timed(
    functions: Mapping[Name, Callable[[], object]],
    rounds: int,
    warm: int,
    clock: Clock = milliseconds,
    per: int = 1,
) -> dict[Name, dict[str, float]]:
    """Return median, best and worst milliseconds of each, over ``per``, after rounds that warm up."""
    for _ in range(warm):  # compilation, autotuning and warm clocks
        for function in functions.values():
            function()
    times: dict[Name, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name, function in functions.items():
            times[name].append(clock(function) / per)
    return {
        name: {"median": statistics.median(values), "best": min(values), "worst": max(values)}
        for name, values in times.items()
    }


def store(options: Namespace, sizes: Mapping[str, Any], results: Sequence[Any], wrong: Sequence[str]) -> None:
    """Write the results where ``--out`` says; exit with an error if some are wrong."""
    if options.out:
        record = {"environment": environment(), "sizes": sizes, "rounds": options.rounds, "results": results}
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    if wrong:
        sys.exit(f"wrong results, no speed is reported for: {', '.join(wrong)}")
