"""The fused sequential solve for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.sequential_solve.numba_kernels.launch import walk

__all__ = ["walk"]
