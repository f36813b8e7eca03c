"""The public function of the SSD scan: arguments checked once for all backends, one of them run."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from automata.errors import InputError
from implicit.ops.backends import (
    AUTO,
    NUMBA,
    ON_CPU,
    TRITON,
    Backend,
    Backends,
    Explanation,
    Preference,
    Requirement,
    at_most,
    check_shapes,
    default_device,
    element_types,
    floating_device,
    later,
    on_device,
    on_gpu_or_interpreted,
    one_element_type,
    package,
)
from implicit.ops.hand_written_passes import uncompiled
from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.reference import ssd_reference


def ssd_mamba_ssm(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compute what `ssd_reference` computes by the scan of mamba_ssm; CUDA only, the state float32.

    Float32 products may be TF32, and log decays are summed in float32 over a chunk, so that tokens that reset
    the state take digits from those that follow.
    """
    from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined

    y, state = mamba_chunk_scan_combined(
        x,
        dt.float(),
        A.float(),
        B,
        C,
        chunk_size=256,
        initial_states=None if initial_state is None else initial_state.float(),
        return_final_states=True,
    )
    return y, state.to(torch.float32)


LARGEST = 256
"""Largest head_size and state_size of the kernels. They need not be powers of two: tiles are padded."""

TYPED = "x, B and C"
"""The tensors whose element types are asked about: the others may be wider."""


