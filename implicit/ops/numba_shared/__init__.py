"""Code that the numba kernels for CPUs share. Importing a module of it imports numba."""
