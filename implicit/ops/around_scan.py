"""Who runs the ops around the scan, passes of PyTorch or a Triton kernel, and why.

Importing this module does not import Triton: that happens when a kernel is asked about or used.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Self

import torch
from torch import Tensor

from automata.errors import InputError, unknown_name
from implicit.ops.backends import Explanation

AUTO, TORCH, TRITON = "auto", "torch", "triton"
DTYPES = (torch.float32, torch.bfloat16)
LARGEST = {"features": 8192, "width": 8}
"""Largest sizes of the kernels: the gated norm holds the features of a group in registers, the short
convolution is compiled for all its taps."""


@dataclass(frozen=True)
class Request:
    """What decides whether a kernel can run an op.

    Attributes:
        device: type of the device that holds the tensors, such as ``"cpu"`` or ``"cuda"``.
        dtypes: their element types.
        size: the name of the size that is limited: ``"features"`` a group of the gated norm, or the
            ``"width"`` of the short convolution.
        value: of that size.
        entries: of the output.

    Example:
        >>> Request.of({"y": torch.ones(3)}, "width", 4)
        Request(device='cpu', dtypes=(torch.float32,), size='width', value=4, entries=3)
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    size: str
    value: int
    entries: int = 1

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], size: str, value: int) -> Self:
        """Read a request off the named tensors of a call, the first of which is as large as the output.

        Raises:
            InputError: for tensors on several devices.
        """
        (name, first), *others = tensors.items()
        for other, tensor in others:
            if tensor.device != first.device:
                raise InputError(
                    f"{other} is on {tensor.device} and {name} on {first.device}; move both to one device"
                )
        dtypes = tuple(tensor.dtype for tensor in tensors.values())
        return cls(first.device.type, dtypes, size, value, first.numel())


def triton_refusal(request: Request) -> str | None:
    """Tell why the kernel cannot run a request, and the remedy; None if it can.

    Example:
        >>> print(triton_refusal(Request("cuda", (torch.float32, torch.float64), "width", 4)))
        a tensor is torch.float64; cast it to torch.float32 or torch.bfloat16
        >>> print(triton_refusal(Request("cuda", (torch.float32,), "features", 9000)))
        features is 9000; choose one of 1 to 8192
    """
    if find_spec("triton") is None:
        return "the package triton is not installed; install it with pip install triton (Linux only)"
    from implicit.ops.triton_shared.launch import INTERPRETED

    for dtype in request.dtypes:
        if dtype not in DTYPES:
            return f"a tensor is {dtype}; cast it to {' or '.join(map(str, DTYPES))}"
    largest = LARGEST[request.size]
    if not 1 <= request.value <= largest:
        return f"{request.size} is {request.value}; choose one of 1 to {largest}"
    if request.entries == 0:
        return "the tensors are empty; give at least one sequence and one token"
    if request.device != "cuda" and not INTERPRETED:
        return f"the tensors are on {request.device}; move them to a GPU, or debug with TRITON_INTERPRET=1"
    return None


def choose(backend: str, request: Request) -> str:
    """Return the backend that runs a request: ``"torch"`` or ``"triton"``.

    Args:
        backend: ``"auto"`` (see `explain_around_scan`), ``"torch"`` or ``"triton"``.
        request: what is to be run.

    Raises:
        InputError: for an unknown backend, or for ``"triton"`` where it cannot run the request.

    Example:
        >>> request = Request("cpu", (torch.float32,), "width", 4)
        >>> choose("auto", request), choose("torch", request)
        ('torch', 'torch')
    """
    if backend not in (AUTO, TORCH, TRITON):
        raise unknown_name("backend", backend, [AUTO, TORCH, TRITON])
    if backend == AUTO:
        return _choose(request)[0]
    refusal = triton_refusal(request) if backend == TRITON else None
    if refusal is not None:
        raise InputError(f"backend 'triton' cannot run this: {refusal}, or use backend='torch'")
    return backend


def explain_around_scan(
    device: str | None = None, dtype: torch.dtype = torch.float32, *, features: int = 1536, width: int = 4
) -> dict[str, Explanation]:
    """Say which backend ``"auto"`` takes for each op around the scan, why, and what the other lacks.

    Args:
        device: type of the device of the tensors; ``"cuda"`` if there is one, else ``"cpu"``, for None.
        dtype: their element type.
        features: of a group of the gated norm.
        width: of the short convolution.

    Returns:
        The choices by the name of the op; print one to read it.

    Example:
        >>> print(explain_around_scan("cpu")["gated_norm"])
        auto chooses torch: the tensors are on cpu, for which its passes are written
          torch      available
          triton     ...
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    requests = {
        "gated_norm": Request(device, (dtype,), "features", features),
        "short_convolution": Request(device, (dtype,), "width", width),
    }
    return {
        name: Explanation(*_choose(request), {TORCH: None, TRITON: triton_refusal(request)})
        for name, request in requests.items()
    }


def _choose(request: Request) -> tuple[str, str]:
    """The backend for a request, and why."""
    if request.device != "cuda":
        return TORCH, f"the tensors are on {request.device}, for which its passes are written"
    refusal = triton_refusal(request)
    if refusal is None:
        return TRITON, "the tensors are on a GPU, where every pass over memory counts"
    return TORCH, f"triton cannot run this: {refusal}"
