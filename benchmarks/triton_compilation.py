"""Compile every Triton kernel for GPUs that need not be here, and report what each one takes.

Run ``python -m benchmarks.triton_compilation [--quick] [--out OUT.json]``. The launches are those that the
ops make, planned on tensors without data, so that tile sizes and specialisations are the real ones. For
NVIDIA the registers a thread and the bytes spilled come from ``cuobjdump`` on the machine code, for AMD from
its metadata.
Exits with an error if a kernel needs more shared memory than a target has.
"""

import argparse
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

# Kernels are compiled here, not interpreted; this is settled when Triton is imported.
os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from implicit.cells import Mamba2Cell, RMSNorm
from implicit.fixed_point import DampedPicard, Stopping
from implicit.modes.fused import self_map_of
from implicit.ops.gated_norm import triton_kernels as gated_norm
from implicit.ops.sequential_solve.triton_kernels.launch import tiles, walk
from implicit.ops.short_convolution import triton_kernels as short_convolution
from implicit.ops.ssd.triton_kernels.backward import input_gradients, projection_gradients
from implicit.ops.ssd.triton_kernels.forward import carry, outputs
from implicit.ops.triton_shared.launch import Launch
from implicit.runs.environment import describe_environment

TARGETS = {
    "sm_80": GPUTarget("cuda", 80, 32),
    "sm_90": GPUTarget("cuda", 90, 32),
    "gfx942": GPUTarget("hip", "gfx942", 64),
}
SHARED_LIMITS = {"sm_80": 163 * 1024, "sm_90": 227 * 1024, "gfx942": 64 * 1024}  # bytes a block can have

# (head_size, state_size): each tile size once, sizes that fill no tile, and the largest.
SIZES = ((16, 16), (16, 128), (64, 16), (32, 32), (64, 64), (64, 128), (100, 70), (256, 256))
# (batch, length, heads): many of each, and the least there is. Triton makes constants of sizes that are 1.
LARGE, LEAST = (8, 2048, 24), (1, 1, 1)
SCANS = [*((*sizes, LARGE) for sizes in SIZES), (16, 16, LEAST)]
# (batch, length, layers, d_model, d_state, head_size, d_conv, groups) of the sequential solve, expand 2: the
# sizes of the issue, of the stored runs, several layers and groups, sizes that fill no tile, large, least.
SOLVES = (
    (64, 512, 1, 256, 128, 64, 4, 1),
    (64, 32, 1, 32, 16, 16, 4, 1),
    (8, 128, 2, 128, 64, 32, 4, 2),
    (3, 5, 1, 24, 5, 8, 2, 1),
    (8, 1, 1, 1024, 128, 64, 4, 1),
    (1, 1, 1, 16, 16, 16, 1, 1),
)

# (batch, length, heads, head_size, groups) of the gated norm: that of the timings, of the stored runs, the
# widest of the published models, the widest that is allowed, sizes that fill no tile, the least.
NORMS = (
    (8, 2048, 24, 64, 1),
    (64, 32, 4, 16, 1),
    (8, 2048, 80, 64, 1),
    (8, 2048, 128, 64, 1),
    (3, 5, 6, 20, 3),
    (1, 1, 1, 1, 1),
)
# (batch, length, channels, width) of the short convolution.
CONVOLUTIONS = ((8, 2048, 1792, 4), (64, 32, 96, 4), (3, 5, 70, 7), (8, 2048, 1792, 8), (1, 1, 1, 1))
DTYPES = (torch.bfloat16, torch.float32)
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16", torch.int64: "*i64", torch.int8: "*i8"}


