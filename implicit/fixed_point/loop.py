"""The loop that every solver shares: counts, tolerance, non-finite check, and what is kept as it is."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.linalg import vector_norm

from automata.checks import by_known_names, check_integer, check_number
from automata.errors import InputError, warn_caller
from implicit.fixed_point.problem import (
    Dependence,
    FixedPointProblem,
    Solution,
    Solver,
    least_norm,
    token_norm,
)
from theory.status import Status

RESOLVED, RESOLVED_IN_HALF = 4, 2.5
"""Relative residuals of so many rounding units can be reached, the latter in half precision.

Trained and random models, with three kinds of cells, stall at 2.6 at most, and at 1.5 in half precision."""
STALLED, FALLEN = 50, 0.98
"""In half precision a token ends if its residual did not fall to this share within so many evaluations.

At that rate a factor of ten takes 50 ln 10 / −ln 0.98 = 5,700 evaluations."""
MOST_ITERATIONS = 10**9
"""Kernels count in integers of 32 bits."""


@by_known_names
@dataclass(frozen=True)
class Stopping:
    """When a token's iteration ends: ‖Φ(z) − z‖ ≤ atol + rtol · ‖z‖, or after max_iterations.

    A relative tolerance that the element type cannot resolve is raised to 4 rounding units of it (2.5 in half
    precision), with a warning: 0.02 in bfloat16, 5e-7 in float32. In half precision a token whose residual
    stalls ends before the limit, with a warning. With tolerances of 0 all iterations are made.

    Example:
        >>> Stopping(rtol=0.05, max_iterations=24)
        Stopping(rtol=0.05, atol=0.0, max_iterations=24)
    """

    rtol: float = 1e-4
    atol: float = 0.0
    max_iterations: int = 1000

    def __post_init__(self) -> None:
        check_number("rtol", self.rtol)
        check_number("atol", self.atol)
        if not (self.rtol >= 0 and self.atol >= 0):  # also refuses NaN
            raise InputError(f"rtol is {self.rtol} and atol {self.atol}; give tolerances of at least 0")
        check_integer("max_iterations", self.max_iterations, 1, MOST_ITERATIONS)

    def resolved_by(self, latent: Tensor) -> "Stopping":
        """Return the rule with a relative tolerance that the latent's element type, or autocast's, resolves.

        Example:
            >>> import warnings
            >>> with warnings.catch_warnings(record=True) as caught:
            ...     warnings.simplefilter("always")
            ...     Stopping(rtol=1e-4).resolved_by(torch.zeros(1, dtype=torch.bfloat16)).rtol
            0.01953125
            >>> caught[0].message
            UserWarning('rtol is 0.0001, which bfloat16 cannot resolve; 0.02 is taken')
        """
        least = self.rtol_for(latent)
        if least == self.rtol:
            return self
        name = str(_coarsest_type(latent)).removeprefix("torch.")
        warn_caller(f"rtol is {self.rtol:g}, which {name} cannot resolve; {least:.1g} is taken", UserWarning)
        return replace(self, rtol=least)

    def rtol_for(self, latent: Tensor) -> float:
        """Return the relative tolerance of `resolved_by`, without a warning."""
        dtype = _coarsest_type(latent)
        least = (RESOLVED_IN_HALF if dtype.itemsize == 2 else RESOLVED) * torch.finfo(dtype).eps
        return max(self.rtol, least) if self.rtol else 0.0

    def is_met(self, latent: Tensor, residual: Tensor, size: Tensor | None = None) -> Tensor:
        """Return per token whether the residual ‖Φ(z) − z‖ is within the tolerance, ``[batch, tokens]``.

        A latent whose norm overflows meets no relative tolerance: an infinite one would say nothing. ``size``
        is ‖z‖, where it is known.
        """
        tolerance = self.rtol * (token_norm(latent) if size is None else size)
        if self.atol:
            tolerance = tolerance + self.atol
        return (residual <= tolerance) & (tolerance < math.inf)


_NORM = partial(vector_norm, dim=-1)
_GIVEN_UP = -1
"""The code, during the iteration, of a token whose residual stalls."""


@dataclass(frozen=True)
class IterationState:
    """The status of every token while it is iterated, ``[batch, tokens]``.

    ``iterations`` counts evaluations of Φ while the token was not done; ``residual`` is infinite before the
    first; ``status`` is MAX_ITERATIONS for a token that is not done.
    """

    iterations: Tensor
    residual: Tensor
    status: Tensor

    @staticmethod
    def opened(latent: Tensor) -> "IterationState":
        """Return the iteration state before the first evaluation."""
        tokens, device = latent.shape[:-1], latent.device
        return IterationState(
            torch.zeros(tokens, dtype=torch.long, device=device),
            torch.full(tokens, torch.inf, dtype=latent.dtype, device=device),
            torch.full(tokens, Status.MAX_ITERATIONS, dtype=torch.int8, device=device),
        )

    @cached_property
    def active(self) -> Tensor:
        """Which tokens are not done, ``[batch, tokens]``, bool."""
        return self.status == int(Status.MAX_ITERATIONS)  # comparing with an enumeration takes longer

    @cached_property
    def remaining(self) -> int:
        """Return the number of tokens that are not done."""
        return int(self.active.count_nonzero())

    @cached_property
    def converged(self) -> Tensor:
        """Which tokens have converged, ``[batch, tokens]``, bool."""
        return self.status == Status.CONVERGED

    def select(self, rows: Tensor) -> "IterationState":
        """Return the iteration state of some rows of the batch, given by their numbers."""
        return IterationState(self.iterations[rows], self.residual[rows], self.status[rows])

    def with_rows(self, rows: Tensor, other: "IterationState") -> "IterationState":
        """Return the iteration state with that of some rows of the batch replaced."""
        return IterationState(
            self.iterations.index_copy(0, rows, other.iterations),
            self.residual.index_copy(0, rows, other.residual),
            self.status.index_copy(0, rows, other.status),
        )

    def after(
        self, latent: Tensor, change: Tensor, stopping: Stopping, dependence: Dependence
    ) -> "IterationState":
        """Enter one evaluation of Φ, which changes z by Φ(z) − z."""
        active = self.active
        latent, change = latent.detach(), change.detach()
        measured, size = _NORM(change), _NORM(latent)
        usual = not measured.numel() or (
            float(measured.amin()) > least_norm(change.dtype)
            and all(float(norms.amax()) < math.inf for norms in (measured, size))  # also refuses NaN
        )
        if not usual:  # seldom: padding, and what is hardly there or far too large
            measured, size = token_norm(change), token_norm(latent)
        if self.remaining == active.numel():  # in most evaluations, and fewer operations
            residual, met = measured, stopping.is_met(latent, measured, size)
        else:
            residual = torch.where(active, measured, self.residual)
            # Nobody waits for one that is done: what depends on one that was not finite ended with it.
            met = ~active | stopping.is_met(latent, residual, size)
        status = self.status
        if not usual:
            finite = with_all_it_depends_on(measured.isfinite() | ~active, dependence)
            status, met = status.masked_fill(active & ~finite, int(Status.NON_FINITE)), met & finite
        settled = active & with_all_it_depends_on(met, dependence)
        status = status.masked_fill(settled, int(Status.CONVERGED))
        return IterationState(self.iterations + active, residual, status)

    def ended(self, tokens: Tensor) -> "IterationState":
        """Return the iteration state with tokens given up; their status is that of the limit at `closed`."""
        return replace(self, status=self.status.masked_fill(self.active & tokens, _GIVEN_UP))

    def closed(self) -> "IterationState":
        """Return the iteration state at the end of the iteration."""
        given_up = self.status == _GIVEN_UP
        return replace(self, status=self.status.masked_fill(given_up, int(Status.MAX_ITERATIONS)))

    def advance(self, latent: Tensor, following: Tensor) -> Tensor:
        """Return the following iterate of every token that is not done, and the latent of one that is."""
        if self.remaining == self.active.numel():
            return following
        return torch.where(self.active[..., None], following, latent)


def solve(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor, *, steps_kept: int = 0
) -> Solution:
    """Iterate until every token is done, each by itself.

    A token is done when it has converged (and, under `Dependence.CAUSAL`, all tokens before it have) or when
    its image, or that of a token it depends on, is not finite. From then on its latent is kept as it is, so
    the result of a sequence does not depend on the others in the batch, and the residual returned belongs to
    the value returned. InputError for a Φ that does not keep the shape of the latent, or writes into it.

    Args:
        problem: Φ and the dependence among tokens.
        solver: how the next iterate is made.
        stopping: tolerance and limit.
        start: z₀, ``[batch, tokens, features]``.
        steps_kept: the last steps to the limit that are to be taken again; the latents before them are kept.

    Returns:
        The `Solution`; look at its status before using its value.

    Example:
        Two sequences stop by themselves, the slower after more evaluations.

        >>> from implicit.fixed_point import DampedPicard
        >>> rate = torch.tensor([0.1, 0.9]).view(2, 1, 1)
        >>> problem = FixedPointProblem(lambda z: rate * z + 1)
        >>> solution = solve(problem, DampedPicard(1.0), Stopping(rtol=1e-3), torch.zeros(2, 1, 1))
        >>> solution.iterations.flatten().tolist(), [round(z, 2) for z in solution.value.flatten().tolist()]
        ([4, 45], [1.11, 9.9])
    """
    stopping = stopping.resolved_by(start)
    latent, memory, progress = start, solver.start(start), IterationState.opened(start)
    may_stall = _coarsest_type(start).itemsize == 2 and (stopping.rtol or stopping.atol)
    stall = _Stall(progress, problem.dependence) if may_stall and not steps_kept else None
    kept_at, earlier = max(1, stopping.max_iterations - steps_kept) if steps_kept else 0, None
    for evaluation in range(1, stopping.max_iterations + 1):
        if evaluation == kept_at:
            earlier = latent
        change = change_of(latent, problem.function)
        progress = progress.after(latent, change, stopping, problem.dependence)
        if stall is not None:
            progress = stall.seen(progress)
        if evaluation == stopping.max_iterations or not progress.remaining:
            break
        following, memory = solver.step(latent, change, progress.active, memory)
        latent = progress.advance(latent, following)
    if stall is not None:
        progress = progress.closed()
    return Solution(latent, progress.iterations, progress.residual, progress.status, earlier=earlier)


class _Stall:
    """Gives up tokens whose residual no longer falls, and those that depend on them."""

    def __init__(self, progress: IterationState, dependence: Dependence) -> None:
        self.dependence = dependence
        self.least = progress.residual
        self.since = torch.zeros_like(progress.iterations)

    def seen(self, progress: IterationState) -> IterationState:
        """Return the iteration state after an evaluation, with what stalls given up."""
        settled = with_all_it_depends_on(~progress.active, self.dependence)
        # a token whose predecessors still change may wait long; the first that changes is the one to judge
        first = progress.active & (_shifted(settled, self.dependence))
        fell = progress.residual <= FALLEN * self.least
        self.since = torch.where(first & ~fell, self.since + 1, 0)
        self.least = torch.where(first & ~fell, self.least, progress.residual)
        stalls = self.since >= STALLED
        if not bool(stalls.any()):
            return progress
        warn_caller("residuals stall in half precision, and their tokens end before the limit", UserWarning)
        return progress.ended(~with_all_it_depends_on(~stalls, self.dependence))


def _shifted(settled: Tensor, dependence: Dependence) -> Tensor:
    """Return whether all that a token depends on, besides itself, is settled, ``[batch, tokens]``, bool."""
    if dependence is Dependence.CAUSAL:
        return torch.cat([torch.ones_like(settled[:, :1]), settled[:, :-1]], dim=1)
    if dependence is Dependence.ANTICAUSAL:
        return torch.cat([settled[:, 1:], torch.ones_like(settled[:, :1])], dim=1)
    return torch.ones_like(settled)


def autocasts(tensor: Tensor) -> bool:
    """Return whether autocast is on for the device of a tensor; PyTorch raises for devices without it."""
    device = tensor.device.type
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def _coarsest_type(latent: Tensor) -> torch.dtype:
    """The latent's element type or that of autocast."""
    dtype = latent.dtype
    if autocasts(latent):
        dtype = max(
            dtype, torch.get_autocast_dtype(latent.device.type), key=lambda kind: torch.finfo(kind).eps
        )
    return dtype


