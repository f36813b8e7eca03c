"""The backends of the SSD scan: what each can run, and how to get one that is missing.

Importing this module imports neither Triton nor mamba_ssm: a backend does when it is asked about or used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Self

import torch
from torch import Tensor

from implicit.ops.ssd.chunked import ssd_chunked
from implicit.ops.ssd.mamba_ssm_scan import ssd_mamba_ssm
from implicit.ops.ssd.reference import ssd_reference

Scan = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Request:
    """What decides whether a backend can run a scan.

    Attributes:
        device: type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``.
        dtypes: element types of x, B and C.
        head_size: rows of the state of a head.
        state_size: columns of the state of a head.

    Example:
        >>> Request.of(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 1, 4), torch.ones(1, 1, 1, 4))
        Request(device='cpu', dtypes=(torch.float32, torch.float32, torch.float32), head_size=8, state_size=4)
    """

    device: str
    dtypes: tuple[torch.dtype, torch.dtype, torch.dtype]
    head_size: int
    state_size: int

    @classmethod
    def of(cls, x: Tensor, B: Tensor, C: Tensor) -> Self:
        """Read a request off the tensors of a call."""
        return cls(x.device.type, (x.dtype, B.dtype, C.dtype), x.shape[-1], B.shape[-1])


@dataclass(frozen=True)
class Backend:
    """One implementation of the scan.

    Attributes:
        scan: computes it.
        refusal: tells why it cannot run a request and the remedy; None if it can.

    Example:
        >>> request = Request("cpu", (torch.float32,) * 3, head_size=64, state_size=128)
        >>> BACKENDS["chunked"].refusal(request) is None
        True
    """

    scan: Scan
    refusal: Callable[[Request], str | None]


def _never(request: Request) -> None:
    """Refuse nothing: the loop runs on any device, in any floating dtype and size."""


def chunked_refusal(request: Request) -> str | None:
    """Tell why the chunked form cannot run a request; None if it can, as with any one dtype.

    Example:
        >>> mixed = (torch.float64, torch.float32, torch.float32)
        >>> print(chunked_refusal(Request("cpu", mixed, head_size=64, state_size=128)))
        x, B and C are torch.float64, torch.float32, torch.float32; cast them to one dtype
    """
    if len(set(request.dtypes)) > 1:
        return f"x, B and C are {', '.join(map(str, request.dtypes))}; cast them to one dtype"
    return None


def _triton_scan(
    x: Tensor, dt: Tensor, A: Tensor, B: Tensor, C: Tensor, initial_state: Tensor | None
) -> tuple[Tensor, Tensor]:
    from implicit.ops.ssd.triton_kernels import ssd_triton

    return ssd_triton(x, dt, A, B, C, initial_state)


def triton_refusal(request: Request) -> str | None:
    """Tell why the Triton kernels cannot run a request; None if they can.

    Example:
        >>> print(triton_refusal(Request("cuda", (torch.float64,) * 3, head_size=64, state_size=128)))
        x, B and C are torch.float64; cast them to torch.float32 or torch.bfloat16
    """
    if find_spec("triton") is None:
        return "the package triton is not installed; install it with pip install triton (Linux only)"
    from implicit.ops.ssd.triton_kernels.launch import DTYPES, LARGEST
    from implicit.ops.triton_shared.launch import INTERPRETED

    several = chunked_refusal(request)
    if several is not None:
        return several
    if request.dtypes[0] not in DTYPES:
        return f"x, B and C are {request.dtypes[0]}; cast them to {' or '.join(map(str, DTYPES))}"
    for name, size in (("head_size", request.head_size), ("state_size", request.state_size)):
        if not 1 <= size <= LARGEST:
            return f"{name} is {size}; choose one of 1 to {LARGEST}"
    if request.device != "cuda" and not INTERPRETED:
        return f"the tensors are on {request.device}; move them to a GPU, or debug with TRITON_INTERPRET=1"
    return None


def mamba_ssm_refusal(request: Request) -> str | None:
    """Tell why mamba_ssm cannot run a request; None if it can.

    Example:
        >>> print(mamba_ssm_refusal(Request("cpu", (torch.float32,) * 3, head_size=64, state_size=128)))
        the tensors are on cpu; move them to a CUDA device
    """
    if request.device != "cuda":
        return f"the tensors are on {request.device}; move them to a CUDA device"
    if find_spec("mamba_ssm") is None:
        return "the package mamba_ssm is not installed; install it with pip install 'implicit-ssm[cuda]'"
    try:
        import mamba_ssm.ops.triton.ssd_combined  # noqa: F401
    except ImportError as error:
        return f"mamba_ssm cannot be imported ({error}); reinstall it, version 2.3 needs no CUDA extension"
    if len(set(request.dtypes)) > 1 or request.dtypes[0] not in (
        torch.float32,
        torch.bfloat16,
        torch.float16,
    ):
        return (
            f"x, B and C are {', '.join(map(str, request.dtypes))}; "
            "cast them to torch.float32, torch.bfloat16 or torch.float16"
        )
    return None


BACKENDS: dict[str, Backend] = {
    "reference": Backend(ssd_reference, _never),
    "chunked": Backend(ssd_chunked, chunked_refusal),
    "triton": Backend(_triton_scan, triton_refusal),
    "mamba_ssm": Backend(ssd_mamba_ssm, mamba_ssm_refusal),
}
