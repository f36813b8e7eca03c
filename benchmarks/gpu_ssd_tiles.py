"""Time every kernel of the SSD scan over tile sizes, warps and stages on the GPU at hand.

Run ``python -m benchmarks.gpu_ssd_tiles [--dtype float32] [--out OUT.json]``. The best of each kernel goes
into ``TILES`` of `implicit.ops.ssd.triton_kernels.launch`, once ``benchmarks.gpu_ssd`` has found it correct.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import torch
import triton

from benchmarks.gpu import environment
from benchmarks.gpu_ssd import add_sizes, scan_arguments
from implicit.ops.ssd.triton_kernels import launch
from implicit.ops.ssd.triton_kernels.backward import input_gradients, projection_gradients
from implicit.ops.ssd.triton_kernels.forward import carry, outputs
from implicit.ops.ssd.triton_kernels.launch import Tiles
from implicit.ops.triton_shared.launch import Launch

KERNELS = ("carry", "output", "input_gradient", "projection_gradient")
CHOICES = [Tiles(*choice) for choice in product((32, 64), (32, 64, 128), (4, 8), (1, 2, 3))]


def plan(kernel: str, arguments: list[torch.Tensor]) -> Launch:
    x, dt, A, B, C, state = arguments
    walk, entering, _ = carry(x, B, dt, A, state, reverse=False)
    if kernel == "carry":
        return walk
    if kernel == "output":
        return outputs(x, dt, A, B, C, entering)[0]
    gradients = input_gradients if kernel == "input_gradient" else projection_gradients
    return gradients(x, dt, A, B, C, x, entering, torch.zeros_like(entering))[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_sizes(parser, gpu=True)
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--kernels", nargs="+", default=list(KERNELS), choices=KERNELS)
    parser.add_argument("--out", type=Path, help="write all times as JSON to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("no GPU was found; tiles are timed on one")
    dtype = getattr(torch, options.dtype)
    arguments = scan_arguments(options, dtype, "cuda")
    rows = []
    for kernel in options.kernels:
        for tile in CHOICES:
            launch.TILES[kernel, dtype.itemsize] = tile
            try:
                milliseconds = triton.testing.do_bench(plan(kernel, arguments).run, return_mode="median")
            except triton.runtime.errors.OutOfResources:
                continue
            rows.append({"kernel": kernel, **vars(tile), "milliseconds": milliseconds})
        ranked = sorted((row for row in rows if row["kernel"] == kernel), key=lambda row: row["milliseconds"])
        for row in ranked[:5]:
            print(row)
    if options.out:
        report = {"environment": environment(), "dtype": options.dtype, "results": rows}
        options.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
