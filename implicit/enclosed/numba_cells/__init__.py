"""The bounds of `implicit.enclosed.one_fixed_point` on one cell after the other, compiled by numba."""
