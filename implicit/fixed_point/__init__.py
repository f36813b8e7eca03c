"""Fixed points: the problem, the solvers, the loop and the result, each an object of its own.

The package can be called: ``implicit.fixed_point(f, z0)`` is `implicit.gradients.fixed_point`.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from implicit.fixed_point.loop import Stopping, solve, unroll
from implicit.fixed_point.problem import AdjointSolution, Dependence, FixedPointProblem, Solver
from implicit.fixed_point.problem import FixedPointError, NotConvergedWarning, Solution
from implicit.fixed_point.solvers import Anderson, DampedPicard
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


class _CallablePackage(ModuleType):
    """This package, whose name within `implicit` is that of a function, too, as in `implicit.train`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        # The function needs gradient rules, which stand above this package and import it.
        return import_module("implicit.gradients").fixed_point(*arguments, **options)


sys.modules[__name__].__class__ = _CallablePackage
