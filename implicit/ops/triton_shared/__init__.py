"""The ops around the scan as Triton kernels, for NVIDIA and AMD GPUs; without one, in the interpreter."""
