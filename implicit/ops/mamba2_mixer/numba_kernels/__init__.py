"""The mixer for CPUs, compiled by numba. Importing it imports numba."""
