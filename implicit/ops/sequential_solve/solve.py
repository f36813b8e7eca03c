"""The backends of the sequential mode, a plain loop and fused kernels, and the public function that runs one.

Importing this module imports neither numba nor Triton: that happens when a kernel is asked about or used.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from automata.errors import InputError, unknown_name
from implicit.fixed_point import DampedPicard, Stopping
from implicit.ops.backends import (
    AUTO,
    NUMBA,
    TRITON,
    Backend,
    Backends,
    Explanation,
    Preference,
    at_most,
    default_device,
    element_types,
    on_device,
    on_gpu_or_interpreted,
)
from implicit.ops.hand_written_passes import is_transformed
from implicit.ops.sequential_solve.self_map import SelfMap, Walk, check_tensors

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
    on_device("cpu", "the CPU", "the weights"),
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
KERNELS: dict[str, Backend[Request, None]] = {
    "numba": Backend(None, NUMBA_REQUIREMENTS),
    "triton": Backend(None, TRITON_REQUIREMENTS),
}
# `implicit.modes` runs them: it holds the loop, and calls `sequential_solve` for a kernel.
BACKENDS: Backends[Request, None] = Backends(
    {"loop": Backend(None), **KERNELS},
    on_gpu=Preference("triton", "where the loop makes dozens of launches per iteration"),
    on_cpu=Preference("numba", "where a loop over small tensors is mostly calls"),
    elsewhere=Preference("loop", "for which there is no kernel"),
    subject="the weights",
)


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


def sequential_solve(
    self_map: SelfMap,
    injections: Tensor,
    start: Tensor,
    windows: Tensor,
    states: Tensor,
    solver: DampedPicard,
    stopping: Stopping,
    mask: Tensor | None = None,
    backend: str = AUTO,
) -> Walk:
    """Find the fixed point of token after token, all tokens of all sequences in one call of a kernel.

    It computes what `implicit.modes.solve_sequentially` computes with `DampedPicard`, with the same counts,
    residuals and statuses, and without gradient. The kernel for GPUs iterates the latent in float32; with
    bfloat16 weights the residual is that before rounding. InputError for an empty batch or sequence, shapes
    that do not fit, several dtypes or devices, a gradient that is wanted, and whatever else the kernel does
    not take.

    Args:
        self_map: Φ; float32, on a CPU also float64, on a GPU also bfloat16.
        injections: added to the input projections, ``[layers, batch, length, d_in_proj]``.
        start: z₀, ``[batch, length, d_model]``.
        windows: the last inputs of the convolutions before the first token, ``[layers, batch, channels,
            d_conv − 1]``.
        states: the SSM states before it in float32 or wider, ``[layers, batch, heads, head_size, d_state]``.
        solver: its damping.
        stopping: tolerance and limit.
        mask: which tokens are real, ``[batch, length]``, bool; all if None. Only on a CPU.
        backend: ``"numba"`` (for CPUs), ``"triton"`` (for GPUs) or ``"auto"``, which of them is for the
            device.

    Returns:
        The fixed points, how they were reached, and the state after the last token.

    Example:
        Zero weights: the mixer adds nothing, and z ← norm(z) ends at the norm of the start.

        >>> device = "cuda" if torch.cuda.is_available() else "cpu"
        >>> with torch.device(device):
        ...     self_map = SelfMap(
        ...         mixer_norm=torch.ones(1, 8), in_proj=torch.zeros(1, 46, 8),
        ...         conv_weight=torch.zeros(1, 26, 4), conv_bias=torch.zeros(1, 26),
        ...         dt_bias=torch.zeros(1, 4), A_log=torch.zeros(1, 4), D=torch.ones(1, 4),
        ...         gate_norm=torch.ones(1, 16), out_proj=torch.zeros(1, 8, 16), latent_norm=torch.ones(8),
        ...     )
        ...     found = sequential_solve(
        ...         self_map, torch.zeros(1, 2, 3, 46), torch.full((2, 3, 8), 5.0), torch.zeros(1, 2, 26, 3),
        ...         torch.zeros(1, 2, 4, 4, 5), DampedPicard(1.0), Stopping(rtol=1e-4),
        ...     )
        >>> found.iterations.tolist(), round(found.value.mean().item(), 4)
        ([[2, 2, 2], [2, 2, 2]], 1.0)
    """
    _check(self_map, injections, start, windows, states, mask)
    tensors = [*self_map.weights.values(), injections, start, windows, states]
    wants_gradient = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    if backend not in (AUTO, *KERNELS):
        raise unknown_name("backend", backend, [AUTO, *KERNELS])
    chosen = ("numba" if start.device.type == "cpu" else "triton") if backend == AUTO else backend
    request = Request(
        start.device.type,
        self_map.dtype,
        self_map.d_model,
        self_map.d_state,
        differentiated=wants_gradient or is_transformed(tensors),
        padded=mask is not None,
    )
    if (refusal := KERNELS[chosen].refusal(request)) is not None:
        raise InputError(refusal)
    stopping = stopping.resolved_by(states)  # float32 or wider, as what is iterated
    given = self_map, injections, start, windows, states, solver, stopping
    if chosen == "numba":
        from implicit.ops.sequential_solve.numba_kernels.launch import walk

        return walk(*given, mask)
    from implicit.ops.sequential_solve.triton_kernels.launch import walk as walk_on_gpu

    launch, found = walk_on_gpu(*given)
    launch.run()
    return found


def _check(
    self_map: SelfMap, injections: Tensor, start: Tensor, windows: Tensor, states: Tensor, mask: Tensor | None
) -> None:
    if start.ndim != 3 or 0 in start.shape:
        raise InputError(
            f"start has shape {tuple(start.shape)}; give [batch, length, d_model], at least one of each"
        )
    batch, length, _ = start.shape
    layers, size = self_map.layers, self_map
    wide = torch.promote_types(size.dtype, torch.float32)
    expected = {
        "start": (start, (batch, length, size.d_model), size.dtype),
        "injections": (injections, (layers, batch, length, size.d_in_proj), size.dtype),
        "windows": (windows, (layers, batch, size.channels, size.d_conv - 1), size.dtype),
        "states": (states, (layers, batch, size.heads, size.head_size, size.d_state), wide),
    }
    if mask is not None:
        expected["mask"] = (mask, (batch, length), torch.bool)
    check_tensors(expected, "start and self_map", self_map.out_proj)
