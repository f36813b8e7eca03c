"""The fused sequential solve as a Triton kernel, for NVIDIA and AMD GPUs; without one, in the interpreter."""

from implicit.ops.sequential_solve.triton_kernels.launch import walk

__all__ = ["walk"]