@dataclass(frozen=True)
class Request:
    """The properties of a scan that decide which backend can run it.

    ``device`` is a type such as ``"cuda"``, and ``dtypes`` are those of x, B and C. The state of a head is
    ``[head_size, state_size]``.
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    head_size: int
    state_size: int

    @classmethod
    def of(cls, x: Tensor, B: Tensor, C: Tensor) -> Self:
        """Read a request off the tensors of a call."""
        return cls(x.device.type, (x.dtype, B.dtype, C.dtype), x.shape[-1], B.shape[-1])


TRITON_REQUIREMENTS: tuple[Requirement, ...] = (
    TRITON,
    one_element_type(TYPED),
    element_types(subject=TYPED),
    at_most(LARGEST, "head_size", "state_size"),
    on_gpu_or_interpreted(),
)


Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]
MAMBA_SSM_REQUIREMENTS = (
    on_device("cuda", "a CUDA device"),
    # Version 2.3 needs no CUDA extension.
    package("mamba_ssm", "pip install 'implicit-ssm[cuda]'", module="mamba_ssm.ops.triton.ssd_combined"),
    one_element_type(TYPED),
    element_types((torch.float32, torch.bfloat16, torch.float16), TYPED),
)


NUMBA_REQUIREMENTS = (
    NUMBA,
    ON_CPU,
    one_element_type(TYPED),
    element_types((torch.float32, torch.float64), TYPED),
)


# On a GPU our kernels come before mamba_ssm's: in float32 theirs may round products to TF32, and over their
# chunks of 256 tokens a reset costs the digits of the decays that follow, which state tracking lives on.
BACKENDS: Backends[Request, Scan] = Backends(
    {
        "reference": Backend(ssd_reference),
        "chunked": Backend(ssd_chunked, (one_element_type(TYPED),)),
        "numba": Backend(later("implicit.ops.ssd.numba_kernels.launch", "ssd_numba"), NUMBA_REQUIREMENTS),
        "triton": Backend(later("implicit.ops.ssd.triton_kernels.scan", "ssd_triton"), TRITON_REQUIREMENTS),
        "mamba_ssm": Backend(ssd_mamba_ssm, MAMBA_SSM_REQUIREMENTS),
    },
    on_gpu=Preference("triton", "and it keeps float32 products and exact resets there"),
    on_cpu=Preference("numba", "where it is the fastest"),
    elsewhere=Preference("chunked", "where it is the fastest that runs"),
)


@uncompiled
def ssd(
    x: Tensor,
    dt: Tensor,
    A: Tensor,
    B: Tensor,
    C: Tensor,
    initial_state: Tensor | None = None,
    backend: str = AUTO,
) -> tuple[Tensor, Tensor]:
    """Run the SSD scan h_t = exp(Δ_t A) h_{t-1} + Δ_t x_t B_tᵀ, y_t = h_t C_t.

    InputError for an unknown backend or one that cannot run these tensors, an empty batch or sequence,
    tensors on several devices or not floating, or shapes that do not fit.

    Args:
        x: inputs, ``[batch, length, heads, head_size]``.
        dt: positive step sizes, ``[batch, length, heads]``.
        A: negative decay rates, ``[heads]``.
        B: input projections, ``[batch, length, groups, state_size]``; ``heads`` is a multiple of ``groups``.
        C: output projections, shaped like ``B``.
        initial_state: state before the first token, ``[batch, heads, head_size, state_size]``; zero if None.
        backend: ``"auto"`` (see `explain`), ``"reference"`` (the readable loop), ``"chunked"`` (matrix
            products), ``"numba"`` (our kernels for CPUs), ``"triton"`` (those for GPUs) or ``"mamba_ssm"``
            (that package's).

    Returns:
        The outputs, shaped like ``x``, and the state after the last token.

    Example:
        >>> x, dt, B = torch.ones(1, 2, 4, 8), torch.ones(1, 2, 4), torch.ones(1, 2, 1, 16)
        >>> y, state = ssd(x, dt, -torch.ones(4), B, B)
        >>> y.shape, state.shape
        (torch.Size([1, 2, 4, 8]), torch.Size([1, 4, 8, 16]))
    """
    _check_shapes(x, dt, A, B, C, initial_state)
    floating_device({"x": x, "dt": dt, "A": A, "B": B, "C": C, "initial_state": initial_state})
    chosen = BACKENDS.choose(Request.of(x, B, C), backend)
    return BACKENDS[chosen].run(x, dt, A, B, C, initial_state)


def explain(
    device: str | None = None, dtype: torch.dtype = torch.float32, head_size: int = 64, state_size: int = 128
) -> Explanation:
    """Say which backend ``"auto"`` takes, why, and what the others lack; print it to read it.

    The device is ``"cuda"`` if there is one, else ``"cpu"``, for None; the dtype is that of x, B and C; the
    sizes are those of the state of a head.

    Example:
        >>> print(explain("mps"))
        auto chooses chunked: the tensors are on mps, where it is the fastest that runs
          reference  available
          chunked    available
          numba      unavailable: ...
          triton     ...
          mamba_ssm  unavailable: the tensors are on mps; move them to a CUDA device
    """
    return BACKENDS.explain(Request(device or default_device(), (dtype,) * 3, head_size, state_size))


def _check_shapes(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> None:
    if x.ndim != 4 or B.ndim != 4:
        raise InputError(
            f"x has shape {tuple(x.shape)} and B {tuple(B.shape)}; "
            "give x as [batch, length, heads, head_size] and B as [batch, length, groups, state_size]"
        )
    batch, length, heads, head_size = x.shape
    groups, state_size = B.shape[2:]
    if batch == 0 or length == 0:
        raise InputError(f"x has shape {tuple(x.shape)}; give at least one sequence and one token")
    if 0 in (heads, head_size, state_size):
        raise InputError(
            f"x has shape {tuple(x.shape)} and B {tuple(B.shape)}; "
            "give at least one head, and a head_size and a state_size of at least 1"
        )
    if not groups or heads % groups:
        raise InputError(f"B has {groups} groups for {heads} heads; make heads a multiple of groups")
    expected = {
        "dt": (dt, (batch, length, heads)),
        "A": (A, (heads,)),
        "B": (B, (batch, length, groups, state_size)),
        "C": (C, (batch, length, groups, state_size)),
        "initial_state": (initial_state, (batch, heads, head_size, state_size)),
    }
    check_shapes(expected, "x and B")
