"""The choice among the backends of an op: one chooser for all ops, each of which declares its table.

An op describes a call by a request (device, element types, sizes). A backend names what it needs of a
request, so that it can be refused before it runs, with the way to get it (`needs` has what several need).
Importing this module does not import Triton: that happens when a kernel is asked about or used.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import torch

from automata.errors import InputError, unknown_name
from implicit.ops.request import Request

AUTO = "auto"

R = TypeVar("R", bound=Request)
Run = TypeVar("Run")


@dataclass(frozen=True)
class Backend(Generic[R, Run]):
    """One implementation of an op.

    Attributes:
        run: computes the op; its arguments are up to the op.
        needs: what it needs of a request, in the order in which it is looked at; each returns None where it
            is given, and else what is missing and how to get it.

    Example:
        >>> from types import SimpleNamespace
        >>> from implicit.ops.needs import on_cuda
        >>> doubled = Backend(run=lambda x: 2 * x, needs=(on_cuda(),))
        >>> doubled.refusal(SimpleNamespace(device="cpu"))
        'the tensors are on cpu; move them to a CUDA device'
        >>> doubled.refusal(SimpleNamespace(device="cuda")) is None, doubled.run(3)
        (True, 6)
    """

    run: Run
    needs: tuple[Callable[[R], str | None], ...] = ()

    def refusal(self, request: R) -> str | None:
        """Return why it cannot run a request, and the remedy; None if it can."""
        return first_refusal(self.needs, request)


class Preference(NamedTuple):
    """What ``"auto"`` takes, and the end of the sentence that says why.

    Example:
        >>> Preference("chunked", "where it is the fastest").name
        'chunked'
    """

    name: str
    reason: str


@dataclass(frozen=True)
class Explanation:
    """What ``backend="auto"`` chooses for a request, and why.

    Attributes:
        chosen: name of the backend.
        reason: why this one.
        refusals: for every backend, why it cannot run the request and the remedy; None where it can.

    Example:
        >>> Explanation("chunked", "it is there", {"chunked": None, "triton": "no GPU; get one"}).chosen
        'chunked'
    """

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

    On a GPU that is ``on_gpu`` where it can run the request, on a CPU ``on_cpu`` likewise; in all other cases
    it is ``elsewhere``.

    Attributes:
        table: the backends.
        on_gpu: the backend for a GPU.
        elsewhere: the backend for all else, which should need next to nothing.
        subject: what lies on the device, in sentences.
        on_cpu: the backend for a CPU; None where that is the one for all else.

    Example:
        >>> from types import SimpleNamespace
        >>> from implicit.ops.needs import on_cuda
        >>> double = Backends(
        ...     {"sum": Backend(lambda x: x + x), "kernel": Backend(lambda x: 2 * x, (on_cuda(),))},
        ...     on_gpu=Preference("kernel", "where it is the fastest"),
        ...     elsewhere=Preference("sum", "where it runs as it is"),
        ... )
        >>> print(double.explain(SimpleNamespace(device="cpu")))
        auto chooses sum: the tensors are on cpu, where it runs as it is
          sum        available
          kernel     unavailable: the tensors are on cpu; move them to a CUDA device
        >>> name = double.choose(SimpleNamespace(device="cuda"))
        >>> name, double[name].run(3)
        ('kernel', 6)
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
        """Return the name of the backend that runs a request.

        Args:
            request: what is to be run.
            override: the ``backend=`` argument of the op: ``"auto"`` or the name of a backend.

        Raises:
            InputError: for an unknown backend, or one that cannot run the request.
        """
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


def first_refusal(needs: tuple[Callable[[R], str | None], ...], request: R) -> str | None:
    """Return what the first need says that is not given; None if all are.

    Example:
        >>> from types import SimpleNamespace
        >>> from implicit.ops.needs import on_cuda, package
        >>> first_refusal((package("numpy", "pip install numpy"), on_cuda()), SimpleNamespace(device="mps"))
        'the tensors are on mps; move them to a CUDA device'
    """
    return next((refusal for need in needs if (refusal := need(request)) is not None), None)


def default_device() -> str:
    """Return the device that is explained unless told otherwise: ``"cuda"`` if there is one, else ``"cpu"``.

    Example:
        >>> default_device() in ("cuda", "cpu")
        True
    """
    return "cuda" if torch.cuda.is_available() else "cpu"
