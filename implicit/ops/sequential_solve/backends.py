"""The backends of the sequential mode: the plain loop, and a fused kernel for CPUs and one for GPUs.

Importing this module imports neither numba nor Triton: that happens when a kernel is asked about or used.
"""

from dataclasses import dataclass

import torch

from implicit.ops.backends import (
    NUMBA,
    TRITON,
    Backend,
    Backends,
    Explanation,
    Preference,
    at_most,
    default_device,
    element_types,
    on_cpu,
    on_gpu_or_interpreted,
)

LARGEST = 4096
"""Largest d_model and d_state: a program holds a whole vector of either in registers."""
ITERATION = "DampedPicard"
"""The solver that the kernels iterate with."""
NUMBA_DTYPES = (torch.float32, torch.float64)


@dataclass(frozen=True)
class Request:
    """The properties of a sequential solve that decide which kernel can run it.

    Device and dtype are those of the weights, ``iteration`` the name of the solver or of a rule that iterates
    by itself, ``others`` the dtypes of the state, the inputs and the start.
    """

    device: str
    dtype: torch.dtype = torch.float32
    d_model: int = 256
    d_state: int = 128
    iteration: str = ITERATION
    differentiated: bool = False
    padded: bool = False
    others: tuple[torch.dtype, ...] = ()

    @property
    def dtypes(self) -> tuple[torch.dtype, ...]:
        """The element type of the weights."""
        return (self.dtype,)


def _same_iteration(request: Request) -> str | None:
    if request.iteration == ITERATION:
        return None
    return f"the iteration is that of {request.iteration}, and the kernel's is {ITERATION}; use that"


def _one_type(request: Request) -> str | None:
    other = next((dtype for dtype in request.others if dtype != request.dtype), None)
    if other is None:
        return None
    return f"the weights are {request.dtype} and an input, the state or the start {other}; cast them to one"


def _no_padding(request: Request) -> str | None:
    if not request.padded:
        return None
    return "some tokens are padding, which the kernel has no form for; give sequences of one length"


def _no_gradient(request: Request) -> str | None:
    if not request.differentiated:
        return None
    return "a gradient is wanted, and the kernel computes none; solve under torch.no_grad()"


NUMBA_REQUIREMENTS = (
    NUMBA,
    on_cpu("the weights"),
    element_types(NUMBA_DTYPES, subject="the weights"),
    _one_type,
    _same_iteration,
    _no_gradient,
)
TRITON_REQUIREMENTS = (
    TRITON,
    element_types(subject="the weights"),
    at_most(LARGEST, "d_model", "d_state"),
    _same_iteration,
    _no_gradient,
    _no_padding,
    on_gpu_or_interpreted("the weights"),
)
REQUIREMENTS = {"numba": NUMBA_REQUIREMENTS, "triton": TRITON_REQUIREMENTS}
# `implicit.modes` runs them: it holds the loop, and calls `sequential_solve` for a kernel.
BACKENDS: Backends[Request, None] = Backends(
    {"loop": Backend(None), **{name: Backend(None, found) for name, found in REQUIREMENTS.items()}},
    on_gpu=Preference("triton", "where the loop makes dozens of launches per iteration"),
    on_cpu=Preference("numba", "where a loop over small tensors is mostly calls"),
    elsewhere=Preference("loop", "for which there is no kernel"),
    subject="the weights",
)


def choose(backend: str, request: Request) -> str:
    """Return ``"loop"``, ``"numba"`` or ``"triton"``: the backend asked for, or what ``"auto"`` takes.

    Raises:
        InputError: for an unknown backend, or a kernel that cannot run the request.
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
    """Say which backend ``"auto"`` takes for the sequential mode, why, and what the others lack.

    The device and the dtype are those of the weights; the device is ``"cuda"`` if there is one, else
    ``"cpu"``, for None. The iteration is the name of the solver. Print the choice to read it.

    Example:
        >>> print(explain_sequential_solve("mps"))
        auto chooses loop: the weights are on mps, for which there is no kernel
          loop       available
          numba      unavailable: ...
          triton     ...
    """
    return BACKENDS.explain(
        Request(device or default_device(), dtype, d_model, d_state, iteration, differentiated)
    )
