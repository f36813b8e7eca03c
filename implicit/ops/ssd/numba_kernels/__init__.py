"""The scan for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.ssd.numba_kernels.launch import backward, forward

__all__ = ["backward", "forward"]