def unroll(
    problem: FixedPointProblem, solver: Solver, stopping: Stopping, start: Tensor, iterations: int
) -> Solution:
    """Iterate a fixed number of times, with gradient through all of them; no token stops early.

    One more evaluation of Φ, without gradient and not counted, gives the last iterate its residual and its
    status, by the tolerance of ``stopping``; the limit of that is not read. InputError for a Φ that does not
    keep the shape of the latent, or writes into it.

    Example:
        >>> from implicit.fixed_point import DampedPicard
        >>> problem = FixedPointProblem(lambda z: 0.5 * z + 3)
        >>> unroll(problem, DampedPicard(1.0), Stopping(), torch.zeros(1, 1, 1), 2).value.item()
        4.5
    """
    latent, memory = start, solver.start(start)
    everywhere = torch.ones(start.shape[:-1], dtype=torch.bool, device=start.device)
    for _ in range(iterations):
        change = change_of(latent, problem.function)
        latent, memory = solver.step(latent, change, everywhere, memory)
    with torch.no_grad():
        residual = token_norm(change_of(latent, problem.function))
        met = stopping.resolved_by(start).is_met(latent, residual)
    reached = with_all_it_depends_on(met, problem.dependence)
    status = torch.where(reached, int(Status.CONVERGED), int(Status.MAX_ITERATIONS))
    status = torch.where(residual.isfinite(), status, int(Status.NON_FINITE)).to(torch.int8)
    return Solution(latent, everywhere * iterations, residual, status)


def change_of(latent: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Return Φ(z) − z."""
    version = None if latent.is_inference() else latent._version  # which inference mode does not count
    image = function(latent)
    if image.shape != latent.shape:  # it would be broadcast silently
        raise InputError(
            f"function returned shape {tuple(image.shape)}; it must be that of z, {tuple(latent.shape)}"
        )
    if version is not None and latent._version != version:
        raise InputError("function changes z in place; write z = z + ..., or take a .clone() before")
    return image - latent


def with_all_it_depends_on(met: Tensor, dependence: Dependence) -> Tensor:
    """Turn "within tolerance" into "converged": all tokens that a token depends on must be within it too."""
    if dependence is Dependence.CAUSAL:
        return met.cummin(dim=-1).values
    if dependence is Dependence.ANTICAUSAL:
        return met.flip(-1).cummin(dim=-1).values.flip(-1)
    return met
