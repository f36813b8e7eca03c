"""The fused sequential solve and its adjoint for CPUs, compiled by numba. Importing it imports numba."""
