"""The backends of the sequential mode: the plain loop and the fused kernel.

Importing this module does not import Triton: that happens when the kernel is asked about or used.
"""

from dataclasses import dataclass

import torch

from implicit.ops.backends import Backend, Backends, Explanation, Preference, default_device
from implicit.ops.needs import TRITON, at_most, element_types, on_gpu_or_interpreted

LARGEST = 4096
"""Largest d_model and d_state: a program holds a whole vector of either in registers."""
ITERATION = "DampedPicard"
"""The solver that the kernel iterates with."""


@dataclass(frozen=True)
class Request:
    """What decides whether the kernel can run a sequential solve.

    Attributes:
        device: type of the device that holds the weights, such as ``"cpu"`` or ``"cuda"``.
        dtype: element type of the weights.
        d_model: features of the latent.
        d_state: state size per channel.
        iteration: name of the solver, or of a gradient rule that iterates by itself.
        differentiated: whether a gradient is wanted.

    Example:
        >>> Request("cuda").dtype
        torch.float32
    """

    device: str
    dtype: torch.dtype = torch.float32
    d_model: int = 256
    d_state: int = 128
    iteration: str = ITERATION
    differentiated: bool = False

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The element type of the weights."""
        return (self.dtype,)


def _same_iteration(request: Request) -> str | None:
    if request.iteration == ITERATION:
        return None
    return f"the iteration is that of {request.iteration}, and the kernel's is {ITERATION}; use that"


def _no_gradient(request: Request) -> str | None:
    if not request.differentiated:
        return None
    return "a gradient is wanted, and the kernel computes none; solve under torch.no_grad()"


TRITON_NEEDS = (
    TRITON,
    element_types(subject="the weights"),
    at_most(LARGEST, "d_model", "d_state"),
    _same_iteration,
    _no_gradient,
    on_gpu_or_interpreted("the weights"),
)
# `implicit.modes` runs them: it holds the loop, and calls `sequential_solve` for the kernel.
BACKENDS: Backends[Request, None] = Backends(
    {"loop": Backend(None), "triton": Backend(None, TRITON_NEEDS)},
    on_gpu=Preference("triton", "where the loop makes dozens of launches per iteration"),
    elsewhere=Preference("loop", "where a launch costs nothing"),
    subject="the weights",
)


def choose(backend: str, request: Request) -> str:
    """Return the backend that runs a request: ``"loop"`` or ``"triton"``.

    Args:
        backend: ``"auto"`` (see `explain_sequential_solve`), ``"loop"`` or ``"triton"``.
        request: what is to be run.

    Raises:
        InputError: for an unknown backend, or for ``"triton"`` where it cannot run the request.

    Example:
        >>> choose("auto", Request("cpu")), choose("loop", Request("cuda"))
        ('loop', 'loop')
    """
    return BACKENDS.choose(request, backend)


def explain_sequential_solve(
    device: str | None = None,
    dtype: torch.dtype = torch.float32,
    d_model: int = 256,
    d_state: int = 128,
    *,
    iteration: str = ITERATION,
    differentiated: bool = False,
) -> Explanation:
    """Say which backend ``"auto"`` takes for the sequential mode, why, and what the other lacks.

    Args:
        device: type of the device of the weights; ``"cuda"`` if there is one, else ``"cpu"``, for None.
        dtype: element type of the weights.
        d_model: features of the latent.
        d_state: state size per channel.
        iteration: name of the solver.
        differentiated: whether a gradient is wanted.

    Returns:
        The choice; print it to read it.

    Example:
        >>> print(explain_sequential_solve("cpu"))
        auto chooses loop: the weights are on cpu, where a launch costs nothing
          loop       available
          triton     ...
    """
    return BACKENDS.explain(
        Request(device or default_device(), dtype, d_model, d_state, iteration, differentiated)
    )
