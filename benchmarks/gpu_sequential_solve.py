"""The sequential mode on a GPU: the fused kernel against the eager loop, side by side in one run.

Run ``python -m benchmarks.gpu_sequential_solve [--out OUT.json]`` on a machine with a GPU. First the kernel
is compared with the loop in float64; a dtype that fails reports no speed. ``--check-only`` ends there, and
needs no GPU: the kernel then runs in Triton's interpreter, at a size that it can bear.

Three ways to read a sequence are timed, for every batch: the eager loop, the kernel called for one token at a
time (as ``model.step`` does), and the kernel walking over all tokens. All do the same number of iterations a
token, so that their ratio is one of costs; in float32 they are also timed to a tolerance.
"""

import copy
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # before Triton is imported

from benchmarks import gpu_timing as gpu
from implicit.command_line import run_command
from implicit.fixed_point import Stopping
from implicit.models.implicit_model import ImplicitModel
from implicit.models.registry import ImplicitMamba2, ImplicitMamba2Config
from implicit.modes import SequenceSolution, Solve
from theory.transition import State

VOCABULARY = 7
# Largest difference of latents and states over the largest entry, after ten iterations of the same count.
# float32: sums of some 500 products, and what tokens pass on. bfloat16: injections, windows and results are
# rounded to 4e-3, and the model amplifies that a few times.
TOLERANCES = {torch.float32: 2e-5, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class Sizes:
    # numbers of sequences, each timed by itself; the first one is checked too
    batches: tuple[int, ...] = (64, 1, 8, 256)
    length: int = 16  # tokens per sequence
    d_model: int = 256  # features of the latent
    d_state: int = 128  # state size per channel
    head_size: int = 64  # channels per head
    layers: int = 1  # inside the fixed point
    iterations: int = 10  # self-iterations of each token where their number is fixed
    rtol: float = 1e-3  # tolerance where it is not


FULL = Sizes()
INTERPRETED = Sizes(batches=(2,), length=2, d_model=12, d_state=5, head_size=8, iterations=3, rtol=1e-2)


def random_model(sizes: Sizes, dtype: torch.dtype, device: str) -> ImplicitModel:
    """A model whose iteration contracts, so that a count of iterations means something."""
    torch.manual_seed(0)
    config = ImplicitMamba2Config(
        vocabulary_size=VOCABULARY,
        output_size=VOCABULARY,
        d_model=sizes.d_model,
        d_state=sizes.d_state,
        head_size=sizes.head_size,
        layers=sizes.layers,
        residual=False,
    )
    model = ImplicitMamba2(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("in_proj.weight"):
                weight.mul_(0.1)
    return model.to(device, dtype)


def in_float64(model: ImplicitModel) -> ImplicitModel:
    exact = copy.deepcopy(model)
    exact.sequential_backend = "loop"
    return exact.to(model.device, torch.float64)


def random_tokens(sizes: Sizes, batch: int, device: str) -> Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randint(VOCABULARY, (batch, sizes.length), generator=generator).to(device)


def solved(
    model: ImplicitModel, tokens: Tensor, stopping: Stopping, state: State | None = None
) -> tuple[SequenceSolution, State]:
    """The fixed points in the sequential mode, and the state after the last token."""
    output = model.run(tokens, state, Solve("sequential", stopping=stopping))
    assert output.solution is not None
    return output.solution, output.state


@torch.no_grad()
def check(sizes: Sizes, dtype: torch.dtype, device: str) -> dict[str, Any]:
    """Compare the kernel with the loop in float64, at a fixed number of iterations and to a tolerance."""
    model = random_model(sizes, dtype, device)
    model.sequential_backend = "triton"
    exact = in_float64(model)
    tokens = random_tokens(sizes, sizes.batches[0], device)
    fixed = Stopping(rtol=0.0, max_iterations=sizes.iterations)
    (found, state), (expected, expected_state) = (solved(m, tokens, fixed) for m in (model, exact))
    errors = {"latents": gpu.largest_error(found.latents, expected.latents)}
    errors |= {
        name: gpu.largest_error(tensor, expected_state[name])
        for name, tensor in state.items()
        if tensor.numel()
    }
    to_tolerance = Stopping(rtol=sizes.rtol, max_iterations=200)
    found, expected = (solved(m, tokens, to_tolerance)[0] for m in (model, exact))
    counts = counts_of(found, expected)
    # Rounding decides where a residual meets the tolerance, in bfloat16 that of all that is read.
    near = 1 if dtype == torch.float32 else 3
    also = counts["same_status"] and counts["largest_difference"] <= near
    print(f"iterations differ by at most {counts['largest_difference']}")
    return {**gpu.checked(str(dtype), errors, TOLERANCES[dtype], also), **counts}


def counts_of(found: SequenceSolution, expected: SequenceSolution) -> dict[str, Any]:
    difference = (found.iterations - expected.iterations).abs()
    return {
        "same_status": torch.equal(found.status, expected.status),
        "largest_difference": int(difference.max()),
        "share_of_equal_counts": float((difference == 0).double().mean()),
        "mean_iterations": float(expected.iterations.double().mean()),
    }


def ways(
    sizes: Sizes, dtype: torch.dtype, device: str, batch: int, stopping: Stopping
) -> dict[str, Callable[[], object]]:
    """The contenders; each reads all tokens of the batch."""
    fused, eager = (random_model(sizes, dtype, device) for _ in range(2))
    fused.sequential_backend, eager.sequential_backend = "triton", "loop"
    tokens = random_tokens(sizes, batch, device)

    def by_step() -> object:
        state = fused.init_state(batch)
        for t in range(sizes.length):
            _, state = solved(fused, tokens[:, t : t + 1], stopping, state)
        return state

    return {
        "eager": lambda: solved(eager, tokens, stopping),
        "fused, token by token": by_step,
        "fused, whole sequence": lambda: solved(fused, tokens, stopping),
    }


@torch.no_grad()
def measure(
    sizes: Sizes,
    dtype: torch.dtype,
    device: str,
    batch: int,
    stopping: Stopping,
    rounds: int,
    clock: gpu.Clock = gpu.milliseconds,
) -> dict[str, Any]:
    """Milliseconds per token of each way, and how many times faster than the loop it is."""
    times = gpu.timed(ways(sizes, dtype, device, batch, stopping), rounds, 2, clock, per=sizes.length)
    return {
        "batch": batch,
        "stopping": asdict(stopping),
        "milliseconds_a_token": times,
        "times_faster_than_eager": {
            name: times["eager"]["median"] / found["median"]
            for name, found in times.items()
            if name != "eager"
        },
    }


def run(sizes: Sizes, dtype: torch.dtype, device: str, rounds: int) -> dict[str, Any]:
    checked = check(sizes, dtype, device)
    result: dict[str, Any] = {"dtype": str(dtype).removeprefix("torch."), "check": checked, "times": []}
    if not checked["correct"] or not rounds:
        return result
    stoppings = [Stopping(rtol=0.0, max_iterations=sizes.iterations)]
    if dtype == torch.float32:  # bfloat16 latents never meet a tolerance that float32 is worth
        stoppings.append(Stopping(rtol=sizes.rtol, max_iterations=200))
    for stopping in stoppings:
        for batch in sizes.batches:
            measured = measure(sizes, dtype, device, batch, stopping, rounds)
            result["times"].append(measured)
            report(measured)
    return result


def report(measured: dict[str, Any]) -> None:
    stopping = measured["stopping"]
    what = f"to {stopping['rtol']:g}" if stopping["rtol"] else f"{stopping['max_iterations']} iterations"
    for name, values in measured["milliseconds_a_token"].items():
        line = f"  batch {measured['batch']:>4}, {what}: {name:<22} {values['median']:9.3f} ms per token"
        faster = measured["times_faster_than_eager"].get(name)
        print(line if faster is None else f"{line}  {faster:6.1f} times faster")


def main(argv: Sequence[str] | None = None) -> None:
    parser = gpu.parser_of("gpu_sequential_solve", __doc__, 10, ("float32", "bfloat16"))
    options = gpu.parsed(parser, argv)
    sizes, device = (FULL, "cuda") if torch.cuda.is_available() else (INTERPRETED, "cpu")
    results = [run(sizes, getattr(torch, dtype), device, options.rounds) for dtype in options.dtypes]
    wrong = [result["dtype"] for result in results if not result["check"]["correct"]]
    gpu.store(options, asdict(sizes), results, wrong)


if __name__ == "__main__":
    sys.exit(run_command(main))
