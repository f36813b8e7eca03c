"""Compile every Triton kernel of the SSD scan for GPUs that need not be here, and report what each one takes.

Run ``python -m benchmarks.triton_compilation [--quick] [--out OUT.json]``. The launches are those that the
scan makes, planned on tensors without data, so that tile sizes and specialisations are the real ones. For
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
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

# Kernels are compiled here, not interpreted; this is settled when Triton is imported.
os.environ["TRITON_INTERPRET"] = "0"

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from implicit.environment import describe_environment
from implicit.ops.launch import Launch
from implicit.ops.ssd.triton_kernels.backward import input_gradients, projection_gradients
from implicit.ops.ssd.triton_kernels.forward import carry, outputs

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
CASES = [
    (*sizes, dtype, scan, tuple(TARGETS))
    for sizes, scan in [*((sizes, LARGE) for sizes in SIZES), ((16, 16), LEAST)]
    for dtype in (torch.bfloat16, torch.float32)
]
QUICK_CASES = [
    (64, 128, torch.bfloat16, LARGE, tuple(TARGETS)),
    (100, 70, torch.float32, LARGE, ("sm_90",)),
    (16, 16, torch.float32, LEAST, ("sm_80", "gfx942")),
]
POINTERS = {torch.float32: "*fp32", torch.bfloat16: "*bf16"}


def launches(
    head_size: int, state_size: int, dtype: torch.dtype, scan: tuple[int, int, int]
) -> Iterator[tuple[str, Launch]]:
    """Every launch of a forward and a backward pass, all heads in one group."""
    batch, length, heads = scan

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
        if isinstance(value, torch.Tensor):
            signature[name] = POINTERS[value.dtype]
        elif name in launch.constants or value == 1:
            signature[name], constants[index,] = "constexpr", value
        else:
            signature[name] = "i32"
        if signature[name] != "constexpr" and (isinstance(value, torch.Tensor) or value % 16 == 0):
            attributes[index,] = [["tt.divisibility", 16]]
    return ASTSource(launch.kernel, signature, constants, attributes)


def resources(assembly: dict[str, object]) -> dict[str, int]:
    """Registers a thread, and what is spilled: bytes of stack on NVIDIA, vector registers on AMD."""
    if "amdgcn" in assembly:
        text = str(assembly["amdgcn"])
        return {
            "registers": int(re.search(r"\.vgpr_count:\s*(\d+)", text)[1]),
            "spilled_registers": int(re.search(r"\.vgpr_spill_count:\s*(\d+)", text)[1]),
        }
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(assembly["cubin"])
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, "-res-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    registers, stack, local = re.search(r"REG:(\d+) STACK:(\d+) SHARED:\d+ LOCAL:(\d+)", text).groups()
    return {"registers": int(registers), "spilled_bytes": int(stack) + int(local)}


def compile_case(
    head_size: int,
    state_size: int,
    dtype: torch.dtype,
    scan: tuple[int, int, int],
    targets: tuple[str, ...],
) -> list[dict]:
    rows = []
    for name, launch in launches(head_size, state_size, dtype, scan):
        for target in targets:
            options = {"num_warps": launch.tiles.warps, "num_stages": launch.tiles.stages}
            compiled = triton.compile(source(launch), target=TARGETS[target], options=options)
            row = {
                "kernel": name,
                "dtype": str(dtype).removeprefix("torch."),
                "head_size": head_size,
                "state_size": state_size,
                "batch_length_heads": scan,
                "target": target,
                "tile": [launch.tiles.block_p, launch.tiles.block_n],
                "warps": launch.tiles.warps,
                "stages": launch.tiles.stages,
                "shared_bytes": compiled.metadata.shared,
                "shared_limit": SHARED_LIMITS[target],
                **resources(compiled.asm),
            }
            rows.append(row)
            spilled = row.get("spilled_bytes", row.get("spilled_registers"))
            print(
                f"{name:<20} {row['dtype']:<9} {head_size:>3}x{state_size:<3} {target:<7} "
                f"tile {row['tile'][0]:>2}x{row['tile'][1]:<2} registers {row['registers']:>3} "
                f"spilled {spilled:>3} shared {row['shared_bytes'] / 1024:5.1f} KiB",
                flush=True,
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="only the cases that the test suite compiles")
    parser.add_argument("--out", type=Path, help="write the report as JSON to this file")
    arguments = parser.parse_args()
    rows = [row for case in (QUICK_CASES if arguments.quick else CASES) for row in compile_case(*case)]
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
