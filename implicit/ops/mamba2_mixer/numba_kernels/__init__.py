"""The mixer for CPUs, compiled by numba. Importing it imports numba."""

from implicit.ops.mamba2_mixer.numba_kernels.launch import numba_op

__all__ = ["numba_op"]
