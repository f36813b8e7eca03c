"""The fixed point of a function that is all one has: any pytree of tensors, solved and differentiated."""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from automata.checks import by_known_names, check_type, shown
from automata.errors import InputError, warn_caller
from implicit.fixed_point import (
    DampedPicard,
    FixedPointProblem,
    NotConvergedWarning,
    Solution,
    Solver,
    Status,
    Stopping,
)
from implicit.gradients.rules import GradientRule, Implicit, solve_with_gradient


@dataclass(frozen=True, eq=False)
class TreeSolution(Solution):
    """The result of `fixed_point`: the value, and how it was reached.

    Attributes:
        value: z, of the structure of the start; a fixed point only where the status says so.
        iterations: evaluations of f, ``[batch]``, or ``[1]`` where there is no batch.
        residual: ‖f(z) − z‖ over all tensors together, likewise.
        status: `Status` codes, likewise.
    """

    value: Any

    def message(self) -> str:
        """Say for the worst status how many solves ended with it, and the remedy."""
        worst = Status(int(self.status.max()))
        return f"{int((self.status == worst).sum())} of {len(self.status)}: {worst.sentence}"


@by_known_names
def fixed_point(
    function: Callable[[Any], Any],
    start: Any,
    *,
    stopping: Stopping | None = None,
    solver: Solver | None = None,
    gradient: GradientRule | None = None,
    batched: bool = False,
) -> TreeSolution:
    """Find z = f(z) from a start, with the implicit gradient in all that f depends on.

    Parameters of modules and tensors that f closes over get their gradients, of what they are now. The start
    gets none, since the fixed point does not depend on it. A `NotConvergedWarning` tells where none was
    reached. InputError for a start without such tensors, or an f that does not return what it is given.

    Args:
        function: f, from a pytree of tensors (nested tuples, lists, dictionaries) to one like it. It must
            not write into its argument.
        start: z₀, of floating-point tensors of one dtype and device.
        stopping: tolerance and limit, of all tensors together; ``Stopping()`` if None.
        solver: how the next iterate is made; ``DampedPicard()`` if None.
        gradient: how the solution is differentiated; ``Implicit()``, exact to the tolerance, if None.
        batched: whether the first axis of every tensor counts independent problems, each of which stops by
            itself; f must not mix them.

    Example:
        z = cos(a z), whose derivative in a is −z sin(a z) / (1 + a sin(a z)).

        >>> a = torch.ones((), requires_grad=True)
        >>> found = fixed_point(lambda z: {"z": torch.cos(a * z["z"])}, {"z": torch.zeros(())})
        >>> round(found.value["z"].item(), 3), found.converged.tolist()
        (0.739, [True])
        >>> found.value["z"].backward(); round(a.grad.item(), 3)
        -0.297
    """
    if not callable(function):
        raise InputError(f"function is {shown(function)}; give a function of z, such as torch.cos")
    stopping = Stopping() if stopping is None else stopping
    check_type("stopping", stopping, Stopping, "give Stopping(rtol=..., max_iterations=...)")
    leaves, structure = pytree.tree_flatten(start)
    if not leaves:
        raise InputError("start holds no tensor; give z₀, a tensor or a pytree of tensors")
    for leaf in leaves:
        check_type("start", leaf, Tensor, "give a tensor or a pytree of tensors")
        if not leaf.is_floating_point():
            raise InputError(f"start holds a tensor of {leaf.dtype}; give floating-point ones, z.float()")
        if (leaf.dtype, leaf.device) != (leaves[0].dtype, leaves[0].device):
            raise InputError(
                f"start holds {leaves[0].dtype} on {leaves[0].device} and {leaf.dtype} on {leaf.device}; "
                "give tensors of one dtype on one device"
            )
        if batched and (leaf.ndim == 0 or leaf.shape[0] != leaves[0].shape[0]):
            raise InputError(
                f"start holds shapes {tuple(leaves[0].shape)} and {tuple(leaf.shape)}; with "
                "batched=True give tensors with one first axis"
            )
    shapes = [leaf.shape for leaf in leaves]
    if not any(leaf.numel() for leaf in leaves):
        raise InputError(f"start has shape {tuple(shapes[0])}, without an element; give at least one")
    rows = leaves[0].shape[0] if batched else 1
    sizes = [math.prod(shape) // rows if rows else 0 for shape in shapes]

    def flat(tree: Any) -> Tensor:
        parts: list[Any] = []
        with suppress(ValueError):  # of another structure; keys may have another order
            parts = structure.flatten_up_to(tree)
        if not parts or not all(isinstance(part, Tensor) for part in parts):
            form = "a tensor" if structure.is_leaf() else structure
            raise InputError(f"function returned {shown(tree)}; it must return what it is given, {form}")
        for part, shape in zip(parts, shapes, strict=True):
            if part.shape != shape:
                raise InputError(
                    f"function returned shape {tuple(part.shape)}; it must be that of z, {tuple(shape)}"
                )
        return torch.cat([part.reshape(rows, 1, -1) for part in parts], dim=-1)

    def tree(z: Tensor) -> Any:
        parts = z.split(sizes, dim=-1)
        return pytree.tree_unflatten(
            [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)], structure
        )

    found = solve_with_gradient(
        FixedPointProblem(lambda z: flat(function(tree(z)))),
        DampedPicard() if solver is None else solver,
        stopping,
        flat(start).detach(),
        Implicit() if gradient is None else gradient,
    )
    solution = TreeSolution(
        tree(found.value), found.iterations[:, 0], found.residual[:, 0], found.status[:, 0]
    )
    if not bool(solution.converged.all()):
        warn_caller(f"no fixed point reached for {solution.message()}", NotConvergedWarning)
    return solution
