"""Code that the Triton kernels of several ops share; importing a module of it imports Triton."""
