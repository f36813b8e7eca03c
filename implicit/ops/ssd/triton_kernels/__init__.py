"""The SSD scan as Triton kernels, for NVIDIA and AMD GPUs; without one, in Triton's interpreter."""

from implicit.ops.ssd.triton_kernels.scan import ssd_triton

__all__ = ["ssd_triton"]
