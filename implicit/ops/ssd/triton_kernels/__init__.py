"""The SSD scan as Triton kernels, for NVIDIA and AMD GPUs; without one, in Triton's interpreter."""