def scan_launches(sizes: tuple[Any, ...], dtype: torch.dtype, _target: str) -> Iterator[tuple[str, Launch]]:
    """Every launch of a forward and a backward pass, all heads in one group."""
    head_size, state_size, (batch, length, heads) = sizes

    def empty(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        return torch.empty(*shape, dtype=dtype, device="meta")

    x = empty(batch, length, heads, head_size, dtype=dtype)
    B = empty(batch, length, 1, state_size, dtype=dtype)
    dt, A, state = empty(batch, length, heads), empty(heads), empty(batch, heads, head_size, state_size)
    walk, entering, _ = carry(x, B, dt, A, state, reverse=False)
    yield "carry", walk
    yield "output", outputs(x, dt, A, B, B, entering)[0]
    walk, leaving, _ = carry(x, B, dt, A, state, reverse=True)
    yield "carry_reverse", walk
    yield "input_gradient", input_gradients(x, dt, A, B, B, x, entering, leaving)[0]
    yield "projection_gradient", projection_gradients(x, dt, A, B, B, x, entering, leaving)[0]


def source(launch: Launch) -> ASTSource:
    """The kernel as a launch specialises it: a 1 becomes a constant, multiples of 16 are marked."""
    signature: dict[str, str] = {}
    constants: dict[tuple[int], int] = {}
    attributes: dict[tuple[int], list[list[object]]] = {}
    for index, name in enumerate(launch.kernel.arg_names):
        value = launch.constants[name] if name in launch.constants else launch.arguments[name]
        general = launch.kernel.params[index].do_not_specialize
        if isinstance(value, torch.Tensor):
            signature[name] = POINTERS[value.dtype]
        elif isinstance(value, float):
            signature[name] = "fp32"
        elif name in launch.constants or (value == 1 and not general):
            signature[name], constants[index,] = "constexpr", value
        else:
            signature[name] = "i32"
        aligned = isinstance(value, torch.Tensor) or (isinstance(value, int) and value % 16 == 0)
        if signature[name] != "constexpr" and aligned and not general:
            attributes[index,] = [["tt.divisibility", 16]]
    return ASTSource(launch.kernel, signature, constants, attributes)


def resources(assembly: Mapping[str, Any]) -> dict[str, int]:
    """Registers a thread, and what is spilled: bytes of stack on NVIDIA, vector registers on AMD."""
    if "amdgcn" in assembly:
        text = str(assembly["amdgcn"])
        return {
            "registers": _numbers(r"\.vgpr_count:\s*(\d+)", text)[0],
            "spilled_registers": _numbers(r"\.vgpr_spill_count:\s*(\d+)", text)[0],
        }
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(assembly["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack, local = _numbers(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text)
    return {"registers": registers, "spilled_bytes": stack + local}


def _numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    if found is None:
        raise ValueError(f"{pattern!r} is not in what the compiler tells of a kernel: {text[:200]!r}")
    return [int(number) for number in found.groups()]


def solve_launches(sizes: tuple[Any, ...], dtype: torch.dtype, target: str) -> Iterator[tuple[str, Launch]]:
    batch, length, layers, d_model, d_state, head_size, d_conv, groups = sizes
    with torch.device("meta"):
        cells = [
            Mamba2Cell(d_model, d_state, d_conv, head_size=head_size, groups=groups).to(dtype)
            for _ in range(layers)
        ]
        norms = [RMSNorm(d_model).to(dtype) for _ in range(layers + 1)]
        self_map = self_map_of(cells, norms[:layers], norms[layers], residual=True)
        state = cells[0].init_state(batch)
        injections = torch.empty(layers, batch, length, cells[0].d_in_proj, dtype=dtype)
        start = torch.empty(batch, length, d_model, dtype=dtype)
        windows = torch.empty(layers, *state["conv"].shape, dtype=dtype)
        states = torch.empty(layers, *state["ssm"].shape)
    launch, _ = walk(self_map, injections, start, windows, states, DampedPicard(), Stopping())
    yield "sequential_solve", replace(launch, tiles=tiles(self_map, TARGETS[target].warp_size))


@dataclass(frozen=True)
class AbsentGPU:
    """Stands for Triton's driver where kernels ask what they are compiled for."""

    target: GPUTarget

    def get_current_target(self) -> GPUTarget:
        return self.target


def compiled(launch: Launch, target: str, sizes: dict[str, Any]) -> dict[str, Any]:
    """Compile a launch; return what it takes, after the sizes that name it."""
    triton.runtime.driver.set_active(AbsentGPU(TARGETS[target]))
    options = {"num_warps": launch.tiles.warps, "num_stages": launch.tiles.stages}
    result = triton.compile(source(launch), target=TARGETS[target], options=options)
    row = {
        **sizes,
        "target": target,
        "tile": [value for name, value in launch.constants.items() if name.startswith("BLOCK")],
        "warps": launch.tiles.warps,
        "stages": launch.tiles.stages,
        "shared_bytes": result.metadata.shared,
        "shared_limit": SHARED_LIMITS[target],
        **resources(result.asm),
    }
    spilled = row.get("spilled_bytes", row.get("spilled_registers"))
    print(
        " ".join(str(value) for value in sizes.values()),
        f"{target} tile {'x'.join(map(str, row['tile']))} registers {row['registers']} "
        f"spilled {spilled} shared {row['shared_bytes'] / 1024:.1f} KiB",
        flush=True,
    )
    return row


def norm_launches(sizes: tuple[Any, ...], dtype: torch.dtype, _target: str) -> Iterator[tuple[str, Launch]]:
    batch, length, heads, head_size, groups = sizes
    width = heads * head_size
    y, convolved, projected, D, weight = (
        torch.empty(*shape, dtype=dtype, device="meta")
        for shape in (
            (batch, length, heads, head_size),
            (batch, length, width + 256),
            (batch, length, 2 * width + 256 + heads),
            (heads,),
            (width,),
        )
    )
    inputs = (y, convolved[..., :width].unflatten(-1, (heads, head_size)), D, projected[..., :width], weight)
    forward, output = gated_norm.forward(*inputs, groups, 1e-5)
    yield "gated_norm", forward
    yield "gated_norm_gradient", gated_norm.backward(inputs, output, groups, 1e-5)[0]


def convolution_launches(
    sizes: tuple[Any, ...], dtype: torch.dtype, _target: str
) -> Iterator[tuple[str, Launch]]:
    batch, length, channels, width = sizes
    padded, weight, bias = (
        torch.empty(*shape, dtype=dtype, device="meta")
        for shape in ((batch, width - 1 + length, channels), (channels, width), (channels,))
    )
    forward, output = short_convolution.forward(padded, weight, bias)
    yield "short_convolution", forward
    yield "short_convolution_gradient", short_convolution.backward(padded, weight, bias, output)[0]


@dataclass(frozen=True)
class Kernels:
    """Kernels with the sizes, called ``names``, that they are compiled for, each in both dtypes and for
    every target.

    ``quick`` has case, dtype and targets of those that the test suite compiles; ``launches`` the launches
    of a case.
    """

    names: tuple[str, ...]
    sizes: Sequence[tuple[Any, ...]]
    quick: tuple[tuple[int, torch.dtype, tuple[str, ...]], ...]
    launches: Callable[[tuple[Any, ...], torch.dtype, str], Iterator[tuple[str, Launch]]]

    def compile(self, quick: bool) -> list[dict[str, Any]]:
        every = [(place, dtype, tuple(TARGETS)) for place in range(len(self.sizes)) for dtype in DTYPES]
        rows = []
        for place, dtype, targets in self.quick if quick else every:
            named = dict(zip(self.names, self.sizes[place], strict=True))
            described = {"dtype": str(dtype).removeprefix("torch."), **named}
            launches = [dict(self.launches(self.sizes[place], dtype, target)) for target in targets]
            rows += [
                compiled(of[name], target, {"kernel": name, **described})
                for name in launches[0]
                for target, of in zip(targets, launches, strict=True)
            ]
        return rows


ALL = tuple(TARGETS)
KERNELS = (
    Kernels(
        ("batch", "length", "layers", "d_model", "d_state", "head_size", "d_conv", "groups"),
        SOLVES,
        ((0, torch.float32, ALL), (3, torch.bfloat16, ("sm_80",))),
        solve_launches,
    ),
    Kernels(
        ("head_size", "state_size", "batch_length_heads"),
        SCANS,
        ((5, torch.bfloat16, ALL), (6, torch.float32, ("sm_90",)), (8, torch.float32, ("sm_80", "gfx942"))),
        scan_launches,
    ),
    Kernels(
        ("batch", "length", "heads", "head_size", "groups"),
        NORMS,
        ((0, torch.bfloat16, ALL), (4, torch.float32, ("sm_80",))),
        norm_launches,
    ),
    Kernels(
        ("batch", "length", "channels", "d_conv"),
        CONVOLUTIONS,
        ((0, torch.bfloat16, ALL), (2, torch.float32, ("sm_90",))),
        convolution_launches,
    ),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the cases that the test suite compiles")
    parser.add_argument("--out", type=Path, help="write the report as JSON to this file")
    arguments = parser.parse_args()
    rows = [row for kernels in KERNELS for row in kernels.compile(arguments.quick)]
    if arguments.out:
        environment = {**describe_environment(), "triton": version("triton")}
        report = {"environment": environment, "results": rows}
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    too_much = [row for row in rows if row["shared_bytes"] > row["shared_limit"]]
    if too_much:
        raise SystemExit(f"{len(too_much)} of {len(rows)} kernels need more shared memory than there is")
    print(f"{len(rows)} kernels compiled, all within the shared memory of their targets")


if __name__ == "__main__":
    main()
