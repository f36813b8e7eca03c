"""The scan for CPUs, compiled by numba. Importing it imports numba."""
