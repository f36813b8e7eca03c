"""Random weights from a generator of their own: the global one is shared by all threads."""

import random
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np
import torch
from torch import Generator, Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_CPU = torch.device("cpu")


class Seeded(TorchDispatchMode):
    """A context whose draws are those after ``torch.manual_seed``, with the global generator left alone.

    It holds for its own thread, and for every draw of PyTorch on the CPU: also those within other operations,
    as of dropout. In the context ``torch.manual_seed`` and all else of ``torch.random`` mean its generator.
    On other devices draws that take no generator are left as they are, and ``torch.manual_seed`` too.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed
        self.generators: dict[torch.device, Generator] = {}

    def __enter__(self) -> "Seeded":
        """Begin."""
        _GLOBAL.enter(self)
        return super().__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """End."""
        super().__exit__(kind, error, traceback)
        _GLOBAL.leave()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an operation of PyTorch, one that draws with the generator of its device."""
        del types
        options = dict(kwargs or {})
        if torch.Tag.nondeterministic_seeded not in func.tags or _GLOBAL.seeded() is not self:
            return func(*args, **options)
        device = _device(args, options)
        if device.type == "meta":
            return func(*args, **options)
        func = _with_generator(func)
        names = [argument.name for argument in func._schema.arguments]
        if "generator" in names:
            place = names.index("generator")
            given = args[place] if place < len(args) else options.get("generator")
            if given is None or _same(given, torch.default_generator):
                args, options["generator"] = args[:place], self.generator(device)
        elif device == _CPU:
            return self._exchanged(func, args, options)
        return func(*args, **options)

    def generator(self, device: torch.device = _CPU) -> Generator:
        """Return the generator of the draws on a device."""
        if device not in self.generators:
            self.generators[device] = Generator(device).manual_seed(self.seed)
        return self.generators[device]

    def _exchanged(self, func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """Call what draws from the global generator, which has the state of the context's meanwhile.

        So of these draws, unlike all others, one of another thread at that very moment would be a part.
        """
        own, shared = self.generator(), torch.default_generator
        with _EXCHANGE:
            before = shared.get_state()
            shared.set_state(own.get_state())
            try:
                return func(*args, **options)
            finally:
                own.set_state(shared.get_state())
                shared.set_state(before)


@contextmanager
def seeded_code(seed: int) -> Iterator[None]:
    """Seed the draws of a user's code, from the global generators of PyTorch, NumPy and Python.

    A user's code may draw in threads of its own and on any device, so the global generators themselves are
    seeded. Their states are given back at the end.

    Limits: one context at a time is open in a process, and other threads wait for it. A thread that draws
    from a global generator meanwhile, outside of such a context, takes from its draws.
    """
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    with _ONE_AT_A_TIME, torch.random.fork_rng(devices):
        before = random.getstate(), np.random.get_state()  # noqa: NPY002
        torch.default_generator.manual_seed(seed)
        if devices:
            torch.cuda.manual_seed_all(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


class _Global:
    """The stand-in for the global generator of ``torch.random`` in open contexts; each thread's own."""

    def __init__(self) -> None:
        self.own = threading.local()
        self.open = 0

    def enter(self, seeded: Seeded) -> None:
        self.own.contexts = [*self._contexts(), seeded]
        with _ENTERING:
            self.open += 1
            torch.random.default_generator = self  # type: ignore[attr-defined, assignment]

    def leave(self) -> None:
        self.own.contexts = self._contexts()[:-1]
        with _ENTERING:
            self.open -= 1
            if not self.open:
                torch.random.default_generator = torch.default_generator  # type: ignore[attr-defined]

    def seeded(self) -> Seeded | None:
        """The innermost context of the thread."""
        return next(reversed(self._contexts()), None)

    def _contexts(self) -> list[Seeded]:
        return getattr(self.own, "contexts", [])

    def __getattr__(self, name: str) -> Any:
        seeded = self.seeded()
        return getattr(torch.default_generator if seeded is None else seeded.generator(), name)


_ENTERING, _EXCHANGE = threading.Lock(), threading.Lock()
_GLOBAL = _Global()
_ONE_AT_A_TIME = threading.RLock()


def _same(one: Any, other: Any) -> bool:
    """Whether two generators are one; operations get a new Python object of what was given to them."""
    return bool(one._cdata == other._cdata)


def _with_generator(func: Any) -> Any:
    """The overload of an operation that takes a generator, or the operation where there is none."""
    names = {"default": ("generator",), "low_dtype": ("low_generator_dtype",)}
    for name in names.get(func._overloadname, (f"{func._overloadname}_generator",)):
        if name in func.overloadpacket.overloads():
            return getattr(func.overloadpacket, name)
    return func


def _device(args: Iterable[Any], options: Mapping[str, Any]) -> torch.device:
    """Where an operation draws."""
    if options.get("device") is not None:
        return torch.device(options["device"])
    tensors = (value for value in (*args, *options.values()) if isinstance(value, Tensor))
    first = next(tensors, None)
    return torch.get_default_device() if first is None else first.device
