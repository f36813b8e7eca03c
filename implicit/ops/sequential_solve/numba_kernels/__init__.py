"""The fused sequential solve and its adjoint for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.sequential_solve.numba_kernels.adjoint_launch import TOLERANCES, walk_back
from implicit.ops.sequential_solve.numba_kernels.launch import walk

__all__ = ["TOLERANCES", "walk", "walk_back"]
