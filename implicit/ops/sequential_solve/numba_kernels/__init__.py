"""The fused sequential solve and its adjoint for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.sequential_solve.numba_kernels.launch import TOLERANCES, walk, walk_back

__all__ = ["TOLERANCES", "walk", "walk_back"]
