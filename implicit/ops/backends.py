"""The choice among the backends of an op: one mechanism for all ops, each of which declares its table.

An op describes a call by a request: the type of its ``device``, element types, sizes. A requirement of a
backend is a function of a request that returns None where it is met, and else one sentence with the remedy.
"""

import functools
import importlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Generic, NamedTuple, Self, TypeVar

import torch
from torch import Tensor

from automata.errors import InputError, unknown_name


@dataclass(frozen=True)
class TensorsRequest:
    """A request whose tensors all have to be of certain element types; an op adds sizes.

    ``entries`` is the size of the first tensor, which is about as large as the output.
    """

    device: str
    dtypes: tuple[torch.dtype, ...]
    entries: int = 1

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], **sizes: int) -> Self:
        """Read a request off named tensors, the first about as large as the output, all on one device."""
        dtypes = tuple(tensor.dtype for tensor in tensors.values())
        return cls(common_device(tensors), dtypes, next(iter(tensors.values())).numel(), **sizes)


def common_device(tensors: Mapping[str, Tensor]) -> str:
    """Return the type of the device that holds all of the named tensors; refuse several devices."""
    (name, first), *others = tensors.items()
    for other, tensor in others:
        if tensor.device != first.device:
            raise InputError(
                f"{other} is on {tensor.device} and {name} on {first.device}; move both to one device"
            )
    return first.device.type


def floating_device(tensors: Mapping[str, Tensor | None]) -> str:
    """Return the type of the device of the named tensors that are given, all of them floating."""
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    for name, tensor in given.items():
        if not tensor.is_floating_point():
            raise InputError(f"{name} is {tensor.dtype}; cast it to a floating dtype")
    return common_device(given)


def check_shapes(expected: Mapping[str, tuple[Tensor | None, Sequence[int]]], given: str) -> None:
    """Refuse tensors, by name, that are there and have another shape than expected from those given."""
    for name, (tensor, shape) in expected.items():
        if tensor is not None and tuple(tensor.shape) != tuple(shape):
            raise InputError(
                f"{name} has shape {tuple(tensor.shape)}; with {given} as given it must be {tuple(shape)}"
            )


Requirement = Callable[[Any], str | None]
TRITON_DTYPES = (torch.float32, torch.bfloat16)
"""Element types that our kernels take; their sums are in float32 with either."""


def package(name: str, command: str, module: str | None = None) -> Requirement:
    """Require an installed package and, only if it is there, a module that can be imported."""

    def requirement(_request: Any) -> str | None:
        if find_spec(name) is None:
            return f"the package {name} is not installed; install it with {command}"
        if module is not None:
            fault = _import_fault(module, name)
            if fault is not None:
                return f"{fault}; mend that, or reinstall it with {command}"
        return None

    return requirement


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


def on_device(device: str, called: str, subject: str = "the tensors") -> Requirement:
    """Require a type of device, and what sentences call it."""
    return lambda request: (
        None if request.device == device else f"{subject} are on {request.device}; move them to {called}"
    )


ON_CPU = on_device("cpu", "the CPU")


def on_gpu_or_interpreted(subject: str = "the tensors") -> Requirement:
    """Require a device on which Triton kernels run: a GPU, or any where they are interpreted."""

    def requirement(request: Any) -> str | None:
        if request.device == "cuda":
            return None
        from implicit.ops.triton_shared.launch import INTERPRETED

        if INTERPRETED:
            return None
        return f"{subject} are on {request.device}; move them to a GPU, or debug with TRITON_INTERPRET=1"

    return requirement


def element_types(
    allowed: Sequence[torch.dtype] = TRITON_DTYPES, subject: str = "the tensors"
) -> Requirement:
    """Require tensors of certain element types; the request has them as ``dtypes``."""
    *first, last = map(str, allowed)

    def requirement(request: Any) -> str | None:
        if all(dtype in allowed for dtype in request.dtypes):
            return None
        given = ", ".join(map(str, dict.fromkeys(request.dtypes)))
        return f"{subject} are {given}; cast them to {', '.join(first)} or {last}"

    return requirement


def one_element_type(subject: str = "the tensors") -> Requirement:
    """Require tensors of one element type, whichever it is; the request has theirs as ``dtypes``."""

    def requirement(request: Any) -> str | None:
        if len(set(request.dtypes)) == 1:
            return None
        return f"{subject} are {', '.join(map(str, request.dtypes))}; cast them to one dtype"

    return requirement


def at_most(largest: int, *sizes: str) -> Requirement:
    """Require sizes from 1 to a limit; the request has them under these names."""

    def requirement(request: Any) -> str | None:
        for name in sizes:
            size = getattr(request, name)
            if not 1 <= size <= largest:
                return f"{name} is {size}; choose one of 1 to {largest}"
        return None

    return requirement


