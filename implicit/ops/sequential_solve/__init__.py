"""The sequential mode of stacked Mamba-2 layers in one call: token after token, each to its fixed point.

The definition is `implicit.modes.solve_sequentially`, the plain loop, which runs anywhere.
"""

from implicit.ops.sequential_solve.self_map import SelfMap, Walk
from implicit.ops.sequential_solve.solve import BACKENDS, explain_sequential_solve, sequential_solve

__all__ = ["BACKENDS", "SelfMap", "Walk", "explain_sequential_solve", "sequential_solve"]
