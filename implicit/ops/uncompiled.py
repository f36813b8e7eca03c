"""Functions that `torch.compile` leaves as they are: kernels, and loops whose length depends on the data."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch

Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned")


def uncompiled(function: Callable[Parameters, Returned]) -> Callable[Parameters, Returned]:
    """Return the function as one that runs in plain PyTorch within a compiled one, with the same answer.

    How often a fixed point is iterated is known from the data only, and kernels read memory, which a compiler
    does not give them. `torch.compiler.disable` as a decorator would load the compiler for everybody.
    """

    @functools.wraps(function)
    def called(*args: Parameters.args, **options: Parameters.kwargs) -> Returned:
        if torch.compiler.is_dynamo_compiling():
            return torch.compiler.disable(function)(*args, **options)
        return function(*args, **options)

    return called
