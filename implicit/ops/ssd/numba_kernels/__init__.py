"""The scan for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.ssd.numba_kernels.launch import ssd_numba

__all__ = ["ssd_numba"]
