"""What backends need of a request: each function makes a need, which tells what is missing and how to get it.

A need is a function of a request that returns None where it is given, and else one sentence with the remedy.
"""

import functools
import importlib
import warnings
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

import torch

Need = Callable[[Any], str | None]
TRITON_DTYPES = (torch.float32, torch.bfloat16)
"""Element types that our kernels take; their sums are in float32 with either."""


def package(name: str, command: str, module: str | None = None) -> Need:
    """Need an installed package.

    Args:
        name: of the package.
        command: how to install it.
        module: a module that has to be importable besides; it is imported only if the package is there.

    Example:
        >>> print(package("nowhere", "pip install nowhere")(None))
        the package nowhere is not installed; install it with pip install nowhere
        >>> package("torch", "pip install torch", module="torch.nn")(None) is None
        True
    """

    def need(_request: Any) -> str | None:
        if find_spec(name) is None:
            return f"the package {name} is not installed; install it with {command}"
        if module is not None:
            fault = _import_fault(module, name)
            if fault is not None:
                return f"{fault}; mend that, or reinstall it with {command}"
        return None

    return need


@functools.cache
def _import_fault(module: str, package: str) -> str | None:
    """Import a module that needs a package; say once in a process why that fails, and return it."""
    try:
        importlib.import_module(module)
    except (Exception, SystemExit) as error:  # of any class where packages do not fit the machine
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, SystemExit):
            reason = f"it would end Python: {reason}"
        fault = f"{package} cannot be imported ({reason})"
        warnings.warn(f"{fault}; kernels that need it give way to PyTorch", RuntimeWarning, stacklevel=2)
        return fault
    return None


def on_cuda(subject: str = "the tensors") -> Need:
    """Need a CUDA device.

    Example:
        >>> from types import SimpleNamespace
        >>> on_cuda()(SimpleNamespace(device="cpu"))
        'the tensors are on cpu; move them to a CUDA device'
    """

    def need(request: Any) -> str | None:
        if request.device == "cuda":
            return None
        return f"{subject} are on {request.device}; move them to a CUDA device"

    return need


def on_cpu(subject: str = "the tensors") -> Need:
    """Need tensors in main memory.

    Example:
        >>> from types import SimpleNamespace
        >>> on_cpu()(SimpleNamespace(device="cuda"))
        'the tensors are on cuda; move them to the CPU'
    """

    def need(request: Any) -> str | None:
        if request.device == "cpu":
            return None
        return f"{subject} are on {request.device}; move them to the CPU"

    return need


def on_gpu_or_interpreted(subject: str = "the tensors") -> Need:
    """Need a device on which Triton kernels run: a GPU, or any where they are interpreted.

    Example:
        >>> from types import SimpleNamespace
        >>> on_gpu_or_interpreted()(SimpleNamespace(device="cuda")) is None
        True
    """

    def need(request: Any) -> str | None:
        if request.device == "cuda":
            return None
        from implicit.ops.triton_shared.launch import INTERPRETED

        if INTERPRETED:
            return None
        return f"{subject} are on {request.device}; move them to a GPU, or debug with TRITON_INTERPRET=1"

    return need


def element_types(allowed: Sequence[torch.dtype] = TRITON_DTYPES, subject: str = "the tensors") -> Need:
    """Need tensors of certain element types; the request has them as ``dtypes``.

    Example:
        >>> from types import SimpleNamespace
        >>> print(element_types()(SimpleNamespace(dtypes=(torch.float32, torch.float64))))
        the tensors are torch.float32, torch.float64; cast them to torch.float32 or torch.bfloat16
    """
    *first, last = map(str, allowed)

    def need(request: Any) -> str | None:
        if all(dtype in allowed for dtype in request.dtypes):
            return None
        return f"{subject} are {_listed(request.dtypes)}; cast them to {', '.join(first)} or {last}"

    return need


def one_element_type(subject: str = "the tensors") -> Need:
    """Need tensors of one element type, whichever it is; the request has theirs as ``dtypes``.

    Example:
        >>> from types import SimpleNamespace
        >>> one_element_type("x and B")(SimpleNamespace(dtypes=(torch.float32, torch.float64)))
        'x and B are torch.float32, torch.float64; cast them to one dtype'
    """

    def need(request: Any) -> str | None:
        if len(set(request.dtypes)) == 1:
            return None
        return f"{subject} are {', '.join(map(str, request.dtypes))}; cast them to one dtype"

    return need


def at_most(largest: int, *sizes: str) -> Need:
    """Need sizes from 1 to a limit; the request has them under these names.

    Example:
        >>> from types import SimpleNamespace
        >>> at_most(8, "width")(SimpleNamespace(width=9))
        'width is 9; choose one of 1 to 8'
    """

    def need(request: Any) -> str | None:
        for name in sizes:
            size = getattr(request, name)
            if not 1 <= size <= largest:
                return f"{name} is {size}; choose one of 1 to {largest}"
        return None

    return need


def entries(request: Any) -> str | None:
    """Need tensors that are not empty; the request has the number of their ``entries``.

    Example:
        >>> from types import SimpleNamespace
        >>> entries(SimpleNamespace(entries=0))
        'the tensors are empty; give at least one sequence and one token'
    """
    if request.entries:
        return None
    return "the tensors are empty; give at least one sequence and one token"


NUMBA = package("numba", "pip install numba", module="implicit.ops.numba_shared.tiles")
TRITON = package("triton", "pip install triton (Linux only)", module="implicit.ops.triton_shared.launch")


def _listed(dtypes: Sequence[torch.dtype]) -> str:
    """Each of them once."""
    return ", ".join(str(dtype) for dtype in dict.fromkeys(dtypes))
