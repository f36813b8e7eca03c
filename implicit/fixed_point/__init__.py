"""Fixed points: the problem, the solvers, the loop and the result, each an object of its own."""

from implicit.fixed_point.anderson import Anderson
from implicit.fixed_point.loop import Stopping, solve, unroll
from implicit.fixed_point.picard import DampedPicard
from implicit.fixed_point.problem import AdjointSolution, Dependence, FixedPointProblem, Solver
from implicit.fixed_point.solution import FixedPointError, NotConvergedWarning, Solution
from theory.status import Status

__all__ = [
    "AdjointSolution",
    "Anderson",
    "DampedPicard",
    "Dependence",
    "FixedPointError",
    "FixedPointProblem",
    "NotConvergedWarning",
    "Solution",
    "Solver",
    "Status",
    "Stopping",
    "solve",
    "unroll",
]
