"""The fused sequential solve as a Triton kernel, for NVIDIA and AMD GPUs; without one, in the interpreter."""