def entries(request: Any) -> str | None:
    """Require tensors that are not empty; the request has the number of their ``entries``."""
    if request.entries:
        return None
    return "the tensors are empty; give at least one sequence and one token"


NUMBA = package("numba", "pip install numba", module="implicit.ops.numba_shared.matrices")
TRITON = package("triton", "pip install triton (Linux only)", module="implicit.ops.triton_shared.launch")


def later(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module of kernels, which is imported when the function is first called."""
    return lambda *arguments: getattr(importlib.import_module(module), name)(*arguments)


AUTO = "auto"

R = TypeVar("R", bound=Any)
Run = TypeVar("Run")


@dataclass(frozen=True)
class Backend(Generic[R, Run]):
    """One implementation of an op: its function, and what it requires of a request, in the order asked."""

    run: Run
    requirements: tuple[Callable[[R], str | None], ...] = ()

    def refusal(self, request: R) -> str | None:
        """Return why it cannot run a request, and the remedy; None if it can."""
        answers = (requirement(request) for requirement in self.requirements)
        return next((refusal for refusal in answers if refusal is not None), None)


class Preference(NamedTuple):
    """The backend that ``"auto"`` takes, and the end of the sentence that says why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """The choice of ``backend="auto"`` for a request, with its reason."""

    chosen: str
    reason: str
    refusals: dict[str, str | None]

    def __str__(self) -> str:
        lines = [f"auto chooses {self.chosen}: {self.reason}"]
        for name, refusal in self.refusals.items():
            lines.append(f"  {name:<10} " + ("available" if refusal is None else f"unavailable: {refusal}"))
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Backends(Mapping[str, Backend[R, Run]]):
    """The backends of an op by name, and which of them ``"auto"`` takes.

    That is ``on_gpu`` on a GPU and ``on_cpu`` on a CPU where it can run the request, else ``elsewhere``.
    Sentences say ``subject`` for what lies on the device.
    """

    table: Mapping[str, Backend[R, Run]]
    on_gpu: Preference
    elsewhere: Preference
    subject: str = "the tensors"
    on_cpu: Preference | None = None

    def __getitem__(self, name: str) -> Backend[R, Run]:
        return self.table[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def choose(self, request: R, override: str = AUTO) -> str:
        """Return the name of the backend for a request; refuse an unknown one or one that cannot run it."""
        if override != AUTO and override not in self.table:
            raise unknown_name("backend", override, [AUTO, *self.table])
        chosen = self._preferred(request).name if override == AUTO else override
        refusal = self.table[chosen].refusal(request)
        if refusal is None:
            return chosen
        others = [name for name in (self.elsewhere.name, *self.table) if name != chosen]
        able = [name for name in others if self.table[name].refusal(request) is None]
        remedy = f", or use backend={able[0]!r}" if able else ""
        raise InputError(f"backend {chosen!r} cannot run this: {refusal}{remedy}")

    def explain(self, request: R) -> Explanation:
        """Say what ``"auto"`` takes for a request, why, and what the others lack."""
        chosen, reason = self._preferred(request)
        return Explanation(
            chosen, reason, {name: backend.refusal(request) for name, backend in self.table.items()}
        )

    def _preferred(self, request: R) -> Preference:
        """The backend that ``"auto"`` takes, and the whole sentence why."""
        preferred = {"cuda": self.on_gpu, "cpu": self.on_cpu}.get(request.device)
        if preferred is None:
            name, reason = self.elsewhere
            return Preference(name, f"{self.subject} are on {request.device}, {reason}")
        name, reason = preferred
        refusal = self.table[name].refusal(request)
        if refusal is None:
            where = "a GPU" if request.device == "cuda" else "a CPU"
            return Preference(name, f"{self.subject} are on {where}, {reason}")
        return Preference(self.elsewhere.name, f"{name} cannot run this: {refusal}")


def passes_or_kernels(passes: Run, module: str, largest: int, size: str) -> Backends[Any, Run]:
    """Return the backends of an op with passes of PyTorch for a CPU, and Triton kernels, ``triton_op``.

    The kernels take a request's ``size`` up to the largest.
    """
    asked = (TRITON, element_types(), at_most(largest, size), entries, on_gpu_or_interpreted())
    return Backends(
        {"torch": Backend(passes), "triton": Backend(later(module, "triton_op"), asked)},  # type: ignore[arg-type]
        on_gpu=Preference("triton", "where every pass over memory counts"),
        elsewhere=Preference("torch", "for which its passes are written"),
    )


def default_device() -> str:
    """Return the device that is explained by default: ``"cuda"`` if there is one, else ``"cpu"``."""
    return "cuda" if torch.cuda.is_available() else "cpu"
