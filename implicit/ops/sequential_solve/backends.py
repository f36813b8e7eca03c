"""Who runs the sequential mode, the plain loop or the fused kernel, and why.

Importing this module does not import Triton: that happens when the kernel is asked about or used.
"""

from dataclasses import dataclass
from importlib.util import find_spec

import torch

from automata.errors import InputError, unknown_name
from implicit.ops.backends import Explanation

AUTO, LOOP, TRITON = "auto", "loop", "triton"
DTYPES = (torch.float32, torch.bfloat16)
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


def triton_refusal(request: Request) -> str | None:
    """Tell why the kernel cannot run a request, and the remedy; None if it can.

    Example:
        >>> print(triton_refusal(Request("cuda", torch.float64)))
        the weights are torch.float64; cast them to torch.float32 or torch.bfloat16
        >>> print(triton_refusal(Request("cuda", differentiated=True)))
        a gradient is wanted, and the kernel computes none; solve under torch.no_grad()
    """
    if find_spec("triton") is None:
        return "the package triton is not installed; install it with pip install triton (Linux only)"
    from implicit.ops.triton_shared.launch import INTERPRETED

    if request.dtype not in DTYPES:
        return f"the weights are {request.dtype}; cast them to {' or '.join(map(str, DTYPES))}"
    for name, size in (("d_model", request.d_model), ("d_state", request.d_state)):
        if not 1 <= size <= LARGEST:
            return f"{name} is {size}; choose one of 1 to {LARGEST}"
    if request.iteration != ITERATION:
        return f"the iteration is that of {request.iteration}, and the kernel's is {ITERATION}; use that"
    if request.differentiated:
        return "a gradient is wanted, and the kernel computes none; solve under torch.no_grad()"
    if request.device != "cuda" and not INTERPRETED:
        return f"the weights are on {request.device}; move them to a GPU, or debug with TRITON_INTERPRET=1"
    return None


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
    if backend not in (AUTO, LOOP, TRITON):
        raise unknown_name("backend", backend, [AUTO, LOOP, TRITON])
    if backend == AUTO:
        return _choose(request)[0]
    refusal = triton_refusal(request) if backend == TRITON else None
    if refusal is not None:
        raise InputError(f"backend 'triton' cannot run this: {refusal}, or use backend='loop'")
    return backend


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
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    request = Request(device, dtype, d_model, d_state, iteration, differentiated)
    return Explanation(*_choose(request), {LOOP: None, TRITON: triton_refusal(request)})


def _choose(request: Request) -> tuple[str, str]:
    """The backend for a request, and why."""
    if request.device != "cuda":
        return LOOP, f"the weights are on {request.device}, where a launch costs nothing"
    refusal = triton_refusal(request)
    if refusal is None:
        return TRITON, "the weights are on a GPU, where the loop is dozens of launches an iteration"
    return LOOP, f"triton cannot run this: {refusal}"
